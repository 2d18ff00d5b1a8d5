"""The extension of syrupy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syrupy.data import Snapshot, SnapshotCollection, SnapshotCollections
from syrupy.extensions.amber.serializer import Repr
from syrupy.extensions.base import AbstractSyrupyExtension

from . import places
from .differences import differences
from .encoding import TOLERANCES, Tolerance, UnsupportedPin, document, from_text, to_text, versions

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation

    Index = int | str

MOST_LINES = 20


class PinText(str):
    """The text of a file, and what syrupy shows of it.

    `snapshot(extension_class=...)` is back at its former extension by the time that it explains a difference, so what
    explains it is a line by line diff of `str()` of both texts. `shown` takes the place of that text there.
    """

    shown: str | None = None

    def __str__(self) -> str:
        return self.text if self.shown is None else self.shown

    @property
    def text(self) -> str:
        """The text itself."""
        return str.__str__(self)


def text_of(data: Any) -> str:
    """Return the text of a file as it is written."""
    return data.text if isinstance(data, PinText) else str(data)


class PinExtension(AbstractSyrupyExtension):
    """Keeps tensors, numpy arrays, plain data and dicts of them, each snapshot in one JSON file that can be reviewed.

    Numbers are compared within the tolerance that the file states, dtype, shape and NaN exactly; a difference is told
    in numbers. `tolerances` are what new files state; a subclass may have others. In a file they can be edited, and an
    update keeps them.
    """

    file_extension = places.SUFFIX[1:]
    write_immediately = True
    tolerances: Mapping[str, Tolerance] = TOLERANCES

    # Where

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: Index = 0) -> str:
        """Return the name of a snapshot, which is that of its file without the suffix."""
        return places.file_name(super().get_snapshot_name(test_location=test_location, index=index))

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: Index) -> str:
        """Return the name of the file without the suffix."""
        return cls.get_snapshot_name(test_location=test_location, index=index)

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return the folder of the test's module."""
        return str(places.folder_of(test_location.item))

    @classmethod
    def get_location(cls, *, test_location: PyTestLocation, index: Index) -> str:
        """Return the path of a snapshot's file. Raises PinsInSitePackages."""
        places.require_repository(test_location.item)
        return super().get_location(test_location=test_location, index=index)

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """Say whether a file may be one of the test's module."""
        return places.is_in_folder_of(test_location.item, snapshot_location)

    def discover_snapshots(
        self, *, test_location: PyTestLocation, ignore_extensions: list[str] | None = None
    ) -> SnapshotCollections:
        """Return the files that syrupy may report as unused and, in an update, delete: never those of anybody else."""
        discovered = SnapshotCollections()
        if "json" not in (ignore_extensions or ()):
            for path in places.ownerless(test_location.item):
                discovered.add(self.read_snapshot_collection(snapshot_location=str(path)))
        return discovered

    # Files

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        """Return the one snapshot of a file by its name."""
        collection = SnapshotCollection(location=snapshot_location)
        collection.add(Snapshot(name=Path(snapshot_location).name.removesuffix(places.SUFFIX)))
        return collection

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> PinText | None:
        """Return the text of a file, torn or not; None where there is none."""
        try:
            return PinText(Path(snapshot_location).read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:
            return None

    @classmethod
    def write_snapshot_collection(
        cls, *, snapshot_collection: SnapshotCollection, name_order: dict[str, int] | None = None
    ) -> None:
        """Write a file as a whole, keeping the tolerances that the one before it states."""
        path = Path(snapshot_collection.location)
        text = text_of(next(iter(snapshot_collection)).data)
        with suppress(OSError, ValueError):
            text = _with_tolerances_of(path.read_text(encoding="utf-8"), text)
        # Beside it and renamed, so that a run that is killed here, or another process, never sees half a file.
        beside = path.with_name(f".{path.name}.{os.getpid()}"[:255])
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(path)

    def delete_snapshots(self, *, snapshot_location: str, snapshot_names: set[str]) -> None:
        """Delete a file, and its folder if nothing else is in it."""
        Path(snapshot_location).unlink()
        with suppress(OSError):
            Path(snapshot_location).parent.rmdir()

    # Values

    def serialize(
        self,
        data: Any,
        *,
        exclude: Callable[..., bool] | None = None,
        include: Callable[..., bool] | None = None,
        matcher: Callable[..., Any] | None = None,
    ) -> PinText:
        """Return the text of the file for a value. Raises UnsupportedPin."""
        replacing = None if matcher is None else _replacing(matcher)
        return PinText(to_text(document(data, self.tolerances, matcher=replacing, include=include, exclude=exclude)))

    def matches(self, *, serialized_data: Any, snapshot_data: Any) -> bool:
        """Say whether a value is as pinned; a damaged file matches nothing, so that an update replaces it."""
        lines = list(self.diff_lines(serialized_data, snapshot_data))
        if lines and isinstance(serialized_data, PinText) and isinstance(snapshot_data, PinText):
            serialized_data.shown, snapshot_data.shown = "\n".join(lines), ""
        return not lines

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """Yield what differs, in numbers, and what to do."""
        found, pinned = text_of(serialized_data), text_of(snapshot_data)
        if not pinned:
            yield "nothing is pinned yet: look at the value, run pytest --snapshot-update, and commit the file."
            return
        try:
            lines = explanation(found, pinned)
        except ValueError as error:
            yield f"the file is torn or was edited: {error}."
            yield "Restore it, or pin the present value with pytest --snapshot-update."
            return
        yield from lines[:MOST_LINES]
        if len(lines) > MOST_LINES:
            yield f"and {len(lines) - MOST_LINES} more entries"
        if lines:
            yield from _changed_versions(from_text(pinned).get("pinned_with"))
            yield "If the change is meant, run pytest --snapshot-update and commit the file."

    def diff_snapshots(self, serialized_data: Any, snapshot_data: Any) -> str:
        """Raise UnsupportedPin: a difference is told, never kept."""
        raise UnsupportedPin("snapshot(diff=...) keeps a text diff, which pins do not have; pin the value itself.")


def _replacing(matcher: Callable[..., Any]) -> Callable[..., Any]:
    """Return a matcher of syrupy's whose placeholders are texts."""

    def replaced(*, data: Any, path: Any) -> Any:
        found = matcher(data=data, path=path)
        return repr(found) if isinstance(found, Repr) else found

    return replaced


def explanation(serialized: str, pinned: str) -> list[str]:
    """Return a line for each difference between two files. Raises ValueError where the pinned one is damaged."""
    found = from_text(serialized)
    try:
        expected = from_text(pinned)
        return list(differences(found["value"], expected["value"], expected["tolerance"]))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"an entry has another form than this version writes ({error})") from error


def _with_tolerances_of(before: str, text: str) -> str:
    new, old = from_text(text), from_text(before)["tolerance"]
    kept = {name: old.get(name, entry) for name, entry in new["tolerance"].items()}
    return to_text({**new, "tolerance": kept})


def _changed_versions(pinned_with: Any) -> Iterator[str]:
    """Yield a line on what has another version than when the file was written."""
    before, now = pinned_with if isinstance(pinned_with, dict) else {}, versions()
    changed = [f"{name} {before[name]}, now {now[name]}" for name in now if before.get(name, now[name]) != now[name]]
    if changed:
        yield f"It was pinned with {'; '.join(changed)}."
