"""Attention in blocks of keys."""

from blockwise.attention import attend

__all__ = ["attend"]
