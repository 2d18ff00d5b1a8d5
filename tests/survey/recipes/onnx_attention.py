"""Attention of ONNX in the reference evaluator and in onnxruntime, as models of one node with free sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from attention_conformance import Deviation, register

_TYPES = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16,
          "bool": TensorProto.BOOL, "int32": TensorProto.INT32, "int64": TensorProto.INT64}  # fmt: skip

Described = tuple[tuple[str, str, int], ...]
"""Name, dtype and number of axes of each input; no name where an input is left out."""


def model(
    operator: str, domain: str, opset: int, inputs: Described, outputs: tuple[str, ...], attributes: Mapping[str, Any]
) -> bytes:
    """Return a model of one node."""
    infos = [helper.make_tensor_value_info(name, _TYPES[kind], [None] * axes) for name, kind, axes in inputs if name]
    kind = _TYPES[inputs[0][1]]
    results = [helper.make_tensor_value_info(name, kind, None) for name in outputs if name]
    node = helper.make_node(operator, [name for name, _, _ in inputs], list(outputs), domain=domain, **attributes)
    sets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    made = helper.make_model(helper.make_graph([node], "attention", infos, results), opset_imports=sets, ir_version=10)
    return made.SerializeToString()


Run = Callable[[dict[str, Any]], list[Any]]


def by_reference(made: bytes) -> Run:
    """Run a model with the evaluator that defines ONNX."""
    evaluator = ReferenceEvaluator(onnx.load_model_from_string(made))
    return lambda feed: list(evaluator.run(None, feed))


def by_runtime(made: bytes) -> Run:
    """Run a model with onnxruntime on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    return lambda feed: list(session.run(None, feed))


@lru_cache(maxsize=256)
def _ready(engine: Callable[[bytes], Run], operator: str, domain: str, opset: int, inputs: Described,
           outputs: tuple[str, ...], attributes: tuple[tuple[str, Any], ...]) -> Run:  # fmt: skip
    return engine(model(operator, domain, opset, inputs, outputs, dict(attributes)))


def call(
    engine: Callable[[bytes], Run], operator: str, domain: str, opset: int, arrays: Mapping[str, Any],
    outputs: tuple[str, ...], **attributes: Any,
) -> list[Any]:  # fmt: skip
    """Run one node; an array that is None is left out, attributes that are None are not set."""
    described = [("" if each is None else name, "" if each is None else each.dtype.name, 0 if each is None else each.ndim)
                 for name, each in arrays.items()]  # fmt: skip
    while described and not described[-1][0]:
        described.pop()
    given = tuple((name, value) for name, value in attributes.items() if value is not None)
    run = _ready(engine, operator, domain, opset, tuple(described), outputs, given)
    return run({name: np.ascontiguousarray(each) for name, each in arrays.items() if each is not None})


def attention(
    engine: Callable[[bytes], Run], opset: int, query: Any, key: Any, value: Any, mask: Any = None, *,
    causal: bool = False, scale: float | None = None, softcap: float | None = None,
) -> Any:  # fmt: skip
    """Run the operator Attention on inputs of four axes."""
    arrays = {"Q": query, "K": key, "V": value, "mask": mask}
    return call(engine, "Attention", "", opset, arrays, ("Y",), is_causal=int(causal), scale=scale, softcap=softcap)[0]


