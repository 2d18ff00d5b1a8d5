"""Packages over torch other than transformers."""

from __future__ import annotations

from tests.survey.entry import Entry

_RECIPES = "tests/survey/recipes"
_MEA = "memory_efficient_attention_pytorch.memory_efficient_attention"
_RING = "ring_attention_pytorch.ring_attention:default_attention"
_OK = "conforms-declared"
_DEPARTS = "departs"

_REGROUPED = (
    "reshapes key and value to the batch of the query with view(batch, -1, ...), so that a key of another batch size "
    "is regrouped instead of refused"
)

_ADAPTED: tuple[Entry, ...] = (
    Entry(
        "x_transformers.x_transformers:Attention", "x-transformers", _DEPARTS,
        why="In fp64 the fill -finfo(fp64).max overflows to -inf in the fp32 softmax of Attend.forward "
        "(x_transformers/attend.py), so that a row without a key gets NaN gradients although its output is set to"
        " zero.",
        rules=("GRADIENT-003",),
    ),
    Entry(
        "x_transformers.x_transformers:Attention[flash]", "x-transformers", _DEPARTS,
        why="Attend (x_transformers/attend.py) keeps members of torch's SDPBackend, which pickle does not find by "
        "name, so that the module cannot be pickled.",
        rules=("PROJECTION-006",),
    ),
    Entry(f"{_MEA}:attention", "memory-efficient-attention-pytorch", _OK),
    Entry(
        f"{_MEA}:memory_efficient_attention", "memory-efficient-attention-pytorch", _DEPARTS,
        why="memory_efficient_attention (memory_efficient_attention_pytorch/memory_efficient_attention.py) adds "
        "eps=1e-8 to the denominator of the softmax, which is felt in fp64.",
        rules=(
            "CAUSAL-001", "CAUSAL-003", "CAUSAL-004", "CAUSAL-005", "CAUSAL-006", "GRADIENT-001", "GRADIENT-002",
            "GRADIENT-003", "GRADIENT-004", "GRADIENT-005", "GRADIENT-006", "GRADIENT-007", "GRADIENT-010",
            "IDENTITY-001", "IDENTITY-002", "IDENTITY-005", "MASK-001", "MASK-002", "MASK-003", "MASK-004", "MASK-008",
            "MASK-010", "MASK-011", "MASK-012", "MASK-014", "MASK-015", "MASK-016", "MEMORY-001", "MEMORY-002",
            "MEMORY-003", "NUMERIC-002", "NUMERIC-003", "NUMERIC-004", "NUMERIC-005", "NUMERIC-006", "NUMERIC-007",
            "NUMERIC-008", "NUMERIC-009", "NUMERIC-010", "NUMERIC-016", "NUMERIC-017", "PURITY-001", "PURITY-003",
            "PURITY-011", "PURITY-013", "SHAPE-005", "SHAPE-006", "SHAPE-007", "SHAPE-008", "SHAPE-009", "SHAPE-014",
            "SNAPSHOT-001", "SNAPSHOT-003", "SYMMETRY-009",
        ),
    ),
    Entry(f"{_MEA}:memory_efficient_attention[exact]", "memory-efficient-attention-pytorch", _OK),
    Entry(f"{_MEA}:Attention", "memory-efficient-attention-pytorch", _OK),
    Entry(_RING, "ring-attention-pytorch", _OK),
    Entry(
        f"{_RING}[grouped]", "ring-attention-pytorch", _DEPARTS,
        why="default_attention (ring_attention_pytorch/ring_attention.py) repeats key heads as (g h), so that query "
        "head i uses key head i modulo the number of key heads instead of sharing one among consecutive query "
        "heads.",
        rules=("OPTIONS-007", "OPTIONS-008"),
    ),
    Entry("ring_attention_pytorch.ring_flash_attention:ring_flash_attn", "ring-attention-pytorch", _OK),
    Entry("perceiver_pytorch.perceiver_pytorch:Attention", "perceiver-pytorch", _OK),
    Entry("timm.layers.attention:Attention", "timm", _OK),
    Entry("timm.layers.attention:Attention[unfused]", "timm", _OK),
    Entry("open_clip.transformer:Attention", "open-clip-torch", _OK),
    Entry("segment_anything.modeling.transformer:Attention", "segment-anything", _OK),
    Entry("vit_pytorch.vit:Attention", "vit-pytorch", _OK),
    Entry("monai.networks.blocks.selfattention:SABlock", "monai", _OK),
    Entry("monai.networks.blocks.selfattention:SABlock[flash]", "monai", _OK),
    Entry("monai.networks.blocks.crossattention:CrossAttentionBlock", "monai", _OK),
    Entry("diffusers.models.attention_processor:Attention", "diffusers", _OK),
    Entry("diffusers.models.attention_processor:Attention[eager]", "diffusers", _OK),
)  # fmt: skip

