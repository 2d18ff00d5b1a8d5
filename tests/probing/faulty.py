"""Whether a fault can be declared away by a probe: `python -m tests.probing.faulty [--only WORD] [--every N]`.

Every faulty program of the tests is probed without its declarations and judged under what was found; all that the suite
rejects under its own declarations have to be rejected then as well.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_conformance import check
from attention_conformance.errors import ConformanceError
from attention_conformance.implementation import Implementation, describe
from attention_conformance.probing.inferring import infer

from ..zoo.faulty import MUTANTS
from ..zoo.mutant import Mutant
from .measure import WAY

POWER: Mapping[str, Any] = json.loads((Path(__file__).parents[1] / "rules" / "power.json").read_text())


def rejected(mutant: Mutant) -> str | None:
    """Return the rule that rejects a faulty program under what a probe found, None where none does."""
    way = {name: value for name, value in mutant.capabilities.items() if name in WAY}
    try:
        found, _ = infer(describe(mutant.target, **way))
    except ConformanceError as error:
        return type(error).__name__
    # The rule that rejects it under its own declarations is the likeliest to do so here.
    first = POWER.get(mutant.name, {})
    named = [word for word in (first.get("rule"), first.get("dtype")) if word]
    return (_bad(found, named) if named else None) or _bad(found, [])


def _bad(implementation: Implementation, select: list[str]) -> str | None:
    return next((record.rule for record in check(implementation, select=select) if record.bad), None)


def main() -> None:
    """Print the faulty programs that nobody rejects, and how many were tried."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    tried = [mutant for mutant in MUTANTS if options.only in mutant.name and mutant.name in POWER][:: options.every]
    lost = 0
    for mutant in tried:
        if rejected(mutant) is None:
            lost += 1
            print(f"not rejected: {mutant.name}: {dict(mutant.capabilities)}", flush=True)
    print(f"{len(tried) - lost} of {len(tried)} faulty programs are rejected under what was found")


if __name__ == "__main__":
    main()
