"""Causal attention, where it is declared."""

from __future__ import annotations

import torch

from ..cases.case import Case, Mask
from ..conventions.table import ALL_KINDS, TRIANGLES
from ..rulebook import rule
from ..trials.trial import Trial

OFFERED = {"causal": TRIANGLES}

SQUARE_CAUSAL = Case("causal, L = S", causal=True, queries=6, keys=6, value_width=8)


@rule(
    "CAUSAL-003",
    source="Vaswani et al. 2017, section 3.2.3",
    cases=(
        SQUARE_CAUSAL,
        Case("causal, one query", causal=True, queries=1),
        Case("causal, one key", causal=True, queries=1, keys=1),
        Case("causal, two queries", causal=True, queries=2, keys=2),
        Case("causal past a block", causal=True, batch=1, heads=2, queries=33, keys=33),
        Case("causal past a large block", causal=True, batch=1, heads=1, queries=65, keys=65),
        Case("causal, S one longer", causal=True, queries=16, keys=17),
        Case("causal, short query, long key", causal=True, batch=1, heads=2, queries=3, keys=40),
        Case("causal, two axes", causal=True, leading="", queries=6, keys=6),
        Case("causal, three axes", causal=True, leading="B", queries=6, keys=6),
        Case("causal, one head", causal=True, heads=1, queries=4, keys=4),
    ),
    needs=OFFERED,
)
def no_query_sees_a_later_key(trial: Trial) -> None:
    """With causal each query attends to the keys up to its own position and to no later one."""
    trial.agrees(trial.run())


@rule(
    "CAUSAL-004",
    source="rows before t do not depend on keys from t on",
    cases=(SQUARE_CAUSAL, Case("causal past a block, for poison", causal=True, batch=1, heads=2, queries=20, keys=20)),
    needs=OFFERED,
)
def the_future_has_no_influence(trial: Trial) -> None:
    """What later keys and values contain changes no bit of an earlier row."""
    inputs = trial.inputs
    keys = inputs.key.shape[-2]
    start = keys // 2
    later = torch.arange(keys)[:, None] >= start
    changed = inputs.changed(
        key=torch.where(later, inputs.key * -3 + 2, inputs.key),
        value=torch.where(later, inputs.value * 5 - 9, inputs.value),
    )
    changed = trial.joined(changed)
    first, second = trial.run(), trial.run(changed)
    rows = slice(0, start)
    allowed = trial.expectation().output.allowed[..., rows, :]
    trial.unchanged("rows before the change", second.output[..., rows, :], first.output[..., rows, :], allowed, changed)
    trial.agrees(second, changed)


@rule(
    "CAUSAL-005",
    source="Reports of a flag that stays, is forced by a missing attribute, or is dropped with a mask",
    cases=(
        Case("not causal", queries=6, keys=6),
        Case("not causal, masked", queries=6, keys=6, mask=Mask("random", "LS")),
    ),
    needs={"causal": ("top-left", "bottom-right")},
)
def without_the_option_every_key_is_seen(trial: Trial) -> None:
    """Without the causal option every allowed key is seen, also after a causal call of the same lengths."""
    trial.run(trial.at(SQUARE_CAUSAL).inputs)
    trial.agrees(trial.run())


@rule(
    "CAUSAL-006",
    source="Dropping the mask when causal is set, or causal when a mask is given (reports lucidrains/x-transformers#187, keras-team/keras#23038)",
    cases=(
        Case("causal and a mask", causal=True, queries=6, keys=6, mask=Mask("causal", "LS", ALL_KINDS)),
        Case(
            "causal and padding",
            causal=True,
            queries=6,
            keys=6,
            mask=Mask("tail hidden", "B11S", (*ALL_KINDS, "lengths")),
        ),
        Case("causal and a mask per head", causal=True, queries=6, keys=6, mask=Mask("empty row", "BHLS", ALL_KINDS)),
        Case(
            "causal and padding, S longer",
            causal=True,
            queries=3,
            keys=6,
            mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths")),
        ),
    ),
    needs={**OFFERED, "causal_with_mask": "and"},
)
def causal_and_mask_both_hold(trial: Trial) -> None:
    """With causal and a mask a key is seen only if both allow it."""
    trial.agrees(trial.run())
