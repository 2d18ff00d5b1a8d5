"""One rule per convention: the declared answer is the one that experiments show."""

from __future__ import annotations

from ..conventions.reading import declaration, read
from ..conventions.table import CONVENTIONS, PLAIN, SQUARE_PLAIN
from ..errors import UnknownCall
from ..oracle.comparing import Departure
from ..rulebook import rule
from ..trials.trial import Trial


def _settle(trial: Trial, capability: str) -> None:
    try:
        reading = read(trial, CONVENTIONS[capability])
    except UnknownCall as error:
        # What has no place in the call would be missing from every case that needs it.
        raise Departure(str(error), inputs=trial.inputs, declare=error.declare, blocks=True) from error
    declared = getattr(trial.capabilities, capability)
    if reading.changes is None and capability != "scale" and trial.case in (PLAIN, SQUARE_PLAIN):
        # An ordinary call that no answer explains is no matter of axes or triangles: NUMERIC-002 says what differs.
        return
    if reading.changes is None:
        raise Departure(
            f"{reading.evidence}. No known answer to {CONVENTIONS[capability].question!r} fits",
            ratio=reading.ratio,
            inputs=trial.inputs,
            blocks=reading.measured,
        )
    if capability in reading.changes or "mask_shapes" in reading.changes:
        asked = (
            {capability: declared} if capability in reading.changes else {"mask_shapes": trial.capabilities.mask_shapes}
        )
        raise Departure(
            f"{declaration(asked)} is declared, and {reading.evidence}; "
            f"with {declaration(reading.changes)} everything agrees",
            ratio=reading.ratio,
            inputs=trial.inputs,
            declare=declaration(reading.changes),
        )


@rule(
    "SHAPE-003",
    source="Document 1, section 2 (axes of Q, K, V); layouts of flash-attention and torch.nn.MultiheadAttention",
    cases=CONVENTIONS["layout"].cases,
    convention="layout",
    depends=(),
)
def axes_come_in_the_declared_order(trial: Trial) -> None:
    """The axes of query, key, value and output come in the declared order.

    A kernel for (B, L, H, D) that is given (B, H, L, D) returns the right shape and attends over heads.
    """
    _settle(trial, "layout")


@rule(
    "NUMERIC-001",
    source="Vaswani et al. 2017, section 3.2.1; document 2 divides by sqrt(embed_size)",
    cases=CONVENTIONS["scale"].cases,
    convention="scale",
    depends=("layout",),
)
def scores_are_multiplied_by_the_declared_scale(trial: Trial) -> None:
    """The scores are multiplied by the declared scale before the softmax.

    A scale taken from the width of the model instead of the head flattens every row and still trains.
    """
    _settle(trial, "scale")


@rule(
    "CAUSAL-001",
    source="torch aligns top-left, flash-attention since 2.1 bottom-right",
    cases=CONVENTIONS["causal"].cases,
    convention="causal",
    depends=("layout", "scale"),
)
def causal_triangle_is_aligned_as_declared(trial: Trial) -> None:
    """The causal triangle is aligned with the declared corner when L differs from S, and absent where none is declared.

    Both alignments are in use and agree at L = S. With a cache only bottom-right lets the last query see every key.
    """
    _settle(trial, "causal")


@rule(
    "MASK-001",
    source="Document 1, section 2 (mask == 0 is filled); torch.nn.MultiheadAttention hides where True",
    cases=CONVENTIONS["mask_means"].cases,
    convention="mask_means",
    depends=("layout", "scale", "causal"),
)
def true_elements_mean_what_is_declared(trial: Trial) -> None:
    """A true element of the mask means what is declared: the key attends, or it is hidden.

    An inverted mask attends to exactly the keys it should hide, padding and future included.
    """
    _settle(trial, "mask_means")


@rule(
    "MASK-002",
    source="Document 1's fill of -1e9 gives the mean; torch's SDPA and flash-attention give zeros",
    cases=CONVENTIONS["empty_row"].cases,
    convention="empty_row",
    depends=("layout", "scale", "causal", "mask_means"),
)
def empty_row_returns_the_declared_answer(trial: Trial) -> None:
    """A row that may attend to nothing returns the declared answer, in train and in eval.

    Zeros, the mean over all keys and NaN are all in use; NaN from one padded row reaches every parameter in training.
    """
    _settle(trial, "empty_row")


@rule(
    "SHAPE-004",
    source="Document 1 returns zeros: a softmax over nothing, times nothing",
    cases=CONVENTIONS["no_keys"].cases,
    convention="no_keys",
    depends=("layout",),
)
def no_keys_return_the_declared_answer(trial: Trial) -> None:
    """An empty list of keys returns the declared answer in the shape of any other output."""
    _settle(trial, "no_keys")


@rule(
    "CAUSAL-002",
    source="torch's SDPA documents an error, its CPU kernels combine both; keras and jax combine both",
    cases=CONVENTIONS["causal_with_mask"].cases,
    convention="causal_with_mask",
    needs={"causal_with_mask": ("and", "error")},
    depends=("layout", "scale", "causal", "mask_means"),
)
def causal_and_mask_hold_together(trial: Trial) -> None:
    """Causal together with a mask does what is declared: both hold, or it raises.

    Dropping one of the two when the other is given is among the most frequent faults reported in public.
    """
    _settle(trial, "causal_with_mask")


@rule(
    "WEIGHTS-001",
    source="Document 1, section 2 (returns output and weights)",
    cases=CONVENTIONS["second"].cases,
    convention="second",
    depends=("layout", "scale", "causal"),
)
def second_result_is_what_is_declared(trial: Trial) -> None:
    """The second result is what is declared: weights per head, their mean over heads, a logsumexp, or nothing."""
    _settle(trial, "second")
