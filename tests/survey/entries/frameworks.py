"""Kernels and modules of other frameworks: JAX and what is built on it, keras, ONNX, OpenVINO, mlx, tinygrad."""

from __future__ import annotations

from tests.survey.entry import Entry

_RECIPES = "tests/survey/recipes/"


def _entry(
    target: str, package: str, framework: str, verdict: str, why: str = "", rules: tuple[str, ...] = ()
) -> Entry:
    # JAX compiles for every shape in every dtype; one dtype of each of its libraries has to do.
    one_dtype = framework == "jax" and "fp64" not in target
    settings = {"dtypes": "fp32"} if one_dtype else {}
    return Entry(_RECIPES + target, package, verdict, framework, why, rules, settings)


_EMPTY_ROW = (
    "keras fills hidden scores with a large finite number and calls torch's scaled_dot_product_attention; in the backward "
    "pass of torch's flash kernel for the CPU a row whose keys are all hidden that way gives each key the weight 1 "
    "instead of 1/S (keras/src/backend/torch/nn.py: dot_product_attention)"
)
_NO_QUERIES = "an empty list of queries is refused (onnxruntime/core/providers/cpu/llm/attention_parameters.h)"
_CLAMPED = (
    "slices are clamped to what is there, so that of 1025 keys in chunks of 1024 some count twice, and batches that "
    "differ are not refused"
)
_EPSILON = "1e-10 is added to the sum that the output is divided by, which fp64 shows"

