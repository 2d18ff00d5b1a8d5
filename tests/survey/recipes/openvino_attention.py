"""OpenVINO's ScaledDotProductAttention on the CPU, compiled for every combination of inputs with free sizes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import openvino
from openvino import opset13

from attention_conformance import register


@lru_cache(maxsize=64)
def _compiled(kinds: tuple[tuple[str, int], ...], causal: bool, precision: str | None) -> Any:
    given = [opset13.parameter([-1] * axes, openvino.Type(np.dtype(kind))) for kind, axes in kinds]
    masked = {"attention_mask": given[3]} if len(given) > 3 else {}
    node = opset13.scaled_dot_product_attention(*given[:3], causal=causal, **masked)
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": 1, **({"INFERENCE_PRECISION_HINT": precision} if precision else {})}
    return core.compile_model(openvino.Model([node], given), "CPU", settings)


def _run(precision: str | None, arrays: list[Any], causal: bool) -> Any:
    kinds = tuple((each.dtype.name, each.ndim) for each in arrays)
    found = _compiled(kinds, causal, precision)([np.ascontiguousarray(each) for each in arrays])
    return np.array(next(iter(found.values())))


def in_fp32(query: Any, key: Any, value: Any, mask: Any = None, *, causal: bool = False) -> Any:
    """Attend with INFERENCE_PRECISION_HINT=f32."""
    return _run("f32", [query, key, value] if mask is None else [query, key, value, mask], causal)


def by_default(query: Any, key: Any, value: Any, mask: Any = None, *, causal: bool = False) -> Any:
    """Attend in the precision that the plugin chooses for this processor."""
    return _run(None, [query, key, value] if mask is None else [query, key, value, mask], causal)


_ANSWERS: dict[str, Any] = {
    "framework": "numpy", "layout": "BHLD", "leading": "equal", "mask": ("bool", "additive"),
    "mask_shapes": ("LS", "BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S"), "second": None,
    "causal": "top-left", "causal_with_mask": "unspecified", "empty_row": "nan", "no_keys": "unspecified", "dtypes": ("fp32",),
}  # fmt: skip

sdpa_f32 = register(in_fp32, **_ANSWERS)
sdpa_default = register(by_default, **_ANSWERS)
