"""The quirks of document 1: of its prose, of `attention` and of `MultiHeadAttention`."""

from __future__ import annotations

from attention_conformance.reference.quirk_record import Quirk

_LINE = "document 1, section 4, listing line"

_DOCUMENT = (
    Quirk(
        id="Q1-missing-import",
        reference="document 1",
        sentence="The imports of section 1 lack `import torch`, which the code below them uses.",
        where="document 1, section 1",
        consequence=(
            "Code put together from sections 1 to 3 stops with NameError; the complete listing has the import."
        ),
    ),
    Quirk(
        id="Q1-fragments-do-not-parse",
        reference="document 1",
        sentence="The fragments of sections 2 and 3 have lost their indentation.",
        where="document 1, sections 2 and 3",
        consequence="Pasted as printed they stop with IndentationError; only section 4 can be copied.",
    ),
    Quirk(
        id="Q1-prose-calls-heads-shared",
        reference="document 1",
        sentence=(
            "The prose calls the heads' linear maps shared, while every head has rows of its own in W_q, W_k and W_v."
        ),
        where="document 1, section 3",
        consequence=("Shared projections built from the prose resemble document 2's; these weights do not fit them."),
    ),
)

_ATTENTION = (
    Quirk(
        id="Q1-fp16-score-overflow",
        reference="attention",
        sentence="The scores are scaled after the product, so in fp16 a product above 65504 is infinite.",
        where=f"{_LINE} 7: torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(Q.size(-1))",
        consequence=("The row is NaN although its scaled scores fit; scaling the query first, or in fp32, avoids it."),
    ),
    Quirk(
        id="Q1-zero-width-nan",
        reference="attention",
        sentence="Queries and keys of width 0 make every score 0/0.",
        where=f"{_LINE} 7: / math.sqrt(Q.size(-1))",
        consequence="Output and weights are NaN, where an empty sum would give uniform weights.",
    ),
    Quirk(
        id="Q1-additive-mask-inverted",
        reference="attention",
        sentence="An additive mask, 0 for attend and -inf for hide, is read the wrong way round.",
        where=f"{_LINE} 10: mask == 0",
        consequence=("The hidden keys get all the weight and no error tells; such a mask goes in as `mask == 0`."),
    ),
    Quirk(
        id="Q1-any-nonzero-attends",
        reference="attention",
        sentence="Whatever is not 0 attends fully: a half, a negative number, a NaN.",
        where=f"{_LINE} 10: mask == 0",
        consequence="A soft mask acts as a hard one, and a NaN in a mask goes unseen.",
    ),
    Quirk(
        id="Q1-fp16-mask-raises",
        reference="attention",
        sentence=(
            "The fill -1e9 does not fit in fp16, so any mask raises RuntimeError there, one that hides "
            "nothing included."
        ),
        where=f"{_LINE} 10: masked_fill(mask == 0, -1e9)",
        consequence="fp16 works without a mask only; bf16 holds the fill.",
    ),
    Quirk(
        id="Q1-empty-row-uniform",
        reference="attention",
        sentence="A row with nothing to attend to is uniform over all keys, because the fill is finite.",
        where=f"{_LINE} 10: masked_fill(mask == 0, -1e9)",
        consequence=("The row's output is the mean of all values, padding and future included, not zeros and not NaN."),
    ),
    Quirk(
        id="Q1-empty-row-trains-masked-values",
        reference="attention",
        sentence="A row with nothing to attend to sends its gradient in equal parts to all masked values.",
        where=f"{_LINE} 10: masked_fill(mask == 0, -1e9)",
        consequence=(
            "Values that nobody may see are trained by padded rows; queries and keys get no gradient from them."
        ),
    ),
    Quirk(
        id="Q1-real-score-below-fill",
        reference="attention",
        sentence="A real score below -1e9 loses to a masked one, because the fill is finite.",
        where=f"{_LINE} 10: masked_fill(mask == 0, -1e9)",
        consequence="A row whose allowed scores all lie below -1e9 attends to the keys that its mask hides.",
    ),
    Quirk(
        id="Q1-mask-adds-axes",
        reference="attention",
        sentence="A mask larger than the scores enlarges them, since masked_fill broadcasts both ways.",
        where=f"{_LINE} 10: scores = scores.masked_fill(mask == 0, -1e9)",
        consequence=(
            "Output and weights take the mask's extra axes, or rows for queries that do not exist; nothing raises."
        ),
    ),
    Quirk(
        id="Q1-nan-in-masked-value",
        reference="attention",
        sentence="A NaN or an infinity in a masked value reaches the output, because 0 * NaN is NaN.",
        where=f"{_LINE} 13: torch.matmul(attention_weights, V)",
        consequence="Padding must hold finite numbers; uninitialised padding spoils every row.",
    ),
    Quirk(
        id="Q1-nan-in-masked-key-gradient",
        reference="attention",
        sentence="A NaN in a masked key leaves the output alone and makes the queries' gradient NaN.",
        where=f"{_LINE} 7: torch.matmul(Q, K.transpose(-2, -1))",
        consequence="The forward pass looks sound and the first training step spoils the weights.",
    ),
    Quirk(
        id="Q1-no-keys-zeros",
        reference="attention",
        sentence="An empty list of keys gives zeros, unlike an empty row of a mask.",
        where=f"{_LINE} 13: torch.matmul(attention_weights, V)",
        consequence=(
            "Hiding all keys gives the mean of the values, removing them gives 0 (the module: the bias of W_o)."
        ),
    ),
)