_KERNELS: tuple[Entry, ...] = (
    Entry(
        f"{_RECIPES}/x_transformers_attention.py:attend", "x-transformers", _DEPARTS,
        why="Attend.forward (x_transformers/attend.py) sets the output of a row that its mask leaves without a key to"
        " zero, but not its weights, and not a row that only the causal triangle leaves without one, which gets "
        "the mean of all values; in fp64 the fill -finfo(fp64).max overflows to -inf in its fp32 softmax, and "
        "such rows get NaN gradients.",
        rules=("CAUSAL-001", "CAUSAL-002", "CAUSAL-006", "GRADIENT-003", "IDENTITY-004", "WEIGHTS-006"),
    ),
    Entry(f"{_RECIPES}/x_transformers_attention.py:attend_flash", "x-transformers", _OK),
    Entry(f"{_RECIPES}/x_transformers_attention.py:attend_flash_causal", "x-transformers", _OK),
    Entry(
        f"{_RECIPES}/x_transformers_attention.py:attend_flash_causal_any_length", "x-transformers", _DEPARTS,
        why="Attend.flash_attn (x_transformers/attend.py) aligns its causal triangle with the last key where there "
        "are more keys than queries, and with the first key where there are fewer.",
        rules=(
            "CAUSAL-001", "GRADIENT-001", "GRADIENT-007", "NUMERIC-004", "NUMERIC-005", "NUMERIC-006", "NUMERIC-013",
            "NUMERIC-014", "NUMERIC-015", "SHAPE-005", "SHAPE-006", "SHAPE-008", "SHAPE-009", "SHAPE-014",
        ),
    ),
    Entry(
        f"{_RECIPES}/lucidrains_kernels.py:flash_attention_function", "memory-efficient-attention-pytorch", _DEPARTS,
        why="FlashAttentionFunction.forward (memory_efficient_attention_pytorch/flash_attention.py) takes the offset "
        "of its causal triangle with the wrong sign where there are more keys than queries.",
        rules=("CAUSAL-001", "CAUSAL-003", "CAUSAL-006", "GRADIENT-004", "IDENTITY-005"),
    ),
    Entry(
        f"{_RECIPES}/lucidrains_kernels.py:local_attention", "local-attention", _OK,
        why="A row without a key averages the values and the -1 that its window is padded with.",
    ),
    Entry(
        f"{_RECIPES}/lucidrains_kernels.py:local_attention_autopad", "local-attention", _DEPARTS,
        why="LocalAttention.forward (local_attention/local_attention.py) with autopad=True and no mask lets the zero "
        "keys that it pads with take part in the softmax.",
        rules=(
            "CAUSAL-001", "ERRORS-002", "GRADIENT-001", "GRADIENT-005", "GRADIENT-006", "GRADIENT-007",
            "GRADIENT-010", "GRADIENT-011", "IDENTITY-001", "IDENTITY-002", "MEMORY-001", "MEMORY-002", "MEMORY-003",
            "NUMERIC-001", "NUMERIC-002", "NUMERIC-003", "NUMERIC-004", "NUMERIC-005", "NUMERIC-006", "NUMERIC-007",
            "NUMERIC-008", "NUMERIC-009", "NUMERIC-010", "NUMERIC-013", "NUMERIC-014", "NUMERIC-015", "NUMERIC-016",
            "NUMERIC-017", "PURITY-001", "PURITY-003", "PURITY-011", "PURITY-013", "SHAPE-003", "SHAPE-005",
            "SHAPE-006", "SHAPE-007", "SHAPE-008", "SHAPE-009", "SHAPE-014", "SNAPSHOT-001", "SNAPSHOT-003",
            "SYMMETRY-009",
        ),
    ),
    Entry(
        f"{_RECIPES}/lucidrains_kernels.py:performer", "performer-pytorch", _DEPARTS,
        why="FastAttention (performer_pytorch/performer_pytorch.py) approximates the softmax by random features.",
        rules=("NUMERIC-001", "SHAPE-004"),
    ),
    Entry(
        f"{_RECIPES}/nystrom_module.py:nystrom_attention", "nystrom-attention", _DEPARTS,
        why="NystromAttention (nystrom_attention/nystrom_attention.py) approximates the softmax by landmarks.",
        rules=(
            "CAUSAL-001", "GRADIENT-001", "GRADIENT-006", "GRADIENT-007", "GRADIENT-011", "MEMORY-001", "MEMORY-003",
            "NUMERIC-001", "NUMERIC-002", "NUMERIC-003", "NUMERIC-004", "NUMERIC-005", "NUMERIC-006", "NUMERIC-007",
            "NUMERIC-016", "PROJECTION-001", "PROJECTION-003", "PROJECTION-005", "PROJECTION-009", "PROJECTION-010",
            "PROJECTION-011", "PROJECTION-012", "PROJECTION-013", "PROJECTION-015", "PURITY-001", "PURITY-003",
            "PURITY-007", "PURITY-011", "PURITY-013", "PURITY-014", "PURITY-015", "SHAPE-003", "SHAPE-005",
            "SHAPE-006", "SHAPE-007", "SHAPE-008", "SHAPE-009", "SYMMETRY-001", "SYMMETRY-006",
        ),
    ),
    Entry(f"{_RECIPES}/denoising_diffusion_attention.py:attend", "denoising-diffusion-pytorch", _OK),
    Entry(
        f"{_RECIPES}/denoising_diffusion_attention.py:attend_flash", "denoising-diffusion-pytorch", _DEPARTS,
        why="Attend.flash_attn (denoising_diffusion_pytorch/attend.py) divides a scale that is passed by the width of"
        " a head, where the path with its own softmax multiplies by it.",
        rules=("OPTIONS-001", "OPTIONS-013"),
    ),
    Entry(f"{_RECIPES}/kornia_attention.py:full_attention", "kornia", _OK),
    Entry(
        f"{_RECIPES}/kornia_attention.py:full_attention_key_mask", "kornia", _DEPARTS,
        why="FullAttention.forward (kornia/feature/loftr/loftr_module/linear_attention.py) applies kv_mask only where"
        " q_mask is given too.",
        rules=(
            "GRADIENT-002", "IDENTITY-004", "MASK-001", "MASK-002", "MASK-003", "MASK-004", "MASK-008", "MASK-010", "MASK-011",
            "MASK-012", "MASK-014", "MASK-015", "MASK-016", "PURITY-003", "SNAPSHOT-001", "SNAPSHOT-003",
        ),
    ),
    Entry(f"{_RECIPES}/bert_pytorch_attention.py:attention", "bert-pytorch", _OK),
    Entry(f"{_RECIPES}/torch_mha_package.py:kernel", "torch-multi-head-attention", _OK),
    Entry(
        f"{_RECIPES}/softmax_n_attention.py:slow_bool", "flash-attention-softmax-n", _DEPARTS,
        why="slow_attention_n (flash_attention_softmax_n/core/functional.py) fills a boolean mask itself instead of "
        "the scores, so that the mask hides nothing and the caller's mask becomes true throughout.",
        rules=(
            "CAUSAL-005", "ERRORS-005", "GRADIENT-002", "GRADIENT-005", "GRADIENT-009", "GRADIENT-011",
            "GRADIENT-012", "IDENTITY-001", "IDENTITY-004", "MASK-001", "MASK-002", "MASK-003", "MASK-004",
            "MASK-008", "MASK-010", "MASK-011", "MASK-012", "MASK-014", "MASK-015", "MASK-016", "NUMERIC-016",
            "OPTIONS-001", "OPTIONS-013", "OPTIONS-015", "PURITY-001", "PURITY-003", "PURITY-008", "PURITY-011",
            "PURITY-013", "SHAPE-005", "SNAPSHOT-001", "SNAPSHOT-003", "SYMMETRY-007",
        ),
    ),
    Entry(
        f"{_RECIPES}/softmax_n_attention.py:slow_additive", "flash-attention-softmax-n", _DEPARTS,
        why="softmax_n (flash_attention_softmax_n/core/functional.py) multiplies n = 0 by the exponential of the "
        "negated largest score, which is NaN where all scores of a row are below the range of the exponential.",
        rules=("MASK-014", "NUMERIC-016"),
    ),
    Entry(
        f"{_RECIPES}/softmax_n_attention.py:flash", "flash-attention-softmax-n", _DEPARTS,
        why="flash_attention_n (flash_attention_softmax_n/core/flash_attn.py) gives zeros for a row that the mask "
        "leaves without a key, and the mean of all values for one that the causal triangle does.",
        rules=("CAUSAL-001",),
    ),
    Entry(f"{_RECIPES}/gqa_pytorch.py:scaled_dot_product", "grouped-query-attention-pytorch", _OK),
    Entry(
        f"{_RECIPES}/gqa_pytorch.py:scaled_dot_product_averaged", "grouped-query-attention-pytorch", _DEPARTS,
        why="scaled_dot_product_gqa (grouped_query_attention_pytorch/attention.py) averages weights (B, L, S, H) over"
        " the axis of the queries where average_attn_weights asks for the mean over the heads.",
        rules=(
            "GRADIENT-015", "GRADIENT-016", "WEIGHTS-001", "WEIGHTS-002", "WEIGHTS-005", "WEIGHTS-006", "WEIGHTS-008",
        ),
    ),
    Entry(
        f"{_RECIPES}/curated_attention.py:scaled_dot_product", "curated-transformers", _OK,
        why="Its causal mask is made for at most as many queries as keys.",
    ),
    Entry(f"{_RECIPES}/transformerkit_attention.py:kernel", "transformerkit", _OK),
    Entry(f"{_RECIPES}/language_models.py:lmt_flash_attention", "pylmt", _OK),
    Entry(f"{_RECIPES}/language_models.py:uni2ts_native", "uni2ts", _OK),
)  # fmt: skip

