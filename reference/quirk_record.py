"""The record that describes one quirk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Subject = Literal["attention", "MultiHeadAttention", "SelfAttention", "document 1", "document 2"]


@dataclass(frozen=True)
class Quirk:
    """A property of a document's code that a reader would not expect.

    Every quirk is shown by a test that runs the listing and fails if the quirk goes away.
    """

    id: str
    """Permanent name in kebab case, never reused; it begins with Q1 for document 1 and Q2 for document 2."""

    reference: Subject
    """What has the quirk: one of the three references, or a document where no reference has it.

    `MultiHeadAttention` computes through `attention` and inherits its quirks; they stand there only.
    """

    sentence: str
    """What is so, in one sentence and the present tense."""

    where: str
    """Document and section, and for the listings also line and code: `... listing line 10: <code>`.

    The listing starts with its `import torch`; its lines are those of the verbatim file in this package.
    """

    consequence: str
    """What this does to somebody who uses or copies the code."""
