"""The attention of the model."""

import torch
from torch import Tensor, nn

HIDDEN = -1e4
"""What later keys get for a score. The published weights were trained with it, and fp16 can hold it."""


class CausalSelfAttention(nn.Module):
    """Attention of a sequence (B, L, d_model) to itself and to what came before."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.c_attn = nn.Linear(d_model, 3 * d_model)
        self.c_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return what each position takes up, (B, L, d_model)."""
        query, key, value = (self._heads(each) for each in self.c_attn(x).chunk(3, dim=-1))
        scores = query @ key.mT / query.shape[-1] ** 0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = self.dropout(scores.masked_fill(later, HIDDEN).softmax(-1))
        return self.c_proj((weights @ value).transpose(1, 2).flatten(2))

    def _heads(self, packed: Tensor) -> Tensor:
        return packed.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
