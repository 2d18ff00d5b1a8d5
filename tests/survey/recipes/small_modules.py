"""Modules of small packages that take a query and what it attends to: axial-attention, isab-pytorch, linformer and rtdl."""

from __future__ import annotations

from typing import Any

import torch
from axial_attention.axial_attention import SelfAttention
from isab_pytorch.isab_pytorch import Attention
from linformer import LinformerSelfAttention
from rtdl_revisiting_models import MultiheadAttention
from torch import Tensor

from attention_conformance import register


def isab(d_model: int, heads: int) -> Any:
    """Build isab-pytorch's module."""
    return Attention(d_model, heads=heads, dim_head=d_model // heads)


def rtdl(d_model: int, heads: int) -> Any:
    """Build rtdl-revisiting-models' module."""
    return MultiheadAttention(d_embedding=d_model, n_heads=heads, dropout=0.0)


def whole_length(d_model: int, heads: int) -> Any:
    """Build linformer's module without the projections along the keys, which every call brings."""
    module = LinformerSelfAttention(d_model, 1, k=1, heads=heads)
    del module.proj_k, module.proj_v
    return module


def identities(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> Any:
    """Call linformer's module with projections along the keys that are the identity: nothing is left out."""
    module.seq_len = module.k = key.shape[1]
    module.proj_k = module.proj_v = torch.eye(key.shape[1], dtype=key.dtype)
    return module(query, key)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call either."""
    return module(query, key) if mask is None else module(query, key, mask)


_ANSWERS: dict[str, Any] = {"reference": "MultiHeadAttention", "inputs": "context", "second": None, "call": call}

axial_attention = register(SelfAttention, mask=(), **_ANSWERS)
isab_attention = register(isab, mask=("bool",), mask_shapes=("BS",), **_ANSWERS)
linformer_identities = register(whole_length, mask=(), **{**_ANSWERS, "call": identities})
rtdl_attention = register(rtdl, mask=(), **_ANSWERS)
