"""Check snapshots of the cluster metadata: batches that begin with a header record and end with a footer record."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from engine.budgets import Budgets
from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding, failed_read, found
from engine.columns.batch_table import holds_control
from engine.errors import InvalidRecordError, SourceRefusedError
from engine.files.file_names import BOOTSTRAP_CHECKPOINT, kraft_checkpoint_name
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.log_directory import LogSource
from engine.log.segment.scan import BatchRun, scan
from engine.record.control_records import ControlRecordType, parse_control_key
from engine.units import Offset, Position


class _Place(NamedTuple):
    """Bytes of a snapshot, with the wrong and the expected value."""

    position: Position
    length: int
    expected: int | None = None
    found: int | None = None


Frame: TypeAlias = tuple[Offset | None, int | None]
"""The next offset, and the epoch of all batches; None if unknown."""


def check_kraft_snapshots(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield findings about the snapshots beside a metadata log."""
    budgets = partition.view.log.budgets
    for snapshot in partition.view.kraft_snapshots:
        name = kraft_checkpoint_name(*snapshot)

        def make(sentence: str, place: _Place | None, name: str = name) -> Finding:
            return partition.found(
                "kraft-snapshot",
                name,
                sentence,
                **({} if place is None else place._asdict()),
            )

        path = partition.relative(name)
        yield from _check(partition.root, path, budgets, make)


def check_bootstrap_snapshot(source: LogSource, log_dir: SourceRoot) -> Iterator[Finding]:
    """Yield findings about a log dir's bootstrap.checkpoint, from which a new controller starts."""

    def make(sentence: str, place: _Place | None) -> Finding:
        return found(
            "kraft-snapshot",
            log_dir.display(BOOTSTRAP_CHECKPOINT),
            sentence,
            **({} if place is None else place._asdict()),
        )

    yield from _check(log_dir, BOOTSTRAP_CHECKPOINT, source.budgets, make)


def _check(
    root: SourceRoot,
    path: str,
    budgets: Budgets,
    make: Callable[[str, _Place | None], Finding],
) -> Iterator[Finding]:
    try:
        with root.open(path, fresh=True) as file:
            yield from _contents(file, budgets, make)
    except (FileNotFoundError, SourceRefusedError):
        return
    except OSError as error:
        yield found("file-unreadable", root.display(path), **failed_read(error))


def _contents(
    file: SourceFile, budgets: Budgets, make: Callable[[str, _Place | None], Finding]
) -> Iterator[Finding]:
    first, last = set[ControlRecordType](), set[ControlRecordType]()
    batches = 0
    frame: Frame = (0, None)
    for item in scan(file, 0, file.size(), budgets=budgets):
        if not isinstance(item, BatchRun):
            yield make(item.reason, _Place(item.position, item.length, item.expected, item.found))
            frame = None, frame[1]
            continue
        problems = (each for columns in item.columns(budgets=budgets) for each in columns.problems)
        for problem in problems:
            row = item.table[problem.row]
            position, size = int(row["position"]), int(row["size"])
            yield make(problem.detail, _Place(position, size))
        frame = yield from _frames(file, item, frame, make)
        if not batches:
            first = control_types(item, 0)
        last = control_types(item, len(item.table) - 1)
        batches += len(item.table)
    if ControlRecordType.SNAPSHOT_HEADER not in first:
        yield make("the snapshot does not begin with a header record", None)
    if ControlRecordType.SNAPSHOT_FOOTER not in last:
        yield make("the snapshot does not end with a footer record: it is not complete", None)


def _frames(
    file: SourceFile,
    run: BatchRun,
    frame: Frame,
    make: Callable[[str, _Place | None], Finding],
) -> Generator[Finding, None, Frame]:
    """Check offsets and epochs, which no checksum covers: offsets are consecutive from 0, the epoch is constant."""
    following, epoch = frame
    for row in run.table:
        position, size = int(row["position"]), int(row["size"])
        base, stated = int(row["base_offset"]), int(row["leader_epoch"])
        following = base if following is None else following
        if base != following or (epoch is not None and stated != epoch):
            reason = (
                f"a batch has offset {base} and epoch {stated}, but should have offset {following}"
            )
            reason += "" if epoch is None else f" and epoch {epoch}"
            yield make(reason, _Place(position, size))
        else:
            epoch = stated
        following = int(row["last_offset"]) - base + following + 1
    return following, epoch


def control_types(run: BatchRun, row: int) -> set[ControlRecordType]:
    """Return the types of the records of a control batch, up to one that has none; none for another batch."""
    found = set()
    if holds_control(run.table[row]):
        columns = run.decoded(row)
        with suppress(InvalidRecordError):
            for at in range(len(columns)):
                found.add(parse_control_key(columns.key(at)).type)
    return found
