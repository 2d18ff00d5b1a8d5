"""How modules of the package transformers are built from a small configuration of their own model, and called.

Reproductions show these functions as they stand, so that each imports what it uses besides torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def from_config(
    target: Any, d_model: int, heads: int, *, attention: str = "eager", causal: bool = False, groups: int = 1,
    **more: Any,
) -> Any:  # fmt: skip
    """Build a module from the configuration of its model, of this size, without dropout, window or cap.

    `groups` query heads share a key head, all where these do not divide; `more` are further arguments of the class.
    """
    import inspect
    import sys
    from itertools import takewhile
    from typing import get_args

    width = d_model // heads
    sizes = {
        "hidden_size": d_model, "embed_dim": d_model, "dim": d_model, "head_dim": width, "d_kv": width,
        "num_attention_heads": heads, "num_heads": heads, "n_heads": heads, "num_kv_heads": heads,
        "num_key_value_heads": 1 if heads % groups else heads // groups, "multi_query": False, "layer_idx": 0,
        "attention_multiplier": width**-0.5, "query_pre_attn_scalar": width, "attn_logit_softcapping": None,
        "dropout": 0.0, "downsample_rate": 1, "alibi": False, "new_decoder_architecture": False, **more,
    }  # fmt: skip
    asked = inspect.signature(target.__init__).parameters
    given = asked["config"].annotation if "config" in asked else None
    scope = vars(sys.modules[target.__module__])
    classes = [each for each in scope.values() if inspect.isclass(each) and each.__name__.endswith("Config")]
    # The one that is asked for, else the one whose name begins most like that of the class.
    shared = {}
    for each in classes:
        pairs = zip(each.__name__, target.__name__, strict=False)
        shared[each] = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
    classes.sort(key=lambda each: shared[each], reverse=True)
    classes = [each for each in (given, *get_args(given), *classes) if hasattr(each, "model_type")]
    config: Any = next(made for made in (each() for each in classes) if hasattr(made, "num_attention_heads"))
    for name, value in list(vars(config).items()):
        if "drop" in name and type(value) is float:
            setattr(config, name, 0.0)
    for name, value in sizes.items():
        if hasattr(config, name) and not isinstance(getattr(type(config), name, None), property):
            setattr(config, name, value)
    config._attn_implementation = attention
    sizes["config"] = config
    module = target(**{name: sizes[name] for name in asked if name in sizes})
    if hasattr(module, "is_causal"):
        module.is_causal = causal
    return module


def one(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call a module with one tensor, and no position embeddings."""
    return module(query, attention_mask=mask)[:2]


def turned(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call a module that turns query and key by their position with one tensor, at position 0 throughout."""
    widths = [getattr(module, name, None) for name in ("rotary_ndims", "head_dim", "head_size")]
    cosine = query.new_ones(1, query.shape[1], next(width for width in widths if width is not None))
    return module(query, attention_mask=mask, position_embeddings=(cosine, cosine - 1))[:2]


def context(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *,
    source: str = "key_value_states", hide: str = "attention_mask",
) -> Any:  # fmt: skip
    """Call a module with a second tensor, which is key and value."""
    result = module(query, **{source: key, hide: mask})
    return result[0], result[-1]


def points(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call a module that takes (B, points, L, width), with one point."""
    output, weights = module(query[:, None], key[:, None], value[:, None], attention_similarity=mask)
    return output[:, 0], weights


def bloom(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call Bloom's module without a residual and without a slope by distance."""

    slope = query.new_zeros(query.shape[0] * module.num_heads, 1, query.shape[1])
    return module(query, torch.zeros_like(query), slope, mask)


def falcon(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call Falcon's module, at position 0 throughout; it always takes a mask."""
    mask = query.new_zeros(1, 1, 1, query.shape[1]) if mask is None else mask
    cosine = query.new_ones(1, query.shape[1], module.head_dim)
    return module(query, None, mask, position_embeddings=(cosine, cosine - 1))


def mpt(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call MPT's module without a slope by distance."""
    return module(query, None, attention_mask=mask)


def xlm(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call XLM's module, which always takes a mask: (B, S) or (B, L, S)."""

    mask = torch.ones(key.shape[:2], dtype=torch.bool, device=key.device) if mask is None else mask
    return module(query, mask, kv=key, output_attentions=True)


def fsmt(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call FSMT's module, for tensors (L, B, width); a boolean mask is one of padding."""

    masks = {}
    if mask is not None:
        masks = {"key_padding_mask": mask[:, 0, 0]} if mask.dtype == torch.bool else {"attn_mask": mask}
    return module(query, key, output_attentions=True, **masks)