def attention_with_weights(engine: Callable[[bytes], Run], query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Run the operator Attention and return what comes after the softmax as well."""
    arrays = {"Q": query, "K": key, "V": value, "mask": mask}
    found = call(engine, "Attention", "", 23, arrays, ("Y", "", "", "weights"), qk_matmul_output_mode=3)
    return found[0], found[1]


def merged_attention(
    engine: Callable[[bytes], Run], query: Any, key: Any, value: Any, mask: Any = None, *, heads: int,
    kv_heads: int | None = None, causal: bool = False,
) -> Any:  # fmt: skip
    """Run the operator Attention on inputs of three axes, heads merged into the width."""
    arrays = {"Q": query, "K": key, "V": value, "mask": mask}
    counts = {"q_num_heads": heads, "kv_num_heads": kv_heads or heads}
    return call(engine, "Attention", "", 23, arrays, ("Y",), is_causal=int(causal), **counts)[0]


def multi_head(
    query: Any, key: Any, value: Any, mask: Any = None, *, heads: int, bias: Any = None, scale: float | None = None
) -> Any:
    """Run com.microsoft's MultiHeadAttention; a mask (B, S) or (B, L, S) is an int32 one of keys, 1 attends."""
    keys = None if mask is None else mask.astype(np.int32)
    if bias is not None:
        whole = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
        bias = np.broadcast_to(whole, (*whole.shape[:2], query.shape[1], key.shape[1]))
    arrays = {"query": query, "key": key, "value": value, "projection": None, "mask": keys, "bias": bias}
    return call(by_runtime, "MultiHeadAttention", "com.microsoft", 21, arrays, ("Y",), num_heads=heads, scale=scale)[0]


def multi_head_causal(query: Any, key: Any, value: Any, mask: Any = None, *, heads: int) -> Any:
    """Run com.microsoft's MultiHeadAttention with `unidirectional`."""
    arrays = {"query": query, "key": key, "value": value}
    return call(by_runtime, "MultiHeadAttention", "com.microsoft", 21, arrays, ("Y",), num_heads=heads,
                unidirectional=1)[0]  # fmt: skip


def grouped_query(
    query: Any, key: Any, value: Any, mask: Any = None, *, heads: int, kv_heads: int | None = None,
    scale: float | None = None, softcap: float | None = None,
) -> Any:  # fmt: skip
    """Run com.microsoft's GroupQueryAttention on a whole sequence: as many queries as keys, the last ones of them hidden."""
    batch, length = key.shape[:2]
    lengths = np.full((batch,), length, np.int32) if mask is None else mask.astype(np.int32)
    arrays = {"query": query, "key": key, "value": value, "past_key": None, "past_value": None,
              "seqlens_k": lengths - np.int32(1), "total": np.array([length], np.int32)}  # fmt: skip
    counts = {"num_heads": heads, "kv_num_heads": kv_heads or heads}
    outputs = ("Y", "present_key", "present_value")
    return call(by_runtime, "GroupQueryAttention", "com.microsoft", 21, arrays, outputs, scale=scale, softcap=softcap,
                **counts)[0]  # fmt: skip


_SHORT = Deviation("ERRORS-005", reason="the operator pads a mask that is too short with -inf, by its specification")
_ANSWERS: dict[str, Any] = {
    "framework": "numpy", "leading": "equal", "second": None, "empty_row": "zeros", "no_keys": "error",
}  # fmt: skip
_OPERATOR: dict[str, Any] = {
    **_ANSWERS, "layout": "BHLD", "heads": "grouped", "mask": ("bool", "additive"),
}  # fmt: skip
_REFERENCE: dict[str, Any] = {
    **_OPERATOR, "mask_shapes": ("LS", "BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S"), "deviations": (_SHORT,),
}  # fmt: skip
_RUNTIME: dict[str, Any] = {
    **_OPERATOR, "mask_shapes": ("LS", "BHLS", "B1LS", "1HLS", "11LS"), "dtypes": ("fp32",),
}  # fmt: skip
_MERGED: dict[str, Any] = {**_ANSWERS, "layout": "BL(HD)", "dtypes": ("fp32",)}

reference_23 = register(
    partial(attention, by_reference, 23), name="onnx.reference Attention, opset 23", causal="top-left",
    options=("softcap",), **_REFERENCE,
)  # fmt: skip
reference_24 = register(
    partial(attention, by_reference, 24), name="onnx.reference Attention, opset 24", causal="top-left",
    options=("softcap",), **_REFERENCE,
)  # fmt: skip
reference_scaled = register(
    partial(attention, by_reference, 23), name="onnx.reference Attention, with a scale", options=("scale",),
    **_REFERENCE,
)  # fmt: skip
reference_weights = register(
    partial(attention_with_weights, by_reference), name="onnx.reference Attention, with weights",
    **{**_REFERENCE, "second": "weights"},
)  # fmt: skip
reference_merged = register(
    partial(merged_attention, by_reference), name="onnx.reference Attention, 3 axes", causal="top-left",
    **{**_REFERENCE, "layout": "BL(HD)"},
)  # fmt: skip
runtime_23 = register(
    partial(attention, by_runtime, 23), name="onnxruntime Attention, opset 23", causal="top-left",
    options=("softcap",), **_RUNTIME,
)  # fmt: skip
runtime_24 = register(
    partial(attention, by_runtime, 24), name="onnxruntime Attention, opset 24", causal="top-left",
    options=("softcap",), **_RUNTIME,
)  # fmt: skip
runtime_weights = register(
    partial(attention_with_weights, by_runtime), name="onnxruntime Attention, with weights",
    **{**_RUNTIME, "second": "weights"},
)  # fmt: skip
runtime_merged = register(
    partial(merged_attention, by_runtime), name="onnxruntime Attention, 3 axes", causal="top-left",
    **{**_RUNTIME, "layout": "BL(HD)"},
)  # fmt: skip
runtime_multi_head = register(
    multi_head, name="onnxruntime com.microsoft MultiHeadAttention", mask=("bool",), mask_shapes=("BS", "BLS"),
    options=("bias",), **{**_MERGED, "empty_row": "unspecified", "no_keys": "zeros"},
)  # fmt: skip
runtime_multi_head_causal = register(
    multi_head_causal, name="onnxruntime com.microsoft MultiHeadAttention, unidirectional", causal="always top-left",
    mask=(), **{**_MERGED, "no_keys": "zeros"},
)  # fmt: skip
runtime_grouped_query = register(
    grouped_query, name="onnxruntime com.microsoft GroupQueryAttention", heads="grouped", lengths="equal",
    value_width="same", widths=(8, 16, 32, 64, 128), causal="always bottom-right", mask=(), options=("softcap",),
    **_MERGED,
)  # fmt: skip
