"""The attention functions of the package transformers: one per file of a model, and those shared by all models.

All are called with the module that uses them, of which they read a few attributes; a stand-in holds these here.
They take query (B, H, L, D), key (B, H or fewer, S, D) and value, an additive mask of four axes, and give (B, L, H, E).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from .adapter import Adapter
from .torch_attention import ALL_DTYPES, SWALLOWED_NAN, VALUE_LENGTH

EAGER = "transformers.models.*:eager_attention_forward"
SDPA = "transformers.integrations.sdpa_attention:sdpa_attention_forward"
FLEX = "transformers.integrations.flex_attention:flex_attention_forward"

FOUR_AXES = ("11LS", "111S", "B11S", "B1LS", "1HLS", "BH1S", "BHLS")
"""Shapes of mask that a model of transformers makes: always four axes."""


def eager(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *,
    scale: float | None = None, softcap: float | None = None, bias: Tensor | None = None,
) -> Any:  # fmt: skip
    """Call a model's own function; a sink, where it has one, is the lowest number, which takes nothing of a row."""
    from types import SimpleNamespace

    module = SimpleNamespace(
        training=False, is_causal=False, head_dim=query.shape[-1],
        num_key_value_groups=query.shape[1] // key.shape[1],
        sinks=query.new_full((query.shape[1],), torch.finfo(query.dtype).min),
    )  # fmt: skip
    given = {"softcap": softcap, "position_bias": bias}
    options = {name: option for name, option in given.items() if option is not None}
    scaling = query.shape[-1] ** -0.5 if scale is None else scale
    output, weights = function(module, query, key, value, mask, scaling=scaling, dropout=0.0, **options)
    return output.transpose(1, 2), weights


def sdpa(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *,
    causal: bool = False, scale: float | None = None, bias: Tensor | None = None,
) -> Any:  # fmt: skip
    """Call the function that hands over to torch's scaled_dot_product_attention."""
    from types import SimpleNamespace

    module = SimpleNamespace(training=False, num_key_value_groups=query.shape[1] // key.shape[1])
    options = {} if bias is None else {"position_bias": bias}
    output, _ = function(module, query, key, value, mask, scaling=scale, is_causal=causal, **options)
    return output.transpose(1, 2)


def flex(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *,
    scale: float | None = None, softcap: float | None = None, bias: Tensor | None = None,
) -> Any:  # fmt: skip
    """Call the function that hands over to torch's flex_attention, uncompiled; a boolean mask is made a block mask."""
    from types import SimpleNamespace

    from torch.nn.attention.flex_attention import create_block_mask

    hidden: Any = mask
    if mask is not None and mask.dtype == torch.bool:
        batch, heads, queries, keys = *query.shape[:3], key.shape[2]
        kept = mask.expand(batch, heads, queries, keys)
        hidden = create_block_mask(
            lambda b, h, q, k: kept[b, h, q, k], batch, heads, queries, keys, device=query.device.type
        )
    module = SimpleNamespace(training=False)
    with torch.compiler.set_stance("force_eager"):
        output, _ = function(module, query, key, value, hidden, scaling=scale, softcap=softcap, position_bias=bias)
    return output.transpose(1, 2)


def answers(function: Any) -> Mapping[str, Any]:
    """Return what a model's own function does, read off the names in its code.

    The functions are copies of a few: with or without repeated key heads, a softmax in float32, a cap, a bias, a sink.
    A sink takes part in the softmax, so that it takes all of a row without a key, unless it is a factor afterwards.
    """
    code: CodeType = inspect.unwrap(function).__code__
    words = _words(code)
    options = {"softcap": "softcap", "bias": "position_bias"}
    has_sink = "sinks" in code.co_names and "logsumexp" not in words
    return {
        **_EAGER,
        "empty_row": "zeros" if has_sink else "nan",
        "heads": "grouped" if "num_key_value_groups" in words else "equal",
        "precision": "softmax32" if "float32" in words else "eager",
        "options": ("scale", *(option for option, word in options.items() if word in words)),
    }


def _words(code: CodeType) -> set[str]:
    """Return the names and texts that occur in code."""
    inner = [_words(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    texts = {constant for constant in code.co_consts if isinstance(constant, str)}
    return {*code.co_names, *code.co_varnames}.union(texts, *inner)


_EAGER: Mapping[str, Any] = {
    "layout": "BHLD", "leading": "equal", "mask": ("additive",), "mask_shapes": FOUR_AXES, "empty_row": "nan",
    "second": "weights", "dtypes": ALL_DTYPES,
}  # fmt: skip

_SDPA: Mapping[str, Any] = {
    "layout": "BHLD", "leading": "equal", "heads": "grouped", "mask": ("bool", "additive"), "mask_shapes": FOUR_AXES,
    "empty_row": "zeros", "second": None, "gradient": "once", "precision": "fused", "options": ("scale",),
    "dtypes": ALL_DTYPES,
}  # fmt: skip

_FLEX: Mapping[str, Any] = {
    "layout": "BHLD", "leading": "equal", "heads": "grouped", "mask": ("bool",), "mask_shapes": FOUR_AXES,
    "empty_row": "zeros", "no_keys": "error", "second": None, "gradient": "none", "precision": "fused",
    "options": ("scale", "softcap"), "dtypes": ALL_DTYPES,
}  # fmt: skip

_SCORES_IN_FLOAT32: Mapping[str, Any] = {
    **_EAGER, "precision": "fused", "options": ("scale",), "dtypes": ("fp32", "bf16", "fp16"),
}  # fmt: skip
"""Products of query and key are taken in float32, so that float64 gains nothing."""

FUNCTION_ADAPTERS: tuple[Adapter, ...] = (
    *(
        Adapter(
            f"transformers.models.{model}.*:eager_attention_forward", "the model's own function, scores in float32",
            eager, {**_SCORES_IN_FLOAT32, **changed},
        )
        for model, changed in (("gptj", {}), ("codegen", {}), ("flint", {"heads": "grouped", "empty_row": "zeros"}))
    ),
    Adapter(EAGER, "the model's own function", eager, answers),
    Adapter(SDPA, "torch's scaled_dot_product_attention", sdpa, _SDPA, deviations=(VALUE_LENGTH, SWALLOWED_NAN)),
    Adapter(
        SDPA, "is_causal=True, no mask", sdpa, {**_SDPA, "mask": (), "causal": "top-left"}, variant="causal",
        deviations=(VALUE_LENGTH, SWALLOWED_NAN),
    ),
    Adapter(
        SDPA, "with a position bias", sdpa, {**_SDPA, "options": ("scale", "bias"), "empty_row": "unspecified"},
        variant="bias", deviations=(VALUE_LENGTH, SWALLOWED_NAN),
    ),
    Adapter(FLEX, "torch's flex_attention, not compiled, with a block mask", flex, _FLEX),
    Adapter(
        FLEX, "torch's flex_attention, not compiled, with a mask that is added", flex,
        {**_FLEX, "mask": ("additive",), "mask_shapes": ("B1LS", "BHLS")}, variant="additive",
    ),
)  # fmt: skip
"""Every way to call the functions of transformers that is judged."""