ENTRIES: tuple[Entry, ...] = (
    _entry("jax_nn.py:dot_product_attention", "jax", "jax", "conforms-declared"),
    _entry("jax_nn.py:dot_product_attention_lse", "jax", "jax", "conforms-declared"),
    _entry("flax_attention.py:linen_dot_product_attention", "flax", "jax", "conforms-declared"),
    _entry("flax_attention.py:nnx_dot_product_attention", "flax", "jax", "conforms-declared"),
    _entry("flax_attention.py:linen_multi_head", "flax", "jax", "conforms-declared"),
    _entry("flax_attention.py:nnx_multi_head", "flax", "jax", "conforms-declared"),
    _entry("equinox_haiku.py:equinox_multi_head", "equinox", "jax", "conforms-declared"),
    _entry("equinox_haiku.py:haiku_multi_head", "dm-haiku", "jax", "conforms-declared"),
    _entry("equinox_haiku.py:equimo_attention", "equimo", "jax", "conforms-declared"),
    _entry("jax_kernels.py:attnax_standard", "attnax", "jax", "conforms-declared"),
    _entry("jax_kernels.py:attnax_flash", "attnax", "jax", "conforms-declared"),
    _entry("jax_kernels.py:attnax_memory_efficient", "attnax", "jax", "conforms-declared"),
    _entry(
        "jax_kernels.py:attnax_memory_efficient_fp64", "attnax", "jax", "departs",
        f"{_EPSILON} (attnax/kernels/attention.py: memory_efficient_attention)", ("NUMERIC-002",),
    ),
    _entry(
        "jax_kernels.py:flash_attention", "flash-attention-jax", "jax", "departs",
        f"{_CLAMPED} (flash_attention_jax/flash_attention.py)", ("ERRORS-003", "SHAPE-014"),
    ),
    _entry(
        "jax_kernels.py:flash_attention_fp64", "flash-attention-jax", "jax", "departs",
        f"{_EPSILON} (flash_attention_jax/flash_attention.py: EPSILON); {_CLAMPED}",
        (
            "CAUSAL-001", "ERRORS-003", "GRADIENT-001", "GRADIENT-002", "GRADIENT-003", "GRADIENT-005", "GRADIENT-006",
            "GRADIENT-007", "GRADIENT-010", "IDENTITY-001", "IDENTITY-002", "MASK-003", "MASK-004", "MASK-008",
            "MASK-010", "MASK-011", "MASK-012", "MASK-015", "MASK-016", "MEMORY-001", "MEMORY-002", "MEMORY-003",
            "NUMERIC-002", "NUMERIC-003", "NUMERIC-004", "NUMERIC-005", "NUMERIC-006", "NUMERIC-007", "NUMERIC-008",
            "NUMERIC-016", "NUMERIC-017", "PURITY-001", "PURITY-003", "PURITY-011", "PURITY-013", "SHAPE-003",
            "SHAPE-005", "SHAPE-006", "SHAPE-007", "SHAPE-008", "SHAPE-009", "SHAPE-014", "SNAPSHOT-001",
            "SNAPSHOT-003", "SYMMETRY-009",
        ),
    ),
    _entry(
        "jax_kernels.py:causal_flash_attention", "flash-attention-jax", "jax", "departs",
        "slices are clamped to what is there, so that of 1025 keys in chunks of 1024 some count twice "
        "(flash_attention_jax/causal_flash_attention.py)", ("SHAPE-014",),
    ),
    _entry("jax_kernels.py:plain_attention", "flash-attention-jax", "jax", "conforms-declared"),
    _entry("memory_efficient_jax.py:efficient_attention", "memory-efficient-attention", "jax", "conforms-declared"),
    _entry(
        "memory_efficient_jax.py:efficient_attention_in_chunks", "memory-efficient-attention", "jax", "departs",
        "where the chunk size does not divide the number of keys the last slice is clamped and some keys count twice "
        "(memory_efficient_attention/attention_jax.py: chunk_scanner)", (
            "GRADIENT-003", "MASK-001", "MASK-002", "MASK-011", "MASK-014", "MASK-016", "NUMERIC-002", "PURITY-001",
        ),
    ),
    _entry("keras_attention.py:dot_product_attention", "keras", "keras", "departs", _EMPTY_ROW, ("SNAPSHOT-003",)),
    _entry(
        "keras_attention.py:dot_product_attention_fp64", "keras", "keras", "broken",
        "fp64 comes back as fp32 (keras/src/backend/torch/nn.py: compute_dtype)",
    ),
    _entry("keras_attention.py:attention", "keras", "keras", "conforms-declared"),
    _entry("keras_attention.py:multi_head_attention", "keras", "keras", "departs", _EMPTY_ROW, ("SNAPSHOT-003",)),
    _entry("keras_attention.py:group_query_attention", "keras", "keras", "departs", _EMPTY_ROW, ("SNAPSHOT-003",)),
    _entry(
        "onnx_attention.py:reference_23", "onnx", "onnx", "departs",
        "with is_causal the triangle takes its number of queries from the mask, so that under a mask with one row every "
        "query sees the first key only (onnx/reference/ops/op_attention.py: _apply_causal)", ("CAUSAL-006",),
    ),
    _entry(
        "onnx_attention.py:reference_24", "onnx", "onnx", "departs",
        "with is_causal the triangle takes its number of queries from the mask, so that under a mask with one row every "
        "query sees the first key only (onnx/reference/ops/op_attention.py: _apply_causal)", ("CAUSAL-006",),
    ),
    _entry(
        "onnx_attention.py:reference_scaled", "onnx", "onnx", "departs",
        "the root of the scale multiplies query and key: a negative scale gives NaN, and in fp64 the root is as exact as "
        "fp32 (onnx/reference/ops/op_attention.py: _compute_attention)", ("OPTIONS-001", "OPTIONS-014"),
    ),
    _entry("onnx_attention.py:reference_weights", "onnx", "onnx", "conforms-declared"),
    _entry(
        "onnx_attention.py:reference_merged", "onnx", "onnx", "departs",
        "the triangle takes its number of queries from the mask, and an output without queries cannot be merged "
        "(onnx/reference/ops/op_attention.py)", ("CAUSAL-006", "SHAPE-012"),
    ),
    _entry("onnx_attention.py:runtime_23", "onnxruntime", "onnxruntime", "departs", _NO_QUERIES, ("SHAPE-012",)),
    _entry("onnx_attention.py:runtime_24", "onnxruntime", "onnxruntime", "departs", _NO_QUERIES, ("SHAPE-012",)),
    _entry("onnx_attention.py:runtime_weights", "onnxruntime", "onnxruntime", "departs", _NO_QUERIES, ("SHAPE-012",)),
    _entry("onnx_attention.py:runtime_merged", "onnxruntime", "onnxruntime", "departs", _NO_QUERIES, ("SHAPE-012",)),
    _entry(
        "onnx_attention.py:runtime_multi_head", "onnxruntime", "onnxruntime", "departs",
        "hidden scores get -10000 added (attribute mask_filter_value), which a higher score than that survives",
        ("MASK-016",),
    ),
    _entry(
        "onnx_attention.py:runtime_multi_head_causal", "onnxruntime", "onnxruntime", "departs",
        "with `unidirectional` and fewer queries than keys the last query sees every key, the others an upper-left triangle",
        (
            "CAUSAL-001", "CAUSAL-003", "MEMORY-002", "NUMERIC-002", "NUMERIC-003", "NUMERIC-007", "NUMERIC-009", "NUMERIC-016",
            "NUMERIC-017", "PURITY-003", "PURITY-011", "SHAPE-005", "SHAPE-006", "SHAPE-007", "SHAPE-008", "SHAPE-009", "SHAPE-014",
        ),
    ),
    _entry(
        "onnx_attention.py:runtime_grouped_query", "onnxruntime", "onnxruntime", "broken",
        "an empty batch ends the process with a division by zero (GroupQueryAttention on the CPU)", ("SHAPE-012",),
    ),
    _entry(
        "openvino_attention.py:sdpa_f32", "openvino", "openvino", "departs",
        "with free sizes no shape is checked: keys, values, batches, heads and masks that do not fit give an output "
        "(ScaledDotProductAttention of the CPU plugin)",
        ("ERRORS-001", "ERRORS-002", "ERRORS-003", "ERRORS-004", "ERRORS-005", "ERRORS-009"),
    ),
    _entry("mlx_attention.py:scaled_dot_product_attention", "mlx", "mlx", "conforms-declared"),
    _entry("mlx_attention.py:multi_head_attention", "mlx", "mlx", "conforms-declared"),
    _entry("tinygrad_attention.py:scaled_dot_product_attention", "tinygrad", "tinygrad", "conforms-declared"),
)  # fmt: skip
