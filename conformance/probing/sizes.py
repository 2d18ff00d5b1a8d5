"""Which sizes it takes: lengths, widths, numbers of heads, leading axes. What raises is not offered."""

from __future__ import annotations

from ..cases.case import Case, vary
from ..conventions.table import CAUSAL_TALL, PLAIN
from .prober import Prober

TALL = vary(CAUSAL_TALL, "more queries than keys", causal=False)
WIDTHS = (1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64, 80, 96, 128, 256)
AXES = (
    Case("two axes", leading=""),
    Case("three axes", leading="B"),
    Case("five axes", leading="GBH"),
)
BROADCAST = (
    Case("one key for every batch element and head", broadcast=("key", "value")),
    Case("one query for every batch element and head", broadcast=("query",)),
)
GROUPED = Case("grouped heads", heads=4, kv_heads=2)
ONE_GROUP = Case("one key head", heads=4, kv_heads=1)


def settle_sizes(prober: Prober) -> None:
    """Find out lengths, widths, heads and leading axes."""
    _lengths(prober)
    _widths(prober)
    if not prober.is_module:
        _leading(prober)
        _heads(prober)


def _lengths(prober: Prober) -> None:
    if prober.known("inputs") == "self" or prober.known("lengths") == "equal":
        return
    seen = prober.see(TALL)
    if seen.raises:
        prober.settle("lengths", "at most", f"with more queries than keys {seen.told}")
    else:
        prober.settle("lengths", "any", f"with more queries than keys it {_short(seen.told)}")


def _widths(prober: Prober) -> None:
    refused = {}
    for width in WIDTHS:
        seen = prober.see(vary(PLAIN, f"width {width}", width=width, value_width=width), widths="any")
        if seen.raises:
            refused[width] = seen.told
    accepted = tuple(width for width in WIDTHS if width not in refused)
    if not refused:
        prober.settle("widths", "any", f"{len(WIDTHS)} widths from 1 to {WIDTHS[-1]} are answered")
    elif accepted:
        first = next(iter(refused.items()))
        prober.settle("widths", accepted, f"width {first[0]} and {len(refused) - 1} others raise: {first[1]}")
    if prober.is_module or prober.known("inputs") != "cross":
        return
    seen = prober.see(PLAIN, value_width="any")
    told = f"E = {PLAIN.value_width} beside D = {PLAIN.width}: {seen.told}"
    same = not seen.agrees and prober.see(PLAIN, value_width="same").agrees
    prober.settle("value_width", "same" if same else "any", told)
    if same and not seen.raises:
        prober.judge("value_width", "any", told)


def _leading(prober: Prober) -> None:
    """Broadcasting and other numbers of axes are asked of a kernel that takes any."""
    if prober.known("layout") != "...LD" or not prober.findings["layout"].settled:
        return
    seen = {case.name: prober.see(case) for case in AXES}
    other = [
        f"{name} {'raise' if each.raises else 'give something else'}" for name, each in seen.items() if not each.agrees
    ]
    if other:
        # Most kernels are made for batch and heads, and nobody sends them anything else.
        prober.settle("layout", "BHLD", f"four axes agree; {', '.join(other)}")
        return
    broadcast = [prober.see(case) for case in BROADCAST]
    raises = any(each.raises for each in broadcast)
    words = "leading axes of size 1 raise" if raises else "leading axes broadcast"
    prober.settle("leading", "equal" if raises else "broadcast", words)


def _heads(prober: Prober) -> None:
    if prober.known("inputs") == "self":
        return
    seen = [prober.see(case, heads="grouped") for case in (GROUPED, ONE_GROUP)]
    if all(each.agrees for each in seen):
        prober.settle("heads", "grouped", "2 and 1 key heads with 4 query heads agree, consecutive heads sharing one")
        return
    first = next(each for each in seen if not each.agrees)
    fault = "" if first.raises else prober.explained(GROUPED, heads="grouped")
    # A known fault of grouping is one; anything else is a kernel that was not made for it.
    answer = "grouped" if "gqa" in fault or "group" in fault else "equal"
    prober.settle("heads", answer, f"with fewer key heads {_short(first.told)}{fault}", settled=answer == "equal")


def _short(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else text[:limit] + " ..."