_MODULE = (
    Quirk(
        id="Q1-no-dropout",
        reference="MultiHeadAttention",
        sentence="There is no dropout, so training and evaluation compute the same.",
        where=f"{_LINE} 18: def __init__(self, d_model, n_heads):",
        consequence=(
            "A port of a model that drops weights trains differently; its tests in eval mode see no difference."
        ),
    ),
    Quirk(
        id="Q1-indivisible-width",
        reference="MultiHeadAttention",
        sentence=("That n_heads divides d_model is not checked, and the leftover features make extra positions."),
        where=f"{_LINE} 22: self.d_k = d_model // n_heads",
        consequence=(
            "With d_model 10 and 4 heads, length 3 raises, while length 4 gives an output of the right shape "
            "whose weights are 5 x 5: features of one position have become another position."
        ),
    ),
    Quirk(
        id="Q1-key-bias-without-effect",
        reference="MultiHeadAttention",
        sentence=(
            "The bias of W_k changes no output: it adds one number to all scores of a row, and softmax removes it."
        ),
        where=f"{_LINE} 25: self.W_k = torch.nn.Linear(d_model, d_model)",
        consequence=(
            "Its gradient is rounding noise, which no relative tolerance can compare; the optimiser still moves it."
        ),
    ),
    Quirk(
        id="Q1-unbatched-input",
        reference="MultiHeadAttention",
        sentence="An input without a batch axis, (L, d_model), is taken as L samples of one position each.",
        where=f"{_LINE} 30: batch_size = query.size(0)",
        consequence=(
            "Every position attends to itself alone with weight 1, and the output has three axes: (L, 1, d_model)."
        ),
    ),
    Quirk(
        id="Q1-empty-batch-raises",
        reference="MultiHeadAttention",
        sentence="An empty batch raises RuntimeError, because view cannot infer -1 from no elements.",
        where=f"{_LINE} 33: .view(batch_size, -1, self.n_heads, self.d_k)",
        consequence=("The last, empty shard of an evaluation stops the program; `attention` itself accepts it."),
    ),
    Quirk(
        id="Q1-extra-axes-folded",
        reference="MultiHeadAttention",
        sentence=(
            "Axes between batch and sequence, (B, N, L, d_model), are folded into one sequence of N * L positions."
        ),
        where=f"{_LINE} 33: .view(batch_size, -1, self.n_heads, self.d_k)",
        consequence=(
            "Groups that belong apart attend to each other, and the output comes back as (B, N * L, d_model)."
        ),
    ),
    Quirk(
        id="Q1-key-batch-folded",
        reference="MultiHeadAttention",
        sentence=(
            "The batch size is read from the query, so keys of batch 4 under queries of batch 2 become twice as long."
        ),
        where=f"{_LINE} 34: .view(batch_size, -1, self.n_heads, self.d_k)",
        consequence=(
            "Each query attends to the keys of two samples, the output has the right shape, and nothing raises."
        ),
    ),
    Quirk(
        id="Q1-single-key-batch-cut",
        reference="MultiHeadAttention",
        sentence=("One batch of keys under queries of batch 2 does not broadcast: its sequence is cut in halves."),
        where=f"{_LINE} 34: .view(batch_size, -1, self.n_heads, self.d_k)",
        consequence=("The first sample sees the first half of the keys, the second the rest; an odd length raises."),
    ),
    Quirk(
        id="Q1-mask-without-head-axis",
        reference="MultiHeadAttention",
        sentence="A (B, L, S) mask raises RuntimeError, or is read as one mask per head when B equals H.",
        where=f"{_LINE} 38: attention(Q, K, V, mask)",
        consequence="Sample b's mask acts on head b of all samples; the mask goes in as (B, 1, L, S).",
    ),
    Quirk(
        id="Q1-padding-mask-without-axes",
        reference="MultiHeadAttention",
        sentence="A (B, S) padding mask raises RuntimeError, or is read as (L, S) when B equals L.",
        where=f"{_LINE} 38: attention(Q, K, V, mask)",
        consequence="Sample b's padding acts on query b of all samples; the mask goes in as (B, 1, 1, S).",
    ),
    Quirk(
        id="Q1-mask-multiplies-query",
        reference="MultiHeadAttention",
        sentence=("A mask with more rows or samples than the query multiplies the query, and the result is folded."),
        where=f"{_LINE} 41: .view(batch_size, -1, self.d_model)",
        consequence=(
            "One new query under a causal mask of 4 rows gives 4 positions, the first of which see fewer "
            "keys; a mask of batch 4 over a batch of 1 gives 4 * L positions."
        ),
    ),
)

DOCUMENT_1: tuple[Quirk, ...] = (*_DOCUMENT, *_ATTENTION, *_MODULE)
"""The quirks of document 1: its prose and fragments, then `attention`, then `MultiHeadAttention`."""
