"""The package transformers: its functions, one for each that differs, and modules of every family.

Modules are named by the model's file and the class; a variant says which function a module hands over to.
"""

from __future__ import annotations

from tests.survey.entry import Entry

PACKAGE = "transformers"
EAGER = "eager_attention_forward"
SDPA = "transformers.integrations.sdpa_attention:sdpa_attention_forward"
FLEX = "transformers.integrations.flex_attention:flex_attention_forward"


def _place(model: str, name: str) -> str:
    return f"transformers.models.{model}.modeling_{model}:{name}"


def _sound(model: str, *names: str) -> tuple[Entry, ...]:
    return tuple(Entry(_place(model, name), PACKAGE, "conforms-declared") for name in names)


_FUNCTIONS = (
    "bert bigbird_pegasus clip evolla flint gemma2 gpt2 gpt_oss gptj granite_swa idefics2 inkling2 internvl kosmos2 llama "
    "llama4 mimo_v2_flash openai_privacy_filter t5 vit"
)
"""Models whose own function differs from that of the others in this list."""

_MASKED = (
    "ERRORS-005 GRADIENT-002 GRADIENT-005 GRADIENT-008 GRADIENT-009 GRADIENT-011 GRADIENT-012 GRADIENT-014 GRADIENT-016 "
    "IDENTITY-001 IDENTITY-004 MASK-002 MASK-003 MASK-004 MASK-006 MASK-008 MASK-010 MASK-011 MASK-012 MASK-014 MASK-015 "
    "MASK-016 OPTIONS-001 OPTIONS-013 OPTIONS-015 PURITY-001 PURITY-003 PURITY-008 PURITY-011 PURITY-013 SHAPE-005 "
    "SNAPSHOT-001 SNAPSHOT-002 SNAPSHOT-003 SYMMETRY-007 WEIGHTS-002 WEIGHTS-003 WEIGHTS-008"
)
"""Rules with a mask, all of which depart where it is ignored."""

_ADDED = (
    "GRADIENT-002 GRADIENT-008 GRADIENT-009 GRADIENT-011 GRADIENT-012 GRADIENT-014 GRADIENT-016 MASK-001 MASK-002 "
    "MASK-003 MASK-004 MASK-008 MASK-010 MASK-011 MASK-012 MASK-015 MASK-016 PROJECTION-001 PROJECTION-003 "
    "PROJECTION-005 PROJECTION-007 PROJECTION-010 PURITY-001 PURITY-003 PURITY-007 PURITY-011 PURITY-013 "
    "SNAPSHOT-001 SNAPSHOT-002 SNAPSHOT-003 SNAPSHOT-004 WEIGHTS-002 WEIGHTS-003 WEIGHTS-008"
)
"""Rules with a boolean mask, all of which depart where it is added."""

_RESHAPED = (
    "sdpa_attention_forward reshapes the output to (batch, -1, queries, width), and -1 is undetermined where there are "
    "no queries or no batch elements, so that it raises."
)
_LOWEST = (
    "forward writes the lowest number of the working dtype over hidden scores and then turns them into float32, where "
    "that of float64 is -inf: in float64 a row without a key is NaN, in the other dtypes the mean of all keys."
)
_VIEW = "Conv1D (pytorch_utils.py) reads its input with view, which refuses one that is not contiguous."

