"""torch's own attention."""

from __future__ import annotations

from tests.survey.entry import Entry

_SDPA = "torch.nn.functional:scaled_dot_product_attention"
_MHA = "torch.nn:MultiheadAttention"
_RECIPES = "tests/survey/recipes/torch_own.py"

ENTRIES: tuple[Entry, ...] = (
    Entry(_SDPA, "torch", "conforms-declared"),
    Entry(f"{_SDPA}[math]", "torch", "conforms-declared"),
    Entry(_MHA, "torch", "conforms-declared"),
    Entry(f"{_MHA}[weights]", "torch", "conforms-declared"),
    Entry(f"{_MHA}[self]", "torch", "conforms-declared"),
    Entry(f"{_RECIPES}:sdpa_causal_lower_right", "torch", "conforms-declared"),
    Entry(f"{_RECIPES}:sdpa_causal_upper_left", "torch", "conforms-declared"),
    Entry(f"{_RECIPES}:flex_attention_eager", "torch", "conforms-declared"),
    Entry(f"{_RECIPES}:flex_attention_eager_block_mask", "torch", "conforms-declared"),
)
