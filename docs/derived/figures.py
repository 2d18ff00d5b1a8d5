"""What was measured of the suite itself: how near sound programs come to the bound, and what catches faulty ones."""

from __future__ import annotations

import json
from collections import Counter

from attention_conformance.report.catalogue import caught_faults
from attention_conformance.rulebook import catalogue
from tests.rules.measure_power import POWER
from tests.soundness.measure import WORST
from tests.survey.markdown import code, table


def page() -> str:
    """Return both measurements."""
    return f"{soundness()}\n{power()}"


def soundness() -> str:
    """Return how near sound programs come to the bound."""
    kept = json.loads(WORST.read_text(encoding="utf-8"))
    worst = table(("dtype", "worst ratio of error to bound"), [(code(d), ratio) for d, ratio in kept["worst"].items()])
    return (
        f"{len(kept['programs'])} sound programs, written differently, on inputs beyond the fixed cases: "
        f"{kept['comparisons']} comparisons, {kept['above 1']} above the bound. With 95 % confidence a comparison of "
        f"this kind is a false alarm with a probability below {kept['95 % upper bound on a false alarm']}.\n\n{worst}"
    )


def power() -> str:
    """Return how many faulty programs are rejected, in which tier and by which family."""
    kept = json.loads(POWER.read_text(encoding="utf-8"))
    by_family = Counter(entry["rule"].split("-")[0] for entry in kept.values())
    named = sum(bool(entry["named"]) for entry in kept.values())
    thorough = sum(entry["tier"] == "thorough" for entry in kept.values())
    rows = table(("family of the rule that says most", "faulty programs"), by_family.most_common())
    return (
        f"{len(kept)} faulty programs, each departing in one respect, are rejected; {len(kept) - thorough} by the "
        f"default tier, {thorough} by the thorough one only. For {named} of them the failure names a fault or a "
        f"declaration. {sum(map(bool, caught_faults().values()))} of {len(catalogue())} rules have a faulty program "
        f"that they were measured to reject.\n\n{rows}"
    )
