"""Look for what was erased in files: in decoded keys, values and headers, and in all bytes that are no good batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.columns.columns import Columns
from engine.erase.choice import Removed, Span, Unknown
from engine.erase.needles import SHORTEST, Needles, SoughtText
from engine.log.segment.resync import ScannedFile
from engine.log.segment.scan import CHUNK, BatchRun, Damage, scan
from engine.units import Position

Kept: TypeAlias = "npt.NDArray[np.bool_]"


@dataclass(frozen=True, slots=True)
class Trace:
    """A kind of place where something that was chosen still stands.

    Attributes:
        path: the file, for people.
        place: "key", "value", "header" or "bytes".
        of: what stands there: a chosen record's "key" or "value", or a "text" that was named.
        form: how it is written there.
        is_copy: whether it stands for the person; not if the same value is under another key.
    """

    path: str
    place: str
    of: str
    form: str
    is_copy: bool


@dataclass
class Traces:
    """Looks for content that was chosen.

    Args:
        removed: the chosen records.
        texts: further texts to look for.

    Attributes:
        found: the records, or positions of bytes, in which each kind of trace stands.
        unknown: bytes of records files that nobody can decode.
    """

    removed: Removed
    texts: Iterable[bytes] = ()
    found: dict[Trace, Span] = field(default_factory=dict)
    unknown: list[Unknown] = field(default_factory=list)

    def __post_init__(self) -> None:
        keys, values = self.removed.keys, self.removed.values
        named = [("text", each) for each in self.texts]
        content = [("key", each) for each in keys] + [("value", each) for each in values]
        self._needles = Needles([*named, *content])
        self._short = {key for key in keys if len(key) < SHORTEST}

    def look(
        self, file: ScannedFile, size: int, path: str, chosen: Mapping[Position, Kept] | None = None
    ) -> None:
        """Look into a records file.

        Args:
            file: the file.
            size: its bytes.
            path: path for people.
            chosen: which records of a batch are kept, by its position: the others are passed over. None for a result, where
                also the bytes between batches are looked at.
        """
        position = 0
        for item in scan(file, 0, size, path=path, any_order=True):
            if isinstance(item, Damage) and not item.is_quiet:
                place = item.position, item.length
                self.unknown.append(Unknown(path, *place, item.reason))
            if not isinstance(item, BatchRun):
                continue
            if chosen is None:
                self._look_at_bytes(file, position, item.position, path)
            position = item.end_position
            for columns in item.columns():
                for problem in columns.problems:
                    row = item.table[problem.row]
                    place = int(row["position"]), int(row["size"])
                    self.unknown.append(Unknown(path, *place, problem.detail))
                left = np.arange(len(columns))
                if chosen:
                    left = left[_left(item, columns, chosen)]
                self._look_at_records(columns, left, path)
            del item, columns
        if chosen is None:
            self._look_at_bytes(file, position, size, path)

    def look_at_bytes(self, file: ScannedFile, size: int, path: str) -> None:
        """Look into a file that has no records."""
        self._look_at_bytes(file, 0, size, path)

    def _look_at_bytes(
        self, file: ScannedFile, position: Position, end: Position, path: str
    ) -> None:
        overlap = max(self._needles.longest - 1, 0)
        while position < end:
            data = file.read_at(position, min(CHUNK + overlap, end - position))
            for at, needle in self._needles.found(data):
                if at < CHUNK:
                    trace = Trace(path, "bytes", needle.of, needle.form, True)
                    place = np.array([position + at])
                    self.found.setdefault(trace, Span()).add(place, np.array([-1]))
            if not data:
                return
            position += CHUNK

    def _look_at_records(self, columns: Columns, left: npt.NDArray[np.intp], path: str) -> None:
        if not len(left):
            return
        for index in self._with_short_keys(columns, left):
            self._note(columns, index, Trace(path, "key", "key", "bytes", True))
        table = columns.table
        starts = np.minimum.reduce(
            [
                np.where(table[f"{name}_size"] > 0, table[f"{name}_start"], len(columns.arena))
                for name in ("key", "value", "headers")
            ]
        )
        ends = np.maximum.reduce(
            [
                np.where(table[f"{name}_size"] > 0, table[f"{name}_start"], 0)
                + np.maximum(table[f"{name}_size"], 0)
                for name in ("key", "value", "headers")
            ]
        )
        first, last = int(starts.min()), int(ends.max())
        if first >= last:
            return
        by_start = left[np.argsort(starts[left], kind="stable")]
        begins = starts[by_start]
        seen: set[tuple[int, Trace]] = set()
        for at, needle in self._needles.found(columns.arena[first:last]):
            place = int(begins.searchsorted(first + at, "right")) - 1
            if place < 0 or first + at >= ends[index := int(by_start[place])]:
                continue
            trace = self._trace(columns, index, first + at, needle, path)
            if (index, trace) not in seen:
                seen.add((index, trace))
                self._note(columns, index, trace)

    def _with_short_keys(self, columns: Columns, left: npt.NDArray[np.intp]) -> Iterator[int]:
        if self._short:
            sizes = columns.key_size[left]
            for index in left[(sizes > 0) & (sizes < SHORTEST)].tolist():
                if columns.key(index) in self._short:
                    yield index

    def _trace(self, columns: Columns, index: int, at: int, needle: SoughtText, path: str) -> Trace:
        row = columns.table[index]
        place = "header"
        for name in ("key", "value"):
            start = int(row[f"{name}_start"])
            if start <= at < start + int(row[f"{name}_size"]):
                place = name
        key = columns.key(index)
        is_copy = needle.of != "value" or key is None or key in self.removed.keys
        return Trace(path, place, needle.of, needle.form, is_copy)

    def _note(self, columns: Columns, index: int, trace: Trace) -> None:
        some = slice(index, index + 1)
        span = self.found.setdefault(trace, Span())
        span.add(columns.offset[some], columns.timestamp[some])

    def facts(self) -> list[dict[str, Any]]:
        """Return what was found, for JSON."""
        return [
            {
                "path": trace.path,
                "place": trace.place,
                "of": trace.of,
                "form": trace.form,
                "isCopy": trace.is_copy,
                **span.facts(),
            }
            for trace, span in self.found.items()
        ]


def _left(run: BatchRun, columns: Columns, chosen: Mapping[Position, Kept]) -> Kept:
    """Return which records are not chosen."""
    left = np.ones(len(columns), np.bool_)
    rows = columns.row
    for row in np.unique(rows).tolist():
        kept = chosen.get(int(run.table["position"][row]))
        if kept is not None:
            left[rows == row] = kept
    return left
