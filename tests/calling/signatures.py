"""Signatures as packages write them, each around the same attention: how kernels and modules are really called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .made import kernel, module


@dataclass(frozen=True)
class Seen:
    """One habit: the target, what has to be declared with it, and the capabilities that are recognised."""

    name: str
    target: Any
    declared: Mapping[str, Any] = field(default_factory=dict)
    recognised: tuple[str, ...] = ()


_UNMASKED: Mapping[str, Any] = {"mask": ()}
_BLHD: Mapping[str, Any] = {"layout": "BLHD", "leading": "equal", "mask": ()}
_MERGED: Mapping[str, Any] = {"layout": "BL(HD)", "leading": "equal"}
_CAUSAL: Mapping[str, Any] = {"causal": "top-left"}

_PADDED: Mapping[str, Any] = {"mask": ("bool",), "mask_shapes": ("BS",)}

_SELF, _CONTEXT, _STACKED = ("inputs",), ("inputs",), ("lengths", "value_width")

KERNELS = (
    Seen("document", kernel("Q, K, V, mask=None", "Q, K, V, mask", "{}[:2]")),
    Seen("letters that say nothing", kernel("a, b, c, m=None", "a, b, c, m")),
    Seen("by position only", kernel("q, k, v, mask=None, /", "q, k, v, mask")),
    Seen("a gap before a mask by position only", kernel("q, k, v, rate=0.0, mask=None, /", "q, k, v, mask, dropout=rate")),
    Seen("by name only", kernel("*, q, k, v, mask=None", "q, k, v, mask")),
    Seen("value first", kernel("value, key, query, mask=None", "query, key, value, mask")),
    Seen("query and value first", kernel("query, value, key=None, attention_mask=None", "query, key, value, attention_mask")),
    Seen("states", kernel("query_states, key_states, value_states, attention_mask",
                          "query_states, key_states, value_states, attention_mask")),
    Seen("anything", kernel("*args, **kwargs", "*args, **kwargs")),
    Seen("a mask behind any tensors", kernel("*tensors, attn_mask=None", "*tensors, attn_mask")),
    Seen("options by any name", kernel("q, k, v, mask=None, **options", "q, k, v, mask, **options"),
         {**_CAUSAL, "options": ("scale",)}),
    Seen("torch's function",
         kernel("query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False",
                "query, key, value, attn_mask, causal=is_causal, scale=scale, dropout=dropout_p"),
         {**_CAUSAL, "options": ("scale", "dropout")}),
    Seen("flash",
         kernel("q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, "
                "alibi_slopes=None, deterministic=False, return_attn_probs=False",
                "*(t.transpose(1, 2) for t in (q, k, v)), causal=causal, scale=softmax_scale, softcap=softcap, "
                "window=None if window_size[0] < 0 else window_size[0] + 1", "{}[0].transpose(1, 2)"),
         {**_BLHD, **_CAUSAL, "options": ("scale", "softcap", "window")}),
    Seen("logsumexp on request",
         kernel("q, k, v, causal, sm_scale, return_lse=False", "q, k, v, causal=causal, scale=sm_scale",
                "{}[::2 if return_lse else 5]"), {**_UNMASKED, **_CAUSAL, "second": "lse"}),
    Seen("logsumexp beside the probabilities",
         kernel("q, k, v, return_attn_probs=False", "q, k, v", "{}[::2 if return_attn_probs else 5]"),
         {**_UNMASKED, "second": "lse"}),
    Seen("weights on request",
         kernel("q, k, v, mask=None, return_attention=False", "q, k, v, mask", "{}[:2 if return_attention else 1]"),
         {"second": "weights"}),
    Seen("soft cap and bias",
         kernel("q, k, v, mask=None, causal=False, logits_soft_cap=None, attn_bias=None",
                "q, k, v, mask, causal=causal, softcap=logits_soft_cap, bias=attn_bias"),
         {**_CAUSAL, "options": ("softcap", "bias")}),
    Seen("additive masks as a bias", kernel("query, key, value, attn_bias=None", "query, key, value, bias=attn_bias"),
         {"mask": ("additive",), "empty_row": "nan"}),
    Seen("a scale that has to be given", kernel("q, k, v, *, scale, mask=None", "q, k, v, mask, scale=scale")),
    Seen("a mask of queries beside one of keys",
         kernel("queries, keys, values, q_mask=None, kv_mask=None", "queries, keys, values, of_keys(kv_mask)"), _PADDED),
    Seen("lengths", kernel("queries, keys, values, valid_lens=None",
                           "queries, keys, values, by_lengths(valid_lens, keys.size(-2))"), {"mask": ("lengths",)}),
    Seen("a cache behind the tensors", kernel("q, k, v, past_key_value=None, mask=None", "q, k, v, mask")),
    Seen("merged heads",
         kernel("query, key, value, num_heads, mask=None",
                "*(t.unflatten(2, (num_heads, -1)).transpose(1, 2) for t in (query, key, value)), mask",
                "{}[0].transpose(1, 2).flatten(2)"), _MERGED),
    Seen("merged heads, their number first",
         kernel("n_heads, q, k, v", "*(t.unflatten(2, (n_heads, -1)).transpose(1, 2) for t in (q, k, v))",
                "{}[0].transpose(1, 2).flatten(2)"), {**_MERGED, **_UNMASKED}),
    Seen("packed", kernel("qkv, mask=None", "*qkv.unbind(0), mask"), {"leading": "equal"}, _STACKED),
    Seen("packed as flash does",
         kernel("qkv, causal=False", "*(t.transpose(1, 2) for t in qkv.unbind(2)), causal=causal", "{}[0].transpose(1, 2)"),
         {**_BLHD, **_CAUSAL}, _STACKED),
    Seen("key and value packed",
         kernel("q, kv", "*(t.transpose(1, 2) for t in (q, *kv.unbind(2)))", "{}[0].transpose(1, 2)"), _BLHD, ("value_width",)),
    Seen("results in a dictionary",
         kernel("q, k, v, mask=None", "q, k, v, mask", "named('out', 'attn')({})"), {"second": "weights"}),
    Seen("results in an object",
         kernel("q, k, v, mask=None", "q, k, v, mask", "Namespace(**named('context', 'probs')({}))"), {"second": "weights"}),
)  # fmt: skip

_PACKED_BODY = "x, x, x, mask"

MODULES = (
    Seen("document's module", module("query, key, value, mask=None", "query, key, value, mask", "{}")),
    Seen("value first", module("values, keys, query, mask", "query, keys, values, mask"), {"reference": "SelfAttention", "scale": "1/sqrt(D)"}),
    Seen("query last under its usual names", module("v, k, q, mask=None", "q, k, v, mask")),
    Seen("one tensor", module("x, mask=None", _PACKED_BODY), {}, _SELF),
    Seen("one tensor of any name", module("inp_tokens, mask=None", "inp_tokens, inp_tokens, inp_tokens, mask"), {}, _SELF),
    Seen("hidden states",
         module("hidden_states, attention_mask=None, head_mask=None, output_attentions=False",
                "hidden_states, hidden_states, hidden_states, attention_mask", "{}[:2 if output_attentions else 1]"),
         {"second": "weights"}, _SELF),
    Seen("a context that may be left out", module("x, context=None, mask=None", _PACKED_BODY), {}, _SELF),
    Seen("a context", module("x, context, mask=None", "x, context, context, mask"), {}, _CONTEXT),
    Seen("key and value states", module("hidden_states, key_value_states, *, attention_mask=None",
                                        "hidden_states, key_value_states, key_value_states, attention_mask"), {}, _CONTEXT),
    Seen("a memory of the encoder", module("tgt, memory, memory_mask=None", "tgt, memory, memory, memory_mask"), {}, _CONTEXT),
    Seen("kv of a module", module("x_q, kv", "x_q, kv, kv"), _UNMASKED, _CONTEXT),
    Seen("one tensor for all three by name", module("query, key, value, mask=None", "query, key, value, mask"), {"inputs": "self"}),
    Seen("key and value that may be left out",
         module("query, key=None, value=None, mask=None", "query, query if key is None else key, query if value is None else value, mask"),
         {"inputs": "self"}),
    Seen("torch's module",
         module("query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True",
                "query, key, value, attn_mask if key_padding_mask is None else of_keys(key_padding_mask)",
                "(lambda o, w: (o, w.mean(1) if average_attn_weights else w))(*{})[:2 if need_weights else 1]",
                "embed_dim, num_heads, dropout=0.0, bias=True, *, batch_first=False", "embed_dim, num_heads"),
         {"second": "weights", "mask": ("bool",), "mask_shapes": ("LS", "BS")}),
    Seen("padding only", module("query, key, value, key_padding_mask=None", "query, key, value, of_keys(key_padding_mask)"), _PADDED),
    Seen("causal by its own name", module("x, is_causal=False, attn_mask=None", "x, x, x, attn_mask, causal=is_causal"), _CAUSAL, _SELF),
    Seen("dropout in its constructor",
         module("x, mask=None", "x, x, x, mask, dropout=self.p", init="dim, num_heads=8, attn_drop=0.5",
                sizes="dim, num_heads); self.p = (attn_drop"), {}, _SELF),
    Seen("heads first", module("x, mask=None", _PACKED_BODY, init="h, d_model, dropout=0.1", sizes="d_model, h"), {}, _SELF),
    Seen("a width of heads", module("x, mask=None", _PACKED_BODY, init="dim, head_dim=32", sizes="dim, dim // head_dim"), {}, _SELF),
    Seen("every width by itself",
         module("query, key, value, mask=None", "query, key, value, mask",
                init="key_size, query_size, value_size, num_hiddens, num_heads, dropout, bias=False", sizes="num_hiddens, num_heads, bias")),
    Seen("widths of query and context",
         module("x, context, mask=None", "x, context, context, mask", init="*, query_dim, context_dim, heads=8, dim_head=64",
                sizes="query_dim, heads"), {}, _CONTEXT),
    Seen("a length that has to be given",
         module("x", "x, x, x", init="d_in, d_out, context_length, dropout, num_heads, qkv_bias=False", sizes="d_out, num_heads, qkv_bias"),
         _UNMASKED, _SELF),
    Seen("results in a dictionary", module("x, mask=None", _PACKED_BODY, "named('last_hidden_state', 'attentions')({})"), {"second": "weights"}, _SELF),
)  # fmt: skip
