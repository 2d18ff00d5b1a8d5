"""The result file: JSON lines, read and written. Its schema is `result.schema.json` beside this module.

    header           once, first: which suite ran where
    implementation   before the records of that implementation
    record           one for each key of the plan
    verdict          after the last record of an implementation
    footer           once, last: how many there were; a file without it is torn

A target that could not be loaded has an implementation without reference and capabilities, no record, and the
verdict `broken` with the reason as its diagnosis: whoever combines files cannot overlook it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from .errors import InvalidResultFile
from .records import Key, Outcome, Picture, Record, Verdict, counts
from .version import __version__

SCHEMA = 1
"""Number of the format. A reader refuses every other one."""

Line = dict[str, Any]
"""One line of the file, or one event of a worker."""

T = TypeVar("T")


@dataclass(frozen=True)
class Header:
    """Which suite ran where. `catalogue` is a digest over ids and sentences of the rules, `environment` names what
    results depend on and is part of every key across files, as is `label`, which the user chooses (a tox
    environment, say); `seed` the one that shifts what every case draws; `started` is UTC, ISO 8601; `shard` is the part
    of a run, as `I/N`."""

    version: str
    catalogue: str
    tier: str
    torch: str
    device: str
    python: str
    platform: str
    seed: int
    environment: str
    label: str | None
    started: str
    shard: str | None = None


@dataclass(frozen=True)
class Described:
    """One implementation: `name` is its key, `target` what was typed, `distribution` what installed it (None for a
    file), `source` a digest of its source file, `reference` None where it could not be loaded. `recognised` names the
    capabilities that were read off its arguments, `inferred` those that a probe found, with what was seen."""

    name: str
    target: str
    distribution: str | None = None
    distribution_version: str | None = None
    source: str | None = None
    reference: str | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    recognised: tuple[str, ...] = ()
    inferred: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """The verdict over one implementation. `counts` lists every outcome, `diagnosis` what its records point to,
    `stale` a sentence for each deviation under which nothing departs any more."""

    implementation: str
    verdict: Verdict
    counts: Mapping[str, int]
    diagnosis: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


@dataclass(frozen=True)
class Audited:
    """Everything that is known of one implementation after a run."""

    described: Described
    records: tuple[Record, ...]
    judged: Judged

    @property
    def name(self) -> str:
        """Name of the implementation."""
        return self.described.name

    @property
    def loaded(self) -> bool:
        """Whether the target could be loaded."""
        return self.described.reference is not None


@dataclass(frozen=True)
class ResultFile:
    """A complete result file; `path` names it in errors."""

    header: Header
    audited: tuple[Audited, ...]
    path: str = "this run"


def unloadable(target: str, why: str) -> tuple[Described, Judged]:
    """Return the two lines for a target that could not be loaded."""
    return Described(target, target), Judged(target, Verdict.BROKEN, counts(()), (why,))


# To lines


def header_line(header: Header) -> Line:
    """Return a header as a line."""
    line = {"type": "header", "schema": SCHEMA, **asdict(header)}
    return line if header.shard is not None else {name: value for name, value in line.items() if name != "shard"}


def described_line(described: Described) -> Line:
    """Return an implementation as a line."""
    return {"type": "implementation", **asdict(described)}


def record_line(record: Record) -> Line:
    """Return a record as a line; a ratio that JSON cannot hold becomes the text `inf` or `nan`."""
    # Not by `asdict`, which copies every text: there are many records.
    line = {"type": "record", **vars(record), "outcome": str(record.outcome), "diagnosis": list(record.diagnosis)}
    if record.ratio is not None and not math.isfinite(record.ratio):
        line["ratio"] = "nan" if math.isnan(record.ratio) else "inf"
    del line["pictures"]
    if record.pictures:
        line["pictures"] = [vars(picture) for picture in record.pictures]
    return line


def judged_line(judged: Judged) -> Line:
    """Return a verdict as a line."""
    return {"type": "verdict", **asdict(judged), "verdict": str(judged.verdict)}


def footer_line(implementations: int, records: int) -> Line:
    """Return the last line."""
    return {"type": "footer", "implementations": implementations, "records": records}


def lines_of(audited: Audited) -> list[Line]:
    """Return everything that is known of one implementation as lines."""
    records = [record_line(record) for record in audited.records]
    return [described_line(audited.described), *records, judged_line(audited.judged)]


def dump(line: Line) -> str:
    """Return a line as one line of ASCII JSON, with its end."""
    return json.dumps(line, ensure_ascii=True, allow_nan=False) + "\n"


# From lines


def _build(cls: type[T], line: Line, **changed: Any) -> T:
    return cls(**{f.name: line[f.name] for f in fields(cls) if f.name in line} | changed)  # type: ignore[arg-type]


def to_described(line: Line) -> Described:
    """Return the implementation of a line; raises KeyError, TypeError or ValueError for another line."""
    more = {"recognised": tuple(line.get("recognised", ())), "inferred": dict(line.get("inferred", {}))}
    return _build(Described, line, capabilities=dict(line["capabilities"]), **more)


def to_record(line: Line) -> Record:
    """Return the record of a line; raises KeyError, TypeError or ValueError for another line."""
    ratio = None if line["ratio"] is None else float(line["ratio"])
    more = {"diagnosis": tuple(line["diagnosis"]), "pictures": tuple(map(_to_picture, line.get("pictures", ())))}
    return _build(Record, line, outcome=Outcome(line["outcome"]), ratio=ratio, **more)


def _to_picture(line: Line) -> Picture:
    return _build(Picture, {name: tuple(value) if isinstance(value, list) else value for name, value in line.items()})


def to_judged(line: Line) -> Judged:
    """Return the verdict of a line; raises KeyError, TypeError or ValueError for another line."""
    more = {name: tuple(line.get(name, ())) for name in ("diagnosis", "stale")}
    return _build(Judged, line, verdict=Verdict(line["verdict"]), counts=dict(line["counts"]), **more)


class Writer:
    """Writes a result file as the run goes. Without `close` the file stays torn, on purpose."""

    def __init__(self, file: IO[str], header: Header) -> None:
        self._file = file
        self._numbers = {"implementation": 0, "record": 0}
        self._put(header_line(header))

    def _put(self, line: Line) -> None:
        self._file.write(dump(line))
        self._file.flush()

    def write(self, line: Line) -> None:
        """Append an implementation, record or verdict; other events are left out."""
        if line["type"] in ("implementation", "record", "verdict"):
            self._numbers[line["type"]] = self._numbers.get(line["type"], 0) + 1
            self._put(line)

    def close(self) -> None:
        """Append the footer."""
        self._put(footer_line(self._numbers["implementation"], self._numbers["record"]))


def read(path: str | Path) -> ResultFile:
    """Return a result file.

    Raises InvalidResultFile for a file that cannot be read, has another schema, is torn, or holds something twice.
    """
    try:
        text = Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidResultFile(f"{path} cannot be read: {error}. Name a file written with --json.") from None
    lines = [_parse(path, number, raw) for number, raw in enumerate(text.splitlines(), 1)]
    header = _checked_header(path, lines)
    if lines[-1].get("type") != "footer" or not text.endswith("\n"):
        raise InvalidResultFile(
            f"{path} has no footer: the run that wrote it did not come to its end. Run it again; half a file would "
            "count what is missing as if it had passed."
        )
    return ResultFile(header, tuple(_assemble(path, lines)), str(path))


def _parse(path: str | Path, number: int, raw: str) -> Line:
    try:
        line = json.loads(raw)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise InvalidResultFile(
            f"{path}, line {number} is no JSON object: the file is torn or no result file. Write it again with --json."
        )
    return line


def _checked_header(path: str | Path, lines: list[Line]) -> Header:
    if not lines or lines[0].get("type") != "header":
        raise InvalidResultFile(f"{path} does not begin with a header: it is no result file. Name one from --json.")
    schema = lines[0].get("schema")
    if schema != SCHEMA:
        raise InvalidResultFile(
            f"{path} has schema {schema!r}, this is attention-conformance {__version__}, which reads schema {SCHEMA}. "
            "Write the file again with this version, or read it with the one that wrote it "
            f"({lines[0].get('version', 'unknown')})."
        )
    try:
        return _build(Header, lines[0])
    except TypeError as error:
        raise InvalidResultFile(f"{path}, line 1: the header is incomplete ({error}). Write the file again.") from None


def _assemble(path: str | Path, lines: list[Line]) -> Iterator[Audited]:
    tables = _Tables(path)
    for number, line in enumerate(lines[1:-1], 2):
        try:
            tables.add(line)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidResultFile):
                raise
            what = f"{type(error).__name__}: {error}"
            raise InvalidResultFile(
                f"{path}, line {number} does not follow the schema ({what}). Write it again."
            ) from None
    tables.check_footer(lines[-1])
    return tables.audited()


class _Tables:
    """Implementations, records and verdicts of one file by key."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.described: dict[str, Described] = {}
        self.records: dict[tuple[str, Key], Record] = {}
        self.judged: dict[str, Judged] = {}

    def add(self, line: Line) -> None:
        kind = line["type"]
        if kind == "implementation":
            described = to_described(line)
            self._once(self.described, described.name, described, described.name)
        elif kind == "record":
            record = to_record(line)
            self._known(record.implementation)
            what = f"{record.implementation} {record.key}"
            self._once(self.records, (record.implementation, record.key), record, what)
        elif kind == "verdict":
            judged = to_judged(line)
            self._known(judged.implementation)
            self._once(self.judged, judged.implementation, judged, f"the verdict of {judged.implementation}")
        else:
            raise ValueError(f"type {kind!r}")

    def _once(self, table: dict[Any, T], key: object, value: T, what: str) -> None:
        if key in table:
            raise InvalidResultFile(
                f"{self.path} holds {what} twice: two runs wrote into one file. Give each run a file of its own."
            )
        table[key] = value

    def _known(self, name: str) -> None:
        if name not in self.described:
            raise InvalidResultFile(
                f"{self.path} has a line for {name!r} before its implementation line: it is torn. Write it again."
            )

    def check_footer(self, footer: Line) -> None:
        found = {"implementations": len(self.described), "records": len(self.records)}
        for name, number in found.items():
            if footer.get(name) != number:
                raise InvalidResultFile(
                    f"{self.path} has {number} {name} and its footer says {footer.get(name)!r}: lines are missing. "
                    "Write the file again."
                )
        for name in self.described:
            if name not in self.judged:
                raise InvalidResultFile(f"{self.path} has no verdict of {name}: lines are missing. Write it again.")

    def audited(self) -> Iterator[Audited]:
        by_name: dict[str, list[Record]] = {name: [] for name in self.described}
        for (name, _), record in self.records.items():
            by_name[name].append(record)
        for name, described in self.described.items():
            yield Audited(described, tuple(by_name[name]), self.judged[name])


def schema() -> dict[str, Any]:
    """Return the JSON schema of one line."""
    from importlib.resources import files

    text = files(__package__).joinpath("result.schema.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def diagnoses(records: Iterable[Record], most: int = 3) -> tuple[str, ...]:
    """Return what the failing records point to, the most frequent first."""
    failing = (record for record in records if record.failing)
    seen = Counter(text for record in failing for text in record.diagnosis)
    return tuple(text for text, _ in seen.most_common(most))


def digest(text: str) -> str:
    """Return the first 16 hexadecimal digits of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
