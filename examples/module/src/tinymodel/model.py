"""The model: blocks of attention and a small network, each added to what goes through."""

import torch
from torch import Tensor, nn

from tinymodel.attention import CausalSelfAttention


class Block(nn.Module):
    """One layer."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.before_attention, self.before_network = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = CausalSelfAttention(d_model, n_heads)
        self.network = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input (B, L, d_model)."""
        x = x + self.attention(self.before_attention(x))
        return x + self.network(self.before_network(x))


class TinyModel(nn.Module):
    """Scores of the next token for every position of a text."""

    def __init__(self, tokens: int, d_model: int, n_heads: int, n_layers: int, longest: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(tokens, d_model), nn.Embedding(longest, d_model)
        self.blocks = nn.Sequential(*(Block(d_model, n_heads) for _ in range(n_layers)))
        self.scores = nn.Linear(d_model, tokens)

    def forward(self, text: Tensor) -> Tensor:
        """Return scores (B, L, tokens) for a text (B, L) of token numbers."""
        places = torch.arange(text.shape[1], device=text.device)
        return self.scores(self.blocks(self.token(text) + self.position(places)))