ENTRIES: tuple[Entry, ...] = (
    *(entry for model in _FUNCTIONS.split() for entry in _sound(model, EAGER)),
    Entry(
        _place("vjepa2", EAGER), PACKAGE, "departs", rules=tuple(_MASKED.split()),
        why="eager_attention_forward (modeling_vjepa2.py) takes an attention_mask and does not use it.",
    ),
    Entry(
        _place("modernbert_decoder", EAGER), PACKAGE, "broken", rules=("SHAPE-001",),
        why="eager_attention_forward (modeling_modernbert_decoder.py) adds the attention_mask to the scores also where "
        "it is None, which its signature allows, and raises.",
    ),
    Entry(SDPA, PACKAGE, "departs", rules=("SHAPE-012", "SHAPE-016"), why=_RESHAPED),
    Entry(
        f"{SDPA}[causal]", PACKAGE, "departs", rules=("CAUSAL-003", "SHAPE-012", "SHAPE-016"),
        why="With is_causal=True several queries are aligned with the first key, and a single one sees every key, as "
        f"one that is decoded shall. {_RESHAPED}",
    ),
    Entry(f"{SDPA}[bias]", PACKAGE, "departs", rules=("SHAPE-012", "SHAPE-016"), why=_RESHAPED),
    Entry(FLEX, PACKAGE, "conforms-declared"),
    Entry(
        f"{FLEX}[additive]", PACKAGE, "departs",
        rules=(
            "ERRORS-005", "MASK-003", "MASK-004", "MASK-006", "MASK-010", "MASK-011", "OPTIONS-001", "OPTIONS-007",
            "SNAPSHOT-001", "SYMMETRY-011",
        ),
        why="score_mod in flex_attention_forward reads head 0 of an additive mask for every head.",
    ),
    *_sound("bart", "BartAttention", "BartAttention[sdpa]", "BartAttention[cross]"),
    *_sound("bert", "BertSelfAttention", "BertSelfAttention[sdpa]", "BertCrossAttention"),
    *_sound("bloom", "BloomAttention"),
    *_sound("clip", "CLIPAttention"),
    *_sound("cohere", "CohereAttention"),
    *_sound("detr", "DetrSelfAttention", "DetrCrossAttention"),
    *_sound("distilbert", "DistilBertSelfAttention"),
    *_sound("falcon", "FalconAttention", "FalconAttention[sdpa]"),
    *_sound("fsmt", "Attention", "Attention[padding]"),
    *_sound("gemma2", "Gemma2Attention"),
    *_sound("gpt_neox", "GPTNeoXAttention"),
    *_sound("granite", "GraniteAttention"),
    *_sound("llama", "LlamaAttention", "LlamaAttention[sdpa]", "LlamaAttention[causal]", "LlamaAttention[grouped]"),
    *_sound("mistral", "MistralAttention"),
    *_sound("modernbert", "ModernBertAttention"),
    *_sound("opt", "OPTAttention"),
    *_sound("phi", "PhiAttention"),
    *_sound("qwen2", "Qwen2Attention"),
    *_sound("sam", "SamAttention", "SamAttention[sdpa]"),
    *_sound("speecht5", "SpeechT5Attention"),
    *_sound("t5", "T5Attention", "T5Attention[sdpa]"),
    *_sound("vit", "ViTAttention"),
    *_sound("wav2vec2", "Wav2Vec2Attention"),
    *_sound("whisper", "WhisperAttention"),
    Entry(_place("gpt2", "GPT2Attention"), PACKAGE, "departs", rules=("MEMORY-001", "MEMORY-003"), why=_VIEW),
    Entry(_place("mpt", "MptAttention"), PACKAGE, "departs", rules=("MASK-002",), why=_LOWEST),
    Entry(_place("xlm", "MultiHeadAttention"), PACKAGE, "departs", rules=("MASK-002",), why=_LOWEST),
    *_sound("kosmos2_5", "Kosmos2_5VisionAttention"),
    Entry(
        _place("kosmos2_5", "Kosmos2_5VisionAttention[sdpa]"), PACKAGE, "departs", rules=tuple(_ADDED.split()),
        settings={"second": "weights", "precision": "softmax32", "gradient": "twice", "empty_row": "nan"},
        why="Kosmos2_5VisionAttention.forward looks the chosen function up as an attribute of a mapping, finds none, and "
        "calls its own one, to which a boolean mask is a number that it adds.",
    ),
)  # fmt: skip
