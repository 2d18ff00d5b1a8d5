"""Types and contract of document 2's listing, which ``self_attention.py`` holds verbatim."""

from torch import Tensor, nn

class SelfAttention(nn.Module):
    """Multi-head attention whose heads share three projections of one head's width, without bias.

    Head h sees features ``h * head_dim`` to ``(h + 1) * head_dim`` of each input. The scale is
    ``1 / sqrt(embed_size)``. ``fc_out`` mixes the joined heads and has a bias.

    Source: document 2. Its surprises are in ``quirks.py``, under Q2.
    """

    embed_size: int
    heads: int
    head_dim: int
    values: nn.Linear
    keys: nn.Linear
    queries: nn.Linear
    fc_out: nn.Linear

    def __init__(self, embed_size: int, heads: int) -> None:
        """Build the projections with torch's default initialisation.

        ``embed_size`` is the width of inputs and output, ``heads`` the number H of heads, and ``head_dim``
        becomes ``embed_size // heads``.

        Raises AssertionError if ``heads`` does not divide ``embed_size`` (not under ``python -O``), and
        ZeroDivisionError if ``heads`` is 0.
        """

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from ``query`` to ``keys`` and ``values`` in every head, and project the joined heads.

        ==========  ======================  ===============================================================
        ``values``  ``(B, S, embed_size)``  values
        ``keys``    ``(B, S, embed_size)``  keys
        ``query``   ``(B, L, embed_size)``  queries; B is read from here alone
        ``mask``    broadcasts to           nonzero = attend, 0 = do not; the scores there become
                    ``(B, H, L, S)``        -1e20 before scaling; None, spelled out, attends everywhere
        ==========  ======================  ===============================================================

        Returns the output ``(B, L, embed_size)``. A row with nothing to attend to is uniform over all S keys.

        Raises RuntimeError if shapes or dtypes do not fit, or for a mask in fp16, which does not hold -1e20.
        """

    def __call__(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        """Run ``forward`` and the module's hooks."""
