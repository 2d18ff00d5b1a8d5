"""Which rule and which mutant stand for each known fault, report and property, or why none does.

Most of it is derived: a mutant says which reports and properties it repeats (`repeats`, `kind`), and the measured table
`power.json` says which rules reject it. What follows from neither is written down in `BY_HAND`.

Keys: the fault kinds of `tests.zoo.mutant.KINDS`; `B001` ... are public reports by their number in the project's log;
`numerics 1` ... and `numerics G1` ... are properties that hold without an oracle and identities of gradients;
`probe a` ... are inputs built to show faults that random ones hide; and the named mutants themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.zoo.faulty import MUTANTS
from tests.zoo.mutant import KINDS, Mutant

from .fakes import FAKES

POWER = Path(__file__).with_name("power.json")


@dataclass(frozen=True)
class Covered:
    """The rules that ask for it and the mutants that do it, or a sentence that says why not."""

    rules: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    why_not: str = ""


REPORTS: tuple[str, ...] = tuple(f"B{number:03}" for number in range(1, 262) if number % 4 != 2)
"""Public reports by their number; the log leaves out every fourth."""

NAMED: tuple[str, ...] = (
    "heads_merged_by_view",
    "heads_split_by_view",
    "scale_by_model_dim",
    "scale_argument_ignored",
    "scale_by_padded_dim",
    "scale_also_on_bias",
    "scale_grows_every_block",
    "softmax_over_queries",
    "bool_mask_inverted",
    "bool_mask_added_as_0_1",
    "float_bias_thresholded_to_bool",
    "masked_score_zero",
    "mask_after_softmax",
    "fill_minus_1e9_in_fp16",
    "empty_row_nan",
    "empty_row_nan_gradient",
    "empty_row_uniform_average",
    "masked_nan_leaks",
    "padding_mask_on_query_axis",
    "mask_tiled_over_heads",
    "first_head_mask_for_all",
    "causal_top_left",
    "causal_sees_next_token",
    "causal_dropped_if_mask_given",
    "mask_dropped_if_causal",
    "window_off_by_one",
    "softcap_after_mask",
    "backward_without_causal_mask",
    "bias_gradient_missing",
    "gqa_tiled",
    "gqa_kv_gradient_not_summed",
    "reads_storage_as_contiguous",
    "output_shaped_like_query",
    "tail_block_padding_scored_0",
    "softmax_without_max",
    "qk_overflow_before_scale_fp16",
    "key_index_wraps",
    "query_scaled_in_place",
    "stale_cached_mask",
    "dropout_active_in_eval",
)
"""Mutants that the log of reports names as the most valuable ones."""

PROPERTIES: tuple[str, ...] = (
    *(f"numerics {number}" for number in range(1, 39)),
    *(f"numerics G{number}" for number in range(1, 13)),
)
"""Properties that hold without an oracle, and identities of gradients."""

PROBES: tuple[str, ...] = tuple(f"probe {letter}" for letter in ("a", "b", "c", "d", "d2", "e", "f"))
"""Kinds of input that show what random data hide in 16 bits."""

KEYS: tuple[str, ...] = (*sorted(KINDS), *REPORTS, *NAMED, *PROPERTIES, *PROBES)

_POISON = (
    "NaN behind a mask reaches the output of sound kernels and of the document's own, 0 * NaN being NaN; the suite puts "
    "finite poison there"
)
_OVERFLOW = (
    "products above 65504 overflow in every eager fp16 kernel, the plain definition's own order of steps included"
)
_CACHE = "how a cache keeps its pages is the caller's; `stepwise` judges what a step answers from one sequence"
_LIBRARY = "a mask object of one library; an implementation gets masks as tensors"

BY_HAND: Mapping[str, Covered] = {
    "B004": Covered(("MASK-002", "MASK-014"), ("empty_row_nan", "hidden_leading_block_counts")),
    "B017": Covered(("MASK-002",), ("empty_row_nan",)),
    "B021": Covered(why_not=_POISON),
    "B023": Covered(why_not=_POISON),
    "B024": Covered(why_not=_POISON),
    "B025": Covered(why_not=_POISON),
    "B027": Covered(why_not=_CACHE),
    "B053": Covered(("CAUSAL-002",), ("causal_dropped_if_mask_given", "causal_or_mask")),
    "B064": Covered(
        ("MASK-004",),
        why_not="it raises, loudly, and no mutant only raises: any refusal of a declared shape is an error",
    ),
    "B076": Covered(("CAUSAL-001",), ("causal_top_left", "always_causal_top_left")),
    "B152": Covered(("PORTABILITY-004",), why_not="it hangs or crashes in vmap itself; PORTABILITY-004 asks for vmap"),
    "B169": Covered(("MASK-009",), ("fill_minus_1e9_in_fp16",)),
    "B172": Covered(("MASK-009",), ("fill_minus_1e9_in_fp16",)),
    "B179": Covered(why_not=_OVERFLOW),
    "B209": Covered(
        ("WEIGHTS-002",),
        why_not="well-known modules return the weights after dropout; where none is active they are judged",
    ),
    "B220": Covered(why_not="a compiler's own failure on a scale that is a tensor; a scale is passed as a number"),
    "B223": Covered(
        ("PORTABILITY-004",),
        why_not="a fault of vmap itself, which PORTABILITY-004 asks for with a mask mapped and not",
    ),
    "B224": Covered(
        ("PORTABILITY-003",), why_not="a fault of the exporter, which PORTABILITY-003 asks for other lengths"
    ),
    "B225": Covered(why_not=_LIBRARY),
    "B227": Covered(why_not=_CACHE),
    "B260": Covered(("PURITY-009",), ("result_off_by_chance",)),
    "B261": Covered(("PURITY-009",), ("result_off_by_chance",)),
    "masked_nan_leaks": Covered(why_not=_POISON),
    "qk_overflow_before_scale_fp16": Covered(why_not=_OVERFLOW),
    "masked values leak (NaN/Inf behind the mask)": Covered(("NUMERIC-012",), ("nan_query_answers_zero",)),
    "probe a": Covered(
        ("NUMERIC-001", "NUMERIC-009"), ("scale_by_one_more_than_width", "temperature_off_by_one_percent")
    ),
    "probe b": Covered(("NUMERIC-004",), ("scale_sign_flipped", "scale_by_width_of_at_most_64")),
    "probe c": Covered(
        ("NUMERIC-005",), ("last_key_of_128_dropped", "last_key_of_64_counted_twice", "keys_beyond_64_ignored")
    ),
    "probe d": Covered(
        ("NUMERIC-003", "NUMERIC-006", "NUMERIC-010"),
        ("single_key_gets_sigmoid", "epsilon_without_max", "softmax_without_max", "epsilon_1e_8_in_denominator"),
    ),
    "probe d2": Covered(
        ("NUMERIC-008", "NUMERIC-010"), ("denominator_summed_in_working_dtype", "output_summed_in_working_dtype")
    ),
    "probe e": Covered(("NUMERIC-013",), ("temperature_off_by_one_percent",)),
    "probe f": Covered(
        ("MASK-003", "CAUSAL-003", "OPTIONS-001", "OPTIONS-002", "OPTIONS-004", "OPTIONS-005", "OPTIONS-011"),
        ("mask_ignored", "scale_argument_ignored", "bias_ignored", "window_ignored"),
    ),
}
"""What cannot be derived. An entry adds to what is derived; one with a reason stands where nothing is derived."""


def _claims(mutant: Mutant) -> Iterable[str]:
    """Return the keys that a mutant stands for by what it says of itself."""
    yield mutant.kind
    yield mutant.name
    yield from re.findall(r"B\d{3}|numerics G?\d+", mutant.repeats)


@lru_cache(maxsize=1)
def table() -> Mapping[str, Covered]:
    """Return the entry of every key that is covered or has a reason."""
    power = json.loads(POWER.read_text(encoding="utf-8"))
    rules: dict[str, set[str]] = {}
    mutants: dict[str, set[str]] = {}
    for mutant in (*MUTANTS, *FAKES):
        if mutant.name in power:
            for key in _claims(mutant):
                mutants.setdefault(key, set()).add(mutant.name)
                rules.setdefault(key, set()).add(power[mutant.name]["rule"])
    result = {}
    for key in KEYS:
        own = BY_HAND.get(key, Covered())
        named = Covered(
            tuple(sorted({*own.rules, *rules.get(key, ())})),
            tuple(sorted({*own.mutants, *mutants.get(key, ())})),
            own.why_not,
        )
        if named.rules or named.why_not:
            result[key] = named
    return result


def markdown() -> str:
    """Return the table as Markdown."""
    lines = ["| fault, report or property | rules | mutants | why not |", "|---|---|---|---|"]
    for key, entry in table().items():
        lines.append(f"| {key} | {_some(entry.rules)} | {_some(entry.mutants)} | {entry.why_not} |")
    return "\n".join(lines) + "\n"


def _some(names: tuple[str, ...], most: int = 4) -> str:
    left = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + left


if __name__ == "__main__":
    print(markdown(), end="")