_MODULES: tuple[Entry, ...] = (
    Entry(f"{_RECIPES}/torch_encoder.py:self_attention", "torch", _OK),
    Entry(
        f"{_RECIPES}/bert_pytorch_attention.py:multi_headed_attention", "bert-pytorch", _DEPARTS,
        why=f"MultiHeadedAttention.forward (bert_pytorch/model/attention/multi_head.py) {_REGROUPED}.",
        rules=("ERRORS-003",),
    ),
    Entry(
        f"{_RECIPES}/torch_mha_package.py:multi_head_attention", "torch-multi-head-attention", _DEPARTS,
        why="MultiHeadAttention.forward (torch_multi_head_attention/multi_head_attention.py) repeats its mask head by"
        " head while query and key are merged batch element by batch element, so that masks reach other batch "
        "elements.",
        rules=(
            "GRADIENT-002", "GRADIENT-003", "IDENTITY-004", "MASK-001", "MASK-002", "MASK-003", "MASK-004", "MASK-005",
            "MASK-008", "MASK-010", "MASK-011", "MASK-012", "MASK-014", "PROJECTION-005", "PURITY-003",
            "SNAPSHOT-001", "SNAPSHOT-003", "SNAPSHOT-004", "SYMMETRY-001", "SYMMETRY-010",
        ),
    ),
    Entry(
        f"{_RECIPES}/torch_mha_package.py:multi_head_attention_activated", "torch-multi-head-attention", _DEPARTS,
        why="MultiHeadAttention.forward (torch_multi_head_attention/multi_head_attention.py) applies a ReLU to every "
        "projection, the output's too, unless activation=None is given.",
        rules=("NUMERIC-001", "SHAPE-003"),
    ),
    Entry(f"{_RECIPES}/gqa_pytorch.py:multihead_gqa", "grouped-query-attention-pytorch", _OK),
    Entry(f"{_RECIPES}/stackformer_attention.py:multi_head_attention", "stackformer", _OK),
    Entry(f"{_RECIPES}/stackformer_attention.py:group_query_attention", "stackformer", _OK),
    Entry(
        f"{_RECIPES}/espnet_attention.py:multi_headed_attention", "espnet", _DEPARTS,
        why=f"MultiHeadedAttention (espnet/nets/pytorch_backend/transformer/attention.py) {_REGROUPED}, and keeps its "
        "weights with their graph as an attribute, so that it cannot be copied after a call.",
        rules=("ERRORS-003", "PROJECTION-006"),
    ),
    Entry(
        f"{_RECIPES}/espnet_attention.py:multi_headed_attention_sdpa", "espnet", _DEPARTS,
        why=f"MultiHeadedAttention (espnet/nets/pytorch_backend/transformer/attention.py) {_REGROUPED}.",
        rules=("ERRORS-003", "ERRORS-009"),
    ),
    Entry(
        f"{_RECIPES}/funasr_attention.py:multi_headed_attention", "funasr", _DEPARTS,
        why=f"MultiHeadedAttention (funasr/models/sanm/attention.py) {_REGROUPED}.", rules=("ERRORS-003",),
    ),
    Entry(f"{_RECIPES}/joeynmt_attention.py:multi_headed_attention", "joeynmt", _OK),
    Entry(f"{_RECIPES}/esm_attention.py:multihead_attention", "fair-esm", _OK),
    Entry(
        f"{_RECIPES}/esm_attention.py:multihead_attention_weights", "fair-esm", _DEPARTS,
        why="MultiheadAttention.forward (esm/multihead_attention.py) reshapes key and value to the batch of the query"
        " with view(-1, ...), so that a key of another batch size is regrouped instead of refused.",
        rules=("ERRORS-003",),
    ),
    Entry(f"{_RECIPES}/torchscale_attention.py:multihead_attention", "torchscale", _OK),
    Entry(f"{_RECIPES}/whisper_attention.py:multi_head_attention", "openai-whisper", _OK),
    Entry(f"{_RECIPES}/whisper_attention.py:multi_head_attention_own", "openai-whisper", _OK),
    Entry(
        f"{_RECIPES}/whisper_attention.py:multi_head_attention_any_mask", "openai-whisper", _DEPARTS,
        why="MultiHeadAttention.qkv_attention (whisper/model.py) takes the causal triangle for any mask where it "
        "calls scaled_dot_product_attention, and applies the mask itself where it does not.",
        rules=(
            "GRADIENT-002", "GRADIENT-009", "GRADIENT-012", "MASK-003", "MASK-004", "MASK-006", "MASK-008",
            "MASK-009", "MASK-010", "MASK-011", "MASK-015", "MASK-016", "PROJECTION-003", "PROJECTION-007",
            "PURITY-001", "PURITY-003", "PURITY-007", "PURITY-011", "PURITY-013", "SNAPSHOT-001", "SNAPSHOT-003",
            "SNAPSHOT-004",
        ),
    ),
    Entry(f"{_RECIPES}/litgpt_attention.py:causal_self_attention", "litgpt", _OK),
    Entry(f"{_RECIPES}/litgpt_attention.py:causal_self_attention_grouped", "litgpt", _OK),
    Entry(f"{_RECIPES}/labml_nn_attention.py:multi_head_attention", "labml-nn", _OK),
    Entry(f"{_RECIPES}/small_modules.py:axial_attention", "axial-attention", _OK),
    Entry(f"{_RECIPES}/small_modules.py:isab_attention", "isab-pytorch", _OK),
    Entry(f"{_RECIPES}/small_modules.py:linformer_identities", "linformer", _OK),
    Entry(f"{_RECIPES}/small_modules.py:rtdl_attention", "rtdl-revisiting-models", _OK),
    Entry(f"{_RECIPES}/perceiver_io_attention.py:multi_head_attention", "perceiver-io", _OK),
    Entry(f"{_RECIPES}/perceiver_io_attention.py:multi_head_attention_causal", "perceiver-io", _OK),
    Entry(
        f"{_RECIPES}/transformerkit_attention.py:multi_head_attention", "transformerkit", _DEPARTS,
        why=f"MultiHeadAttention.forward (transformerkit/attention.py) {_REGROUPED}.", rules=("ERRORS-003",),
    ),
    Entry(f"{_RECIPES}/language_models.py:lmt_grouped_query_attention", "pylmt", _OK),
    Entry(f"{_RECIPES}/language_models.py:toroidal_attention", "toroidal", _OK),
    Entry(f"{_RECIPES}/language_models.py:uni2ts_grouped_query_attention", "uni2ts", _OK),
    Entry(f"{_RECIPES}/simple_transformer_attention.py:self_attention", "simple-transformer", "conforms"),
    Entry(f"{_RECIPES}/ultralytics_attention.py:sam_attention", "ultralytics", _OK),
)  # fmt: skip

ENTRIES: tuple[Entry, ...] = (*_ADAPTED, *_KERNELS, *_MODULES)
