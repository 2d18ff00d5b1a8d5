"""Types and contract of document 1's complete listing (section 4), which ``attention.py`` holds verbatim."""

from torch import Tensor, nn

def attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention: ``softmax(Q K^T / sqrt(D)) V``.

    ===========  ===============  ==========================================================================
    ``Q``        ``(..., L, D)``  queries
    ``K``        ``(..., S, D)``  keys; the leading axes of ``Q``, ``K`` and ``V`` broadcast
    ``V``        ``(..., S, E)``  values
    ``mask``     broadcasts to    nonzero = attend, 0 = do not; the scores there become -1e9 after scaling;
                 ``(..., L, S)``  None attends everywhere
    ===========  ===============  ==========================================================================

    Returns ``(output, weights)``: ``(..., L, E)`` and ``(..., L, S)``. The softmax runs over the keys: each
    row of the weights sums to 1. A row with nothing to attend to is uniform over all S keys. Without keys the
    output is 0.

    Raises RuntimeError if shapes or dtypes do not fit, or for a mask in fp16, which does not hold -1e9.

    Source: document 1, sections 2 and 4. Its surprises are in ``quirks.py``, under Q1.
    """

class MultiHeadAttention(nn.Module):
    """Multi-head attention with four projections of ``d_model`` to ``d_model``, all with a bias.

    Head h runs ``attention`` on features ``h * d_k`` to ``(h + 1) * d_k`` of the projected queries, keys and
    values, so the scale is ``1 / sqrt(d_k)``.

    Source: document 1, sections 3 and 4. Its surprises are in ``quirks.py``, under Q1.
    """

    d_model: int
    n_heads: int
    d_k: int
    W_q: nn.Linear
    W_k: nn.Linear
    W_v: nn.Linear
    W_o: nn.Linear

    def __init__(self, d_model: int, n_heads: int) -> None:
        """Build the projections with torch's default initialisation.

        ``d_model`` is the width of inputs and output, ``n_heads`` the number H of heads, and ``d_k`` becomes
        ``d_model // n_heads``. That ``n_heads`` divides ``d_model`` is assumed and not checked.

        Raises ZeroDivisionError if ``n_heads`` is 0.
        """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Attend from ``query`` to ``key`` and ``value`` in every head, and project the joined heads.

        =========  ====================  ============================================
        ``query``  ``(B, L, d_model)``   queries; B is read from here alone
        ``key``    ``(B, S, d_model)``   keys
        ``value``  ``(B, S, d_model)``   values
        ``mask``   broadcasts to         nonzero = attend; None attends everywhere
                   ``(B, H, L, S)``
        =========  ====================  ============================================

        Returns ``(output, weights)``: ``(B, L, d_model)`` and ``(B, H, L, S)``.

        Raises RuntimeError if shapes or dtypes do not fit, for an empty batch, or for a mask in fp16.
        """

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Run ``forward`` and the module's hooks."""
