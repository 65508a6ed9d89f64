"""Replay the cluster metadata: the newest snapshot of `__cluster_metadata`, and the log after it.

A broker applies records once a majority of the controllers has them. A log dir does not show that point, so all records
of the log count here; with a single controller there is no difference. The records of a metadata transaction count from
its end record on, and not after an abort.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

from engine.errors import InvalidRecordError, KafkaStorageError
from engine.files.file_names import kraft_checkpoint_name
from engine.log.folder_listing import KRaftSnapshot
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.segment.scan import BatchRun, scan
from engine.log.view.log_contents import LogContext
from engine.log.view.log_view import LogView
from engine.record.control_records import ControlRecordType, parse_quorum_record
from engine.replay.cluster_tables import Item, Table, Tables
from engine.replay.internal_logs import InternalLogs
from engine.replay.log_replay import MOST_UNREADABLE
from engine.replay.partition_records import (
    Progress,
    Replayed,
    ReplayedControl,
    Unreadable,
    damaged,
    no_progress,
    records_of_run,
    replayed_records,
)
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import Offset, Timestamp

_QUORUM = (
    ControlRecordType.LEADER_CHANGE,
    ControlRecordType.KRAFT_VERSION,
    ControlRecordType.KRAFT_VOTERS,
)
_NO_ITEMS: Table = {}
_NO_PARTITIONS: Mapping[int, Item] = {}


class ClusterChange(NamedTuple):
    """A decoded record, by Kafka's name of its type."""

    kind: str
    facts: dict[str, Any]
    offset: Offset
    timestamp: Timestamp


class ClusterImage:
    """The cluster after the records below `next_offset`. Immutable, picklable.

    Attributes:
        snapshot: the snapshot that it started from; None for the log's beginning.
        next_offset: end of the replayed log.
        newest_offset: offset of the newest record in it, -1 without one.
        timestamp: timestamp of the newest record in it, -1 without one.
        tables: by name: topics by id, brokers and controllers by number, configs by resource type and name, acls by id,
            features by name, quotas by entity, users by name and mechanism; tokens, quorum, other.
        partitions: by topic id and number.
        waiting: records of an open metadata transaction; None without one.
        notes: records that were inconsistent or unreadable.
        unreadable: bytes without readable records.
        missing: first known offset, if the records before it are in no readable snapshot.
    """

    def __init__(
        self,
        *,
        snapshot: KRaftSnapshot | None,
        next_offset: Offset,
        newest_offset: Offset,
        timestamp: Timestamp,
        tables: Mapping[str, Table],
        partitions: Mapping[str, Mapping[int, Item]],
        waiting: tuple[ClusterChange, ...] | None,
        notes: tuple[str, ...],
        unreadable: tuple[Unreadable, ...],
        missing: Offset | None,
    ) -> None:
        self.snapshot = snapshot
        self.next_offset = next_offset
        self.newest_offset = newest_offset
        self.timestamp = timestamp
        self.tables = tables
        self.partitions = partitions
        self.waiting = waiting
        self.notes = notes
        self.unreadable = unreadable
        self.missing = missing

    def __repr__(self) -> str:
        number = len(self.table("topics"))
        return f"<cluster below offset {self.next_offset}: {number} {'topic' if number == 1 else 'topics'}>"

    def table(self, name: str) -> Table:
        """Return one of the tables, perhaps empty."""
        return self.tables.get(name, _NO_ITEMS)

    @cached_property
    def topics(self) -> Mapping[str, Item]:
        """Topics by name, sorted."""
        found = {item.facts["name"]: item for item in self.table("topics").values()}
        return {name: found[name] for name in sorted(found)}

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name of a topic id; None if there is no such topic."""
        item = self.table("topics").get(topic_id)
        return None if item is None else str(item.facts["name"])

    def partitions_of(self, topic_id: str) -> Mapping[int, Item]:
        """Return a topic's partitions by number, in no order."""
        return self.partitions.get(topic_id, _NO_PARTITIONS)

    def topic_facts(self, name: str) -> dict[str, Any] | None:
        """Return a topic with its partitions and its own configuration, for JSON; None if there is none."""
        item = self.topics.get(name)
        if item is None:
            return None
        rows = self.partitions_of(item.facts["topicId"])
        configs = self.table("configs").get(("topic", name))
        return {
            **item.facts,
            "partitions": [rows[number].facts for number in sorted(rows)],
            "configs": {} if configs is None else configs.facts["configs"],
        }

    def topic_timestamp(self, name: str) -> Timestamp:
        """Return the timestamp of the newest record about a topic."""
        item = self.topics[name]
        rows = self.partitions_of(item.facts["topicId"])
        configs = self.table("configs").get(("topic", name))
        stamps = [item.timestamp, *(row.timestamp for row in rows.values())]
        return max(stamps if configs is None else [*stamps, configs.timestamp])


