"""Every quirk of the documents' code, as data.

Where a rule of the suite objects to a quirk, the rule stays, and the reference carries a deviation whose
reason is the quirk; copies of a document's code are offered the same one.
"""

from __future__ import annotations

from attention_conformance.errors import ConformanceError, nearest
from attention_conformance.reference.document1_quirks import DOCUMENT_1
from attention_conformance.reference.document2_quirks import DOCUMENT_2
from attention_conformance.reference.quirk_record import Quirk

__all__ = ["QUIRKS", "Quirk", "UnknownQuirk", "quirk"]

QUIRKS: tuple[Quirk, ...] = (*DOCUMENT_1, *DOCUMENT_2)
"""All quirks, document 1's first."""


class UnknownQuirk(ConformanceError, LookupError):
    """A quirk id that neither document's list holds."""


def quirk(identifier: str) -> Quirk:
    """Return the quirk whose id is `identifier`.

    Raises UnknownQuirk if there is none.
    """
    for each in QUIRKS:
        if each.id == identifier:
            return each
    hint = nearest(identifier, [each.id for each in QUIRKS])
    raise UnknownQuirk(
        f"No quirk is called {identifier!r}{hint or '.'} Ids are permanent and spelled exactly; "
        f"{__name__}.QUIRKS holds them all."
    )
