"""The attention modules of the package transformers: which ones are judged, how they are called, what they do.

Most models hold a copy of one of a few modules, so that one way to build and one to call serve dozens of classes. They
are named here one by one: a class that is not has parts besides attention, such as a norm of query and key. What is said
of them was seen with transformers 5.24.0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..deviations import Deviation
from . import transformers_calls as calls
from .adapter import Adapter
from .torch_attention import ALL_DTYPES, SWALLOWED_NAN, VALUE_LENGTH
from .transformers_functions import FOUR_AXES, answers

_BASE: Mapping[str, Any] = {"leading": "equal", "mask_shapes": FOUR_AXES, "dtypes": ALL_DTYPES}

_ADDED: Mapping[str, Any] = {**_BASE, "mask": ("additive",), "empty_row": "nan"}
"""What modules do that add the mask to the scores. Releases differ on whether they return weights unasked."""

_FILLED: Mapping[str, Any] = {**_BASE, "mask": ("bool",), "empty_row": "uniform", "second": "weights"}
"""What modules do that write the lowest number over the scores of hidden keys."""

_FUSED: Mapping[str, Any] = {
    **_BASE, "mask": ("bool", "additive"), "empty_row": "zeros", "second": None, "gradient": "once", "precision": "fused",
}  # fmt: skip
"""What modules do that call torch's function."""


def _own(target: Any, **changed: Any) -> Mapping[str, Any]:
    """Return what a module does that calls its model's own function."""
    function = getattr(sys.modules[target.__module__], "eager_attention_forward", None)
    precision = "eager" if function is None else answers(function)["precision"]
    return {**_ADDED, "precision": precision, **changed}


def _entry(
    place: str, variant: str | None, remark: str, call: Callable[..., Any], capabilities: Any, *,
    parameters: Mapping[str, str] | None = None, deviations: tuple[Deviation, ...] = (), **options: Any,
) -> Adapter:  # fmt: skip
    """Return one entry; `options` are those of `from_config`."""
    return Adapter(
        f"transformers.models.{place}", remark, call, capabilities, variant=variant, parameters=parameters,
        build=partial(calls.from_config, **options) if options else calls.from_config, reference="MultiHeadAttention",
        deviations=deviations,
    )  # fmt: skip


def _family(
    names: str, call: Callable[..., Any], *, prefix: str = "", causal: bool = False, grouped: bool = False,
    fused: Mapping[str, Any] | None = None, building: Mapping[str, Any] | None = None, **declared: Any,
) -> Iterator[Adapter]:  # fmt: skip
    """Yield the entries of each class in `names`: the model's own function and torch's, `prefix` before their variants.

    `declared` holds for all of them, `fused` for torch's function, `building` for `_entry`. With `causal` there is an
    entry without a mask, with `grouped` one with fewer key heads.
    """
    own, torchs = partial(_own, **declared), {**_FUSED, **declared, **(fused or {})}
    always = {**torchs, "mask": (), "causal": "always top-left"}
    more = building or {}
    # They show only where key and value are tensors of their own.
    of_torch = () if "inputs" in declared else (VALUE_LENGTH, SWALLOWED_NAN)
    for name in names.split():
        place = f"*:{name}"
        yield _entry(place, prefix or None, "the model's own function", call, own, **more)
        variant = f"{prefix}-sdpa" if prefix else "sdpa"
        yield _entry(place, variant, "torch's function", call, torchs, attention="sdpa", deviations=of_torch, **more)
        if causal:
            yield _entry(
                place, "causal", "torch's function, causal", call, always, attention="sdpa", causal=True, **more
            )
        if grouped:
            shared = partial(_own, **declared, heads="grouped")
            yield _entry(place, "grouped", "two query heads for a key head", call, shared, groups=2, **more)


def _named(stems: str, suffix: str = "Attention") -> str:
    return " ".join(f"{stem}{suffix}" for stem in stems.split())


_DECODERS = (
    "Arcee AriaText Bamba Csm Cwm Emu3 FalconH1 Gemma Gemma2 Glm Glm4 Glm4Moe Granite "
    "GraniteMoe GraniteMoeShared HiggsAudioV2 Jais2 Llama MiniMax Ministral Mistral Mixtral Nemotron Olmo Phi "
    "Phi3 Phimoe Qwen2 Qwen2Moe SeedOss SmolLM3 SolarOpen StableLm Starcoder2"
)
"""Decoders that turn query and key by their position."""

_ENCODERS = (
    "AST Aimv2 Beit CLIP CLIPSeg ChineseCLIPVision DeiT Dinov2 Dinov2WithRegisters DistilBertSelf Eomt "
    "GitVision GraniteDoclingVision IJepa Idefics2Vision Idefics3Vision Kosmos2Vision Kosmos2_5Vision "
    "LwDetrViT MetaClip2 Ovis2Vision OwlViT Owlv2 Phi4MultimodalVision Pixio RfDetrDinov2 Siglip Siglip2 SmolVLMVision ViT ViTMAE ViTMSN Vivit"
)
"""Encoders of texts and images, with an output projection."""

_PAIRED_DECODERS = "Cohere Ernie4_5 Ernie4_5_Moe Helium"
"""Decoders that turn neighbouring features, so that the width is even."""

_TURNED_ENCODERS = "DINOv3ViT EuroBert JinaEmbeddingsV3 ModernBert NomicBert Pixtral"
"""Encoders that turn query and key by their position."""

_ENCODER_DECODERS = (
    "AudioFlamingo3 Bart BigBirdPegasusDecoder BioGpt Blenderbot BlenderbotSmall Hubert Informer KosmosText M2M100 Marian "
    "MBart Musicgen MusicgenMelody OPT PLBart PatchTST Pegasus PegasusX Qwen2Audio SEW SeamlessM4T Speech2Text "
    "TimeSeriesTransformer UniSpeech Voxtral Wav2Vec2 Whisper"
)
"""Copies of Bart's module, whose class takes a width and a number of heads."""