class ClusterReplay:
    """Replays the cluster of a source, and follows its log while it grows. Thread-safe.

    Args:
        source: a source, or its internal topics.
        progress: called with the number of bytes read.
    """

    def __init__(self, source: LogSource | InternalLogs, progress: Progress = no_progress) -> None:
        self._progress = progress
        self._logs = InternalLogs.of_source(source)
        self._lock = Lock()
        self._log: PartitionLog | None = None
        self._known: tuple[int, ClusterImage] | None = None

    @property
    def exists(self) -> bool:
        """Whether the source has a readable metadata log."""
        log = self._metadata_log()
        return log is not None and log.view_or_none() is not None

    def _metadata_log(self) -> PartitionLog | None:
        """Return partition 0 of the metadata topic: there is no other, whatever folders are there."""
        logs = self._logs.of(CLUSTER_METADATA)
        return logs[0] if logs and logs[0].topic_partition.partition == 0 else None

    def image(self) -> ClusterImage:
        """Return the cluster as of now.

        Raises:
            FileNotFoundError: the source has no metadata log.
            OSError: a file cannot be read.
        """
        log = self._metadata_log()
        if log is None:
            raise FileNotFoundError(f"there is no {CLUSTER_METADATA}")
        with self._lock:
            if log is not self._log:
                self._log, self._known = log, None
            view = log.view()
            known = self._known
            if known is not None and known[0] == view.rewrites:
                image = known[1]
                if image.next_offset == view.log_end_offset:
                    return image
                if view.log_start_offset <= image.next_offset < view.log_end_offset:
                    return self._keep(view, _Replay(view, self._progress).go_on(image))
            return self._keep(view, _Replay(view, self._progress).begin())

    def _keep(self, view: LogView, image: ClusterImage) -> ClusterImage:
        self._known = view.rewrites, image
        return image


class ReadAtStart(NamedTuple):
    """The records that a node reads at its start.

    Attributes:
        snapshot: its newest snapshot; None without one.
        held: the records in it, as far as the node reads them.
        changes: the records of the log behind it.
    """

    snapshot: KRaftSnapshot | None = None
    held: Sequence[ClusterChange] = ()
    changes: Sequence[ClusterChange] = ()


def image_of(view: LogView) -> ClusterImage:
    """Return the cluster at the end of a view of the metadata log. Raises OSError."""
    return _Replay(view, no_progress).begin()


def image_at_start(view: LogView, read: ReadAtStart) -> ClusterImage:
    """Return the cluster that a node replays at its start."""
    return _Replay(view, no_progress, read).begin()


class SnapshotRead(NamedTuple):
    """A snapshot of the metadata log that was read.

    Attributes:
        id: its end and epoch.
        timestamp: of the newest record that it covers, -1 if unknown.
        changes: its records.
        unreadable: bytes without readable records.
        notes: records that were unreadable.
        is_whole: whether it has its header and footer, and no damage.
    """

    id: KRaftSnapshot
    timestamp: Timestamp
    changes: list[ClusterChange]
    unreadable: list[Unreadable]
    notes: list[str]
    is_whole: bool

    @classmethod
    def of(
        cls,
        snapshot_id: KRaftSnapshot,
        changes: list[ClusterChange],
        unreadable: list[Unreadable],
        notes: list[str],
    ) -> SnapshotRead:
        """Return a snapshot with these records."""
        headers = [change for change in changes if change.kind == "SNAPSHOT_HEADER"]
        timestamp = headers[0].facts["lastContainedLogTimestamp"] if headers else -1
        ends = bool(headers) and changes[-1].kind == "SNAPSHOT_FOOTER"
        return cls(snapshot_id, timestamp, changes, unreadable, notes, ends and not unreadable)


