"""Read a partition like a coordinator that loads it: records and control records, in log order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from engine.arrays import np
from engine.budgets import Budgets
from engine.columns.batch_table import BatchProblem, Problem, holds_control
from engine.columns.columns import Columns
from engine.errors import InvalidRecordError
from engine.json_facts import facts_of
from engine.log.segment.scan import BatchRun, Damage, Disorder
from engine.log.view.log_view import LogView
from engine.record.control_records import ControlRecordType, parse_control_key
from engine.units import Offset, Timestamp

NO_PRODUCER = -1


class ReplayedRecord(NamedTuple):
    """A data record; `producer_id` is -1 unless its batch has one."""

    offset: Offset
    timestamp: Timestamp
    producer_id: int
    key: bytes | None
    value: bytes | None


class ReplayedControl(NamedTuple):
    """A control record; `type` is None if unknown."""

    offset: Offset
    timestamp: Timestamp
    producer_id: int
    epoch: int
    type: ControlRecordType | None
    value: bytes | None


class Unreadable(NamedTuple):
    """Bytes without readable records.

    Attributes:
        partition, file, position, length: their place; `file` is a path.
        reason: one sentence.
        first_offset, last_offset: offsets that may be lost, if known.
    """

    partition: str
    file: str
    position: int
    length: int
    reason: str
    first_offset: Offset | None
    last_offset: Offset | None

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            "partition": self.partition,
            "file": "/".join(self.file.split("/")[-2:]),
            **facts_of(self, "position length reason first_offset last_offset"),
        }


Replayed: TypeAlias = "ReplayedRecord | ReplayedControl | Unreadable"
Progress: TypeAlias = Callable[[int], None]
"""Called with the number of bytes read."""


def no_progress(_: int) -> None:
    """Ignore the progress."""


def replayed_records(
    view: LogView,
    start: Offset,
    stop: Offset,
    progress: Progress = no_progress,
) -> Iterator[Replayed]:
    """Yield the records and unreadable bytes of offsets [start, stop).

    `progress` is called with the bytes read. Raises FileNotFoundError for a segment deleted in the meantime, other
    OSErrors.
    """
    for segment, item in view.runs(start, stop):
        if not isinstance(item, BatchRun):
            if isinstance(item, Damage) and not item.is_quiet:
                yield damaged(view.name, item)
            continue
        for each in records_of_run(item, view.log.budgets, view.name, segment.path):
            if isinstance(each, Unreadable) or start <= each.offset < stop:
                yield each
        progress(item.end_position - item.position)


def records_of_run(run: BatchRun, budgets: Budgets, name: str, path: str) -> Iterator[Replayed]:
    """Yield the records of a run of good batches; a decoding problem follows the records of its columns."""
    for columns in run.columns(budgets=budgets):
        yield from _records(run, columns)
        for problem in columns.problems:
            if problem.code is not Problem.LEFTOVER_BYTES:
                yield _undecoded(name, path, run, problem)


def _records(run: BatchRun, columns: Columns) -> Iterator[ReplayedRecord | ReplayedControl]:
    table, arena = columns.table, columns.arena
    batches = run.table
    is_control = holds_control(batches)
    # As lists, since access to single items of a numpy array is slow.
    producers = np.where(batches["magic"] == 2, batches["producer_id"], NO_PRODUCER).tolist()
    control = is_control.tolist() if is_control.any() else None
    names = ("offset", "timestamp", "key_start", "key_size", "value_start", "value_size", "row")
    for offset, timestamp, key_at, key_size, at, size, row in zip(
        *(table[name].tolist() for name in names), strict=True
    ):
        key = None if key_size < 0 else bytes(arena[key_at : key_at + key_size])
        value = None if size < 0 else bytes(arena[at : at + size])
        if control is not None and control[row]:
            epoch = int(batches["leader_epoch"][row])
            kind = _control_type(key)
            yield ReplayedControl(offset, timestamp, producers[row], epoch, kind, value)
        else:
            yield ReplayedRecord(offset, timestamp, producers[row], key, value)


def _control_type(key: bytes | None) -> ControlRecordType | None:
    try:
        return parse_control_key(key).type
    except InvalidRecordError:
        return None


def damaged(name: str, damage: Damage | Disorder) -> Unreadable:
    """Return the entry for damage found by a scan."""
    return Unreadable(
        name,
        damage.path,
        damage.position,
        damage.length,
        damage.reason,
        damage.first_offset,
        damage.last_offset,
    )


def _undecoded(name: str, path: str, run: BatchRun, problem: BatchProblem) -> Unreadable:
    row = run.table[problem.row]
    return Unreadable(
        name,
        path,
        int(row["position"]),
        int(row["size"]),
        problem.detail,
        int(row["base_offset"]),
        int(row["last_offset"]),
    )
