"""Small repositories to look for attention in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

KERNEL = """
import torch


def attend(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return torch.softmax(scores, dim=-1) @ value
"""

MODULE = """
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class SelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        return self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
"""

NUMPY = """
import numpy as np


def attend(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v
"""


def plant(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files, given by their path below a folder, and return the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
