"""Write a records file without its chosen records: untouched batches byte for byte, others anew."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.budgets import DEFAULT_BUDGETS
from engine.coding.checksums import crc32c
from engine.columns.batch_table import holds_control
from engine.disk.disk import WritableFile
from engine.erase.choice import RecordChoice, Removed, Span, Unknown
from engine.erase.found_files import FoundFile
from engine.erase.rewriting import without
from engine.errors import KafkaStorageError
from engine.log.segment.resync import ScannedFile
from engine.log.segment.scan import CHUNK, BatchRun, Damage, scan
from engine.rebuild.target.records_files import WrittenFile
from engine.record.record_batch import make_batch
from engine.units import Position


class Touched(NamedTuple):
    """A batch with chosen records: its place, that of what is left of it, and which records are kept; or damaged bytes,
    of which nothing is left.
    """

    position: Position
    size: int
    new_position: Position
    new_size: int
    kept: npt.NDArray[np.bool_]


@dataclass
class FileResult:
    """What was done to a records file.

    Attributes:
        file: the file.
        touched: the batches with chosen records, and damaged bytes that are left out, in file order.
        unknown: batches with chosen records that cannot be written anew.
        dropped: the damaged bytes that are left out.
        span: the chosen records.
    """

    file: FoundFile
    touched: list[Touched] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)
    dropped: list[Unknown] = field(default_factory=list)
    span: Span = field(default_factory=Span)


class NewFile:
    """A file that is written from its start on, with its hashes. Closed by its owner."""

    def __init__(self, file: WritableFile, advance: Callable[[int], None]) -> None:
        self._file = file
        self._advance = advance
        self._sha256 = hashlib.sha256()
        self._crc = 0
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write_at(self.size, data)
        self._sha256.update(data)
        self._crc = crc32c(data, self._crc)
        self.size += len(data)
        self._advance(len(data))

    def copy(self, source: ScannedFile, start: Position, end: Position) -> None:
        """Append bytes of another file. Raises OSError if it has fewer."""
        while start < end:
            data = source.read_at(start, min(CHUNK, end - start))
            if not data:
                raise OSError(f"{source.path} ends before {end}")
            self.write(data)
            start += len(data)

    def written(self) -> WrittenFile:
        """Return size and hashes."""
        return WrittenFile(self.size, self._crc, self._sha256.hexdigest())


def erase_records(
    file: FoundFile,
    source: ScannedFile,
    size: int,
    choice: RecordChoice,
    removed: Removed,
    new: NewFile | None,
    *,
    drops_damage: bool = False,
) -> FileResult:
    """Write what is left of a records file.

    Args:
        file: the file.
        source: the open file.
        size: its bytes.
        choice: chooses records.
        removed: gets the chosen records.
        new: the new file; None to only look.
        drops_damage: whether damaged bytes are left out.

    Raises:
        OSError: the file cannot be read, or the disk fails.
    """
    result = FileResult(file)
    position = at = 0
    for item in scan(source, 0, size, path=file.path, any_order=True):
        found: Iterable[tuple[Touched, bytes]] = ()
        if isinstance(item, BatchRun):
            found = _touched(item, choice, removed, result)
        elif isinstance(item, Damage) and drops_damage:
            place = item.position, item.length
            result.dropped.append(Unknown(file.path, *place, item.reason))
            found = ((Touched(*place, 0, 0, np.zeros(0, np.bool_)), b""),)
        for touched, data in found:
            at += touched.position - position
            result.touched.append(touched._replace(new_position=at, new_size=len(data)))
            at += len(data)
            if new is not None:
                new.copy(source, position, touched.position)
                new.write(data)
            position = touched.position + touched.size
        del item, found
    if new is not None:
        new.copy(source, position, size)
    return result


def _touched(
    run: BatchRun, choice: RecordChoice, removed: Removed, result: FileResult
) -> Iterator[tuple[Touched, bytes]]:
    """Yield the batches with chosen records, and what is left of them."""
    file = result.file
    assert file.log is not None
    for table, columns, hits in choice.of(file, run):
        hits = hits[~holds_control(table)[columns.row[hits]]]
        rows = columns.row
        bad = {problem.row for problem in columns.problems}
        for row in np.unique(rows[hits]).tolist():
            of_batch = np.flatnonzero(rows == row)
            first, stop = int(of_batch[0]), int(of_batch[-1]) + 1
            kept = np.ones(stop - first, np.bool_)
            kept[hits[(hits >= first) & (hits < stop)] - first] = False
            position, size = int(table["position"][row]), int(table["size"][row])
            start = position - run.start_position
            batch = make_batch(
                run.buffer[start : start + size], file_position=position, path=file.path
            )
            try:
                if row in bad:
                    raise ValueError("not all of its records can be decoded")
                data = without(batch, kept.tolist(), DEFAULT_BUDGETS)
            except (KafkaStorageError, ValueError) as error:
                reason = f"it has records to erase and cannot be written anew: {error}"
                result.unknown.append(Unknown(file.path, position, size, reason))
                continue
            gone = first + np.flatnonzero(~kept)
            removed.add(file.log.topic_partition, columns, gone)
            result.span.add(columns.offset[gone], columns.timestamp[gone])
            yield Touched(position, size, 0, 0, kept), data
