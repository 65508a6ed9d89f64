"""Every record that a partition's folder still holds: also below the log start, and in files that compaction or deletion
set aside, `.deleted`, `.cleaned` and `.swap`.

Records come file by file, so not in the order of their offsets, and one record may come from several files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.files.file_names import FileKind, parse_file_name
from engine.log.segment.scan import BatchRun, Damage, ScanItem, scan
from engine.log.view.log_view import LogView
from engine.replay.partition_records import (
    Progress,
    Replayed,
    Unreadable,
    damaged,
    no_progress,
    records_of_run,
    replayed_records,
)
from engine.units import Offset


class Seen(NamedTuple):
    """What was read of a partition.

    Attributes:
        rewrites: `LogView.rewrites` of the view that was read.
        next_offset: the log end of that view.
        set_aside: names of the files that were read beside the log.
    """

    rewrites: int
    next_offset: Offset
    set_aside: frozenset[str]


class HeldRecord(NamedTuple):
    """A record, or bytes without one, and the file that holds it, as shown to people."""

    file: str
    item: Replayed


def seen_of(view: LogView) -> Seen:
    """Return what a read of all records of a view will have seen."""
    return Seen(view.rewrites, view.log_end_offset, frozenset(_set_aside(view)))


def held_records(
    view: LogView, seen: Seen | None = None, progress: Progress = no_progress
) -> Iterator[HeldRecord]:
    """Yield the records of all files of a partition; a file that cannot be read is one Unreadable.

    Args:
        view: the partition.
        seen: what is known already: yield what came since, if nothing that was read has changed.
        progress: called with the number of bytes read.
    """
    for name in _set_aside(view):
        if seen is None or name not in seen.set_aside:
            yield from _of_file(view, name, progress)
    if seen is None or seen.rewrites != view.rewrites or seen.next_offset > view.log_end_offset:
        for place in range(len(view)):
            yield from _of_segment(view, place, progress)
    elif seen.next_offset < view.log_end_offset:
        new = replayed_records(view, seen.next_offset, view.log_end_offset, progress=progress)
        yield from _readable(view, view.log.folder, new)


def _set_aside(view: LogView) -> Iterator[str]:
    """Yield the names of records files that are not part of the log."""
    for leftover in view.leftovers:
        name = parse_file_name(leftover.name)
        if name is not None and name.kind is FileKind.LOG:
            yield leftover.name


def _of_file(view: LogView, name: str, progress: Progress) -> Iterator[HeldRecord]:
    log = view.log
    path = log.relative(name)

    def items() -> Iterator[Replayed]:
        with log.root.open_fresh(path) as file:
            found = scan(file, 0, file.size(), path=path, budgets=log.budgets)
            yield from _records(view, path, found, progress)

    yield from _readable(view, path, items())


def _of_segment(view: LogView, place: int, progress: Progress) -> Iterator[HeldRecord]:
    segment = view.segment_at(place)

    def items() -> Iterator[Replayed]:
        yield from _records(view, segment.path, segment.scan(), progress)

    yield from _readable(view, segment.path, items())


def _records(
    view: LogView, path: str, found: Iterator[ScanItem], progress: Progress
) -> Iterator[Replayed]:
    for item in found:
        if isinstance(item, BatchRun):
            yield from records_of_run(item, view.log.budgets, view.name, path)
            progress(item.end_position - item.position)
        elif isinstance(item, Damage) and not item.is_quiet:
            yield damaged(view.name, item)


def _readable(view: LogView, path: str, items: Iterator[Replayed]) -> Iterator[HeldRecord]:
    """Yield items with their file; an error of the file ends them as bytes that cannot be read."""
    shown = view.log.root.display(path)
    try:
        for item in items:
            yield HeldRecord(shown, item)
    except (OSError, KafkaStorageError) as error:
        reason = f"the file cannot be read: {error}"
        yield HeldRecord(shown, Unreadable(view.name, path, 0, 0, reason, None, None))
