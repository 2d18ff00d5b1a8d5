"""The quirks of document 2: of its prose and of `SelfAttention`."""

from __future__ import annotations

from attention_conformance.reference.quirk_record import Quirk

_LINE = "document 2, listing line"

_DOCUMENT = (
    Quirk(
        id="Q2-single-head-by-title",
        reference="document 2",
        sentence=(
            "The title and the first paragraph call the mechanism single-head, while the code has `heads` heads."
        ),
        where="document 2, title",
        consequence=(
            "Only SelfAttention(embed_size, 1) is what the title names; any other count gives several softmaxes."
        ),
    ),
    Quirk(
        id="Q2-prose-omits-output-layer",
        reference="document 2",
        sentence=(
            "The prose counts three linear layers and ends with weights times values; a fourth, fc_out, follows."
        ),
        where="document 2, last paragraph",
        consequence=("Code written from the prose gives the output before fc_out and has two parameters too few."),
    ),
)

_MODULE = (
    Quirk(
        id="Q2-no-dropout",
        reference="SelfAttention",
        sentence="There is no dropout, so training and evaluation compute the same.",
        where=f"{_LINE} 5: def __init__(self, embed_size, heads):",
        consequence=(
            "A port of a model that drops weights trains differently; its tests in eval mode see no difference."
        ),
    ),
    Quirk(
        id="Q2-assert-vanishes",
        reference="SelfAttention",
        sentence="That heads divides embed_size is checked by an assert, which python -O removes.",
        where=(
            f'{_LINE} 11: assert (self.head_dim * heads == embed_size), "Embed size needs to be divisible by heads"'
        ),
        consequence=(
            "Under -O, SelfAttention(10, 4) builds, refuses inputs of width 10 with a message about shapes, "
            "and accepts width 8; without -O the error is an AssertionError, not a ValueError."
        ),
    ),
    Quirk(
        id="Q2-projections-shared-by-heads",
        reference="SelfAttention",
        sentence="One projection of a head's width each for values, keys and queries serves all heads.",
        where=f"{_LINE} 13: self.values = nn.Linear(self.head_dim, self.head_dim, bias=False)",
        consequence=(
            "Heads differ by their slice of the input alone, each projection has heads ** 2 times fewer "
            "weights than usual, and those of a module with a projection per head cannot be loaded."
        ),
    ),
    Quirk(
        id="Q2-projections-without-bias",
        reference="SelfAttention",
        sentence="The projections of values, keys and queries have no bias, while fc_out has one.",
        where=f"{_LINE} 13: bias=False",
        consequence=(
            "Zero inputs give uniform weights and the bias of fc_out; biases of another module have no place."
        ),
    ),
    Quirk(
        id="Q2-self-by-name",
        reference="SelfAttention",
        sentence=("The class is called SelfAttention and takes three inputs, the query of another length if wanted."),
        where=f"{_LINE} 18: def forward(self, values, keys, query, mask):",
        consequence="Self-attention is the caller's task: the same tensor three times.",
    ),
    Quirk(
        id="Q2-argument-order",
        reference="SelfAttention",
        sentence="The arguments are values, keys, query, the reverse of document 1's order.",
        where=f"{_LINE} 18: def forward(self, values, keys, query, mask):",
        consequence=("A call in the usual order has the right shape and swaps queries with values; keywords avoid it."),
    ),
    Quirk(
        id="Q2-mask-required",
        reference="SelfAttention",
        sentence="The mask has no default, although None is accepted.",
        where=f"{_LINE} 18: def forward(self, values, keys, query, mask):",
        consequence="A call without a mask raises TypeError; None must be spelled out.",
    ),
    Quirk(
        id="Q2-head-sees-own-slice",
        reference="SelfAttention",
        sentence=(
            "The input is cut into heads before it is projected, so a head sees only its own slice of the embedding."
        ),
        where=f"{_LINE} 23: values.reshape(N, value_len, self.heads, self.head_dim)",
        consequence="No head can compare features of another slice; slices meet in fc_out alone.",
    ),
    Quirk(
        id="Q2-batch-and-width-trade",
        reference="SelfAttention",
        sentence=("Only the number of elements is checked: keys of twice the batch and half the width are accepted."),
        where=f"{_LINE} 24: keys.reshape(N, key_len, self.heads, self.head_dim)",
        consequence=("Two samples of narrow keys are read as one of full width, and the output has the right shape."),
    ),
    Quirk(
        id="Q2-einsum-list",
        reference="SelfAttention",
        sentence="einsum is given one list of operands, an old form that torch still takes.",
        where=f'{_LINE} 31: torch.einsum("nqhd,nkhd->nhqk", [queries, keys])',
        consequence="numpy and libraries with its signature refuse the list, so a port must unpack it.",
    ),
    Quirk(
        id="Q2-additive-mask-inverted",
        reference="SelfAttention",
        sentence="An additive mask, 0 for attend and -inf for hide, is read the wrong way round.",
        where=f"{_LINE} 34: mask == 0",
        consequence=("The hidden keys get all the weight and no error tells; such a mask goes in as `mask == 0`."),
    ),
    Quirk(
        id="Q2-any-nonzero-attends",
        reference="SelfAttention",
        sentence="Whatever is not 0 attends fully: a half, a negative number, a NaN.",
        where=f"{_LINE} 34: mask == 0",
        consequence="A soft mask acts as a hard one, and a NaN in a mask goes unseen.",
    ),
    Quirk(
        id="Q2-fill-before-scaling",
        reference="SelfAttention",
        sentence=(
            "The fill -1e20 replaces the score before it is scaled, so a masked score is -1e20 / sqrt(embed_size)."
        ),
        where=f'{_LINE} 34: energy.masked_fill(mask == 0, float("-1e20"))',
        consequence=(
            "fp64, fp32 and bf16 hold it and masked weights are exactly 0; a real score below -1e20, counted "
            "before the scaling, loses to a masked one."
        ),
    ),
    Quirk(
        id="Q2-fp16-mask-raises",
        reference="SelfAttention",
        sentence=(
            "The fill -1e20 does not fit in fp16, so any mask raises RuntimeError there, one that hides "
            "nothing included."
        ),
        where=f'{_LINE} 34: energy.masked_fill(mask == 0, float("-1e20"))',
        consequence="fp16 works with mask None only; bf16 holds the fill.",
    ),
    Quirk(
        id="Q2-empty-row-uniform",
        reference="SelfAttention",
        sentence="A row with nothing to attend to is uniform over all keys, because the fill is finite.",
        where=f'{_LINE} 34: energy.masked_fill(mask == 0, float("-1e20"))',
        consequence=("The row's output is the mean of all projected values, padding included, and not zeros or NaN."),
    ),
    Quirk(
        id="Q2-mask-without-head-axis",
        reference="SelfAttention",
        sentence="A (B, L, S) mask raises RuntimeError, or is read as one mask per head when B equals H.",
        where=f"{_LINE} 34: energy.masked_fill(mask == 0,",
        consequence="Sample b's mask acts on head b of all samples; the mask goes in as (B, 1, L, S).",
    ),
    Quirk(
        id="Q2-padding-mask-without-axes",
        reference="SelfAttention",
        sentence="A (B, S) padding mask raises RuntimeError, or is read as (L, S) when B equals L.",
        where=f"{_LINE} 34: energy.masked_fill(mask == 0,",
        consequence="Sample b's padding acts on query b of all samples; the mask goes in as (B, 1, 1, S).",
    ),
    Quirk(
        id="Q2-scale-from-embed-size",
        reference="SelfAttention",
        sentence=(
            "The scores are divided by sqrt(embed_size), not by sqrt(head_dim): flatter by the factor sqrt(heads)."
        ),
        where=f"{_LINE} 36: energy / (self.embed_size ** (1/2))",
        consequence=(
            "The more heads, the nearer each comes to a plain mean; weights trained elsewhere need their "
            "query projection multiplied by sqrt(heads)."
        ),
    ),
    Quirk(
        id="Q2-fp16-score-overflow",
        reference="SelfAttention",
        sentence="The scores are scaled after the product, so in fp16 a product above 65504 is infinite.",
        where=f"{_LINE} 36: torch.softmax(energy / (self.embed_size ** (1/2)), dim=3)",
        consequence=("The row is NaN although its scaled scores fit; scaling the query first, or in fp32, avoids it."),
    ),
    Quirk(
        id="Q2-lengths-of-one-broadcast",
        reference="SelfAttention",
        sentence=("Keys and values of different lengths are accepted if one length is 1, since einsum broadcasts it."),
        where=f'{_LINE} 38: torch.einsum("nhql,nlhd->nqhd", [attention, values])',
        consequence=("One key with five values gives the sum of the five; five keys with one value give that value."),
    ),
    Quirk(
        id="Q2-nan-in-masked-value",
        reference="SelfAttention",
        sentence="A NaN or an infinity in a masked value reaches the output, because 0 * NaN is NaN.",
        where=f'{_LINE} 38: torch.einsum("nhql,nlhd->nqhd", [attention, values])',
        consequence="Padding must hold finite numbers; uninitialised padding spoils every row.",
    ),
    Quirk(
        id="Q2-nan-in-masked-key-gradient",
        reference="SelfAttention",
        sentence="A NaN in a masked key leaves the output alone and makes the queries' gradient NaN.",
        where=f'{_LINE} 31: torch.einsum("nqhd,nkhd->nhqk", [queries, keys])',
        consequence="The forward pass looks sound and the first training step spoils the weights.",
    ),
    Quirk(
        id="Q2-no-keys-bias",
        reference="SelfAttention",
        sentence="An empty list of keys gives the bias of fc_out, unlike an empty row of a mask.",
        where=f"{_LINE} 40: out = self.fc_out(out)",
        consequence=(
            "Hiding all keys gives the mean of the values through fc_out; removing them gives its bias alone."
        ),
    ),
    Quirk(
        id="Q2-no-weights",
        reference="SelfAttention",
        sentence="The weights are computed and not returned.",
        where=f"{_LINE} 42: return out",
        consequence=(
            "They can be read only through special values; document 1's module returns them beside the output."
        ),
    ),
)

DOCUMENT_2: tuple[Quirk, ...] = (*_DOCUMENT, *_MODULE)
"""The quirks of document 2: its prose, then `SelfAttention`."""