class _Replay:
    """One pass over a metadata log; `given`: what a node reads that starts, in place of the files."""

    def __init__(
        self,
        view: LogView,
        progress: Progress,
        given: ReadAtStart | None = None,
    ) -> None:
        self._view = view
        self._given = given
        self._progress = progress
        self._unreadable: list[Unreadable] = []
        self._timestamp: Timestamp = -1
        self._newest_offset: Offset = -1
        self._waiting: list[ClusterChange] | None = None
        self._snapshot: KRaftSnapshot | None = None
        self._missing: Offset | None = None
        self._tables = Tables({}, {})

    def begin(self) -> ClusterImage:
        """Start from the newest usable snapshot."""
        snapshot = self._newest_snapshot()
        start = self._view.log_start_offset
        if snapshot is not None:
            self._snapshot = snapshot.id
            self._timestamp = snapshot.timestamp
            self._newest_offset = snapshot.id.end_offset - 1
            self._unreadable += snapshot.unreadable
            for change in snapshot.changes:
                self._tables.apply(*change)
            self._tables.notes += snapshot.notes
            start = snapshot.id.end_offset
        elif start > 0:
            self._missing = start
        return self._run(start)

    def go_on(self, image: ClusterImage) -> ClusterImage:
        """Continue an earlier image of the same log."""
        self._snapshot, self._missing = image.snapshot, image.missing
        self._timestamp = image.timestamp
        self._newest_offset = image.newest_offset
        self._unreadable += image.unreadable
        self._waiting = None if image.waiting is None else list(image.waiting)
        self._tables = Tables(image.tables, image.partitions, image.notes)
        return self._run(image.next_offset)

    def _run(self, start: Offset) -> ClusterImage:
        if self._given is None:
            end = self._view.log_end_offset
            records = replayed_records(self._view, start, end, self._progress)
            changes = cluster_changes(records, self._unreadable, self._tables.notes)
        else:
            changes = iter(self._given.changes)
            end = max([start, *(each.offset + 1 for each in self._given.changes)])
        for change in changes:
            self._timestamp = max(self._timestamp, change.timestamp)
            self._newest_offset = change.offset
            self._take(change)
        return ClusterImage(
            snapshot=self._snapshot,
            next_offset=end,
            newest_offset=self._newest_offset,
            timestamp=self._timestamp,
            tables=self._tables.tables(),
            partitions=self._tables.partitions(),
            waiting=None if self._waiting is None else tuple(self._waiting),
            notes=tuple(self._tables.notes),
            unreadable=tuple(self._unreadable[:MOST_UNREADABLE]),
            missing=self._missing,
        )

    def _take(self, change: ClusterChange) -> None:
        """Apply a record, or keep it until the end of its transaction."""
        if change.kind == "BEGIN_TRANSACTION_RECORD":
            self._waiting = []
        elif change.kind == "ABORT_TRANSACTION_RECORD":
            self._waiting = None
        elif change.kind == "END_TRANSACTION_RECORD":
            for each in self._waiting or ():
                self._tables.apply(*each)
            self._waiting = None
        elif self._waiting is not None and change.kind not in _CONTROL_KINDS:
            self._waiting.append(change)
        else:
            self._tables.apply(*change)

    def _newest_snapshot(self) -> SnapshotRead | None:
        """Return the newest whole snapshot; without one, the newest one, unless the log has all records."""
        damaged_one = None
        snapshots = self._view.kraft_snapshots
        if self._given is not None:
            newest = self._given.snapshot
            return (
                None if newest is None else SnapshotRead.of(newest, list(self._given.held), [], [])
            )
        for snapshot_id in reversed(snapshots):
            found = read_snapshot(self._view.log, snapshot_id, self._tables.notes)
            if found is None:
                continue
            if found.is_whole:
                return found
            self._note_damaged(found)
            damaged_one = damaged_one or found
        return damaged_one if self._view.log_start_offset > 0 else None

    def _note_damaged(self, snapshot: SnapshotRead) -> None:
        name = kraft_checkpoint_name(*snapshot.id)
        self._tables.notes.append(
            f"{name} is not complete; an older snapshot is used if there is one"
        )


_CONTROL_KINDS = frozenset(kind.name for kind in _QUORUM)


def control_change(record: ReplayedControl, notes: list[str]) -> Iterator[ClusterChange]:
    """Yield the change of a quorum control record; add to the notes if it cannot be read."""
    kind = record.type
    if kind not in (*_QUORUM, ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER):
        return
    assert kind is not None
    try:
        facts = parse_quorum_record(kind, record.value)
    except InvalidRecordError as error:
        notes.append(f"offset {record.offset}: {error}")
        return
    if kind is ControlRecordType.LEADER_CHANGE:
        facts["epoch"] = record.epoch
    yield ClusterChange(kind.name, facts, record.offset, record.timestamp)


def read_snapshot(
    log: LogContext, snapshot_id: KRaftSnapshot, notes: list[str]
) -> SnapshotRead | None:
    """Return a snapshot in the folder of a metadata log; add to the notes and return None if it cannot be opened."""
    name = kraft_checkpoint_name(*snapshot_id)
    path = log.relative(name)
    try:
        file = log.root.open_fresh(path)
    except (KafkaStorageError, OSError) as error:
        notes.append(f"{name}: {error}")
        return None
    with file:
        items: list[Replayed] = []
        for item in scan(file, 0, file.size(), path=path, budgets=log.budgets):
            if isinstance(item, BatchRun):
                items += records_of_run(item, log.budgets, log.name, path)
            else:
                items.append(damaged(log.name, item))
    unreadable: list[Unreadable] = []
    own: list[str] = []
    changes = list(cluster_changes(items, unreadable, own))
    return SnapshotRead.of(snapshot_id, changes, unreadable, own)


def cluster_changes(
    records: Iterable[Replayed], unreadable: list[Unreadable], notes: list[str]
) -> Iterator[ClusterChange]:
    """Yield the decoded records of a metadata log; add what cannot be read to `unreadable` and `notes`."""
    decoder = decoder_for(CLUSTER_METADATA)
    assert decoder is not None
    for record in records:
        if isinstance(record, Unreadable):
            unreadable.append(record)
        elif isinstance(record, ReplayedControl):
            yield from control_change(record, notes)
        else:
            decoded = decoder.decode(record.key, record.value)
            if decoded.value is None:
                note = decoded.value_note or "a record without a value"
                notes.append(f"offset {record.offset}: {note}")
                continue
            yield ClusterChange(
                decoded.kind, decoded.value["data"], record.offset, record.timestamp
            )