_BERTS = "Bert BertGeneration Camembert Electra Ernie RoCBert Roberta RobertaPreLayerNorm XLMRoberta XLMRobertaXL Xmod"
"""Copies of Bert's two modules, which leave the output projection to another one."""

_DETRS = "ConditionalDetr DFine DeformableDetr Detr MaskFormerDetr PPDocLayoutV3 RTDetr RTDetrV2"

_SAMS = "EdgeTam Sam Sam2 Sam3Tracker SamHQ"

_T5S = "LongT5 MT5 Pix2StructText Pop2Piano SwitchTransformers T5 Udop"

_OLD_DECODERS = "Bart BioGpt Blenderbot BlenderbotSmall Informer M2M100 MBart Marian Musicgen PLBart Pegasus Whisper"
"""Copies of Bart's module that are also called with a second tensor."""

_EVEN = (2, 4, 6, 8, 16, 32, 64, 128)

_SELF: Mapping[str, Any] = {"inputs": "self"}
_CONTEXT: Mapping[str, Any] = {"inputs": "context"}
_ONE_SHAPE: Mapping[str, Any] = {**_ADDED, **_SELF, "mask_shapes": ("B1LS",)}
_XLM: Mapping[str, Any] = {**_FILLED, **_CONTEXT, "mask_shapes": ("BS", "BLS"), "precision": "softmax32"}
_FSMT: Mapping[str, Any] = {**_FILLED, **_CONTEXT, "layout": "LBE", "mask_shapes": ("B11S",), "mask_means": "hide"}

_OTHERS: tuple[Adapter, ...] = (
    _entry("bloom.*:BloomAttention", None, "no slope", calls.bloom, {**_ADDED, **_SELF, "precision": "softmax32"}),
    _entry("falcon.*:FalconAttention", None, "its own function", calls.falcon, {**_ADDED, **_SELF}),
    _entry(
        "falcon.*:FalconAttention", "sdpa", "torch's function", calls.falcon,
        {**_FUSED, **_SELF, "mask": ("additive",)}, attention="sdpa",
    ),
    _entry(
        "mpt.*:MptAttention", None, "no slope", calls.mpt,
        {**_FILLED, **_SELF, "mask_means": "hide", "precision": "softmax32"},
    ),
    _entry("xlm.*:MultiHeadAttention", None, "with weights", calls.xlm, _XLM),
    _entry("flaubert.*:MultiHeadAttention", None, "with weights", calls.xlm, _XLM),
    _entry(
        "fsmt.*:Attention", None, "attn_mask, with weights", calls.fsmt, {**_ADDED, **_CONTEXT, "layout": "LBE"},
        encoder_decoder_attention=True,
    ),
    _entry(
        "fsmt.*:Attention", "padding", "key_padding_mask, with weights", calls.fsmt, _FSMT,
        encoder_decoder_attention=True,
    ),
    *(
        _entry(f"{place}Attention", None, "its own function", calls.one, {**_ADDED, **_SELF})
        for place in ("flava.*:Flava", "megatron_bert.*:MegatronBertSelf", "mpnet.*:MPNetSelf", "rembert.*:RemBertSelf")
    ),
    *(
        _entry(f"{place}Attention", None, "a mask of one shape", calls.one, _ONE_SHAPE)
        for place in ("groupvit.*:GroupViT", "mvp.*:Mvp", "speecht5.*:SpeechT5")
    ),
)  # fmt: skip
"""Modules without a copy elsewhere."""

_T5 = partial(calls.context, hide="mask")
_GPT2_CROSS = partial(calls.context, source="encoder_hidden_states", hide="encoder_attention_mask")

MODULE_ADAPTERS: tuple[Adapter, ...] = (
    *_family(_named(_DECODERS), calls.turned, causal=True, grouped=True, **_SELF),
    *_family(_named(_PAIRED_DECODERS), calls.turned, causal=True, grouped=True, widths=_EVEN, **_SELF),
    *_family(_named(_TURNED_ENCODERS), calls.turned, **_SELF),
    *_family(_named(_ENCODERS), calls.one, **_SELF),
    *_family(_named(_ENCODER_DECODERS), calls.one, **_SELF),
    *_family(_named(_OLD_DECODERS), calls.context, prefix="cross", **_CONTEXT),
    *_family(_named(_BERTS, "SelfAttention"), calls.one, **_SELF),
    *_family(_named(_BERTS, "CrossAttention"), partial(calls.context, source="encoder_hidden_states"), **_CONTEXT),
    *_family(_named(_DETRS, "SelfAttention"), calls.one, **_SELF),
    *_family("DetrCrossAttention MaskFormerDetrCrossAttention", calls.context, **_CONTEXT),
    *_family(_named(_SAMS), calls.points),
    # A boolean mask is made an additive one of lowest numbers, so that an empty row is uniform; one of -inf gives zeros.
    *_family(_named(_T5S), _T5, scale=1.0, fused={"empty_row": "unspecified"}, **_CONTEXT),
    *_family("GPT2Attention DecisionTransformerGPT2Attention", calls.one, causal=True, **_SELF),
    *_family(
        "GPT2Attention", _GPT2_CROSS, prefix="cross", **_CONTEXT,
        building={
            "is_cross_attention": True, "parameters": {"query": "q_attn.T", "kv": "c_attn.T", "output": "c_proj.T"},
        },
    ),
    *_family("GPTNeoXAttention", calls.turned, causal=True, **_SELF),
    *_OTHERS,
)  # fmt: skip
"""Every way to call the modules of transformers that is judged."""
