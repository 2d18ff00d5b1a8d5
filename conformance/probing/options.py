"""Which options it takes. One that is taken and does something else is judged all the same where its name is plain."""

from __future__ import annotations

import torch

from ..cases.case import Case
from ..conventions.table import agrees
from ..oracle.comparing import Departure
from ..trials.trial import Trial
from .prober import Prober

CASES = {
    "scale": Case("scale 0.3", scale=0.3),
    "bias": Case("bias", bias="BHLS"),
    "softcap": Case("softcap", softcap=1.5),
    "window": Case("window", window=3, queries=8, keys=8),
    "dropout": Case("dropout", dropout=0.5, queries=16, keys=16),
}
PLAIN_MEANING = ("scale", "bias", "softcap", "dropout")
"""Options whose name says what they do. Windows are counted in several ways, and only `call` can translate them."""


def settle_options(prober: Prober) -> None:
    """Find out which options are offered."""
    offered, told, settled = [], [], True
    for option, case in CASES.items():
        check = _drops if option == "dropout" else agrees
        modes = ("train",) if option == "dropout" and "train" in prober.modes else ("eval",)
        seen = prober.see(case, check, mode=modes[0], options=(option,))
        if seen.agrees:
            offered.append(option)
            told.append(f"{option} agrees")
        elif not seen.raises and seen.state != "excluded" and prober.takes(option):
            fault = prober.explained(case, options=(option,)) if option != "dropout" else ""
            told.append(f"{option} is taken, and {seen.told}{fault}")
            if option in PLAIN_MEANING or fault:
                offered.append(option)
                settled = False
            else:
                prober.remark(f"{option} is taken and means something else; translate it in call=")
    prober.settle("options", tuple(offered), "; ".join(told) or "none is taken", settled=settled)


def _drops(trial: Trial) -> None:
    """Some weights are dropped: the output changes from call to call, and is finite."""
    first, second = trial.run().output, trial.run().output
    if not bool(torch.isfinite(first).all()) or torch.equal(first, second):
        raise Departure("nothing is dropped")
