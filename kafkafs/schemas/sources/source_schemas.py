"""The schemas in the log dirs of a source: every record of the registry's topic that is still on disk.

All folders of the topic count: those of several log dirs or brokers, and those that wait for their deletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from engine.errors import LimitExceededError
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.replay.held_records import HeldRecord, Seen, held_records, seen_of
from engine.replay.log_replay import MOST_UNREADABLE
from engine.replay.partition_records import Progress, ReplayedRecord, Unreadable, no_progress
from kafkafs.schemas.registry.collected import Collected
from kafkafs.schemas.registry.registry_records import (
    SCHEMAS_TOPIC,
    InvalidRegistryRecordError,
    parse_record,
)
from kafkafs.schemas.store import SchemaProblem, SchemaStore


class SourceSchemas:
    """The schemas of a source, read again when its topic has grown. Thread-safe.

    A schema that was seen stays, also when compaction removes its record.

    Args:
        source: the source.
        topic: the registry's topic.
        progress: called with the number of bytes read.
    """

    def __init__(
        self, source: LogSource, topic: str = SCHEMAS_TOPIC, progress: Progress = no_progress
    ) -> None:
        self.topic = topic
        self._source = source
        self._progress = progress
        self._lock = Lock()
        self._collected = Collected(source.budgets.replayed_bytes)
        self._known: tuple[object, Sequence[PartitionLog]] = None, ()
        self._seen: dict[PartitionLog, Seen] = {}
        self._problems: dict[str, list[SchemaProblem]] = {}
        self._is_full = False
        self._store: SchemaStore | None = None

    @property
    def exists(self) -> bool:
        """Whether the source has a folder of the topic."""
        return bool(self._logs())

    def store(self) -> SchemaStore:
        """Return the schemas as of now; the same object while nothing has changed.

        Raises:
            OSError: the folders of the source cannot be listed.
        """
        with self._lock:
            has_changed = False
            for log in self._logs():
                view = log.view_or_none()
                seen = self._seen.get(log)
                if view is None:
                    has_changed |= self._note_unread(log)
                elif not self._is_full and (seen is None or seen != seen_of(view)):
                    has_changed = True
                    self._read(log, view, seen)
            if has_changed or self._store is None:
                self._store = self._made()
            return self._store

    def _logs(self) -> Sequence[PartitionLog]:
        """Return the folders of the topic."""
        logs = self._source.partitions()
        seen, found = self._known
        if seen is not logs:
            found = [log for log in logs.values() if log.topic_partition.topic == self.topic]
            self._known = logs, found
        return found

    def _read(self, log: PartitionLog, view: LogView, seen: Seen | None) -> None:
        now = seen_of(view)
        problems = self._problems.setdefault(log.name, [])
        if seen is None or seen.rewrites != now.rewrites:
            problems.clear()
        for held in held_records(view, seen, self._progress):
            try:
                problem = self._take(held)
            except LimitExceededError as error:
                self._is_full = True
                problem = SchemaProblem(held.file, error.reason)
            if problem is not None and len(problems) < MOST_UNREADABLE:
                problems.append(problem)
            if self._is_full:
                break
        self._seen[log] = now

    def _take(self, held: HeldRecord) -> SchemaProblem | None:
        """Add a record; return why it has no schema, if it should have one."""
        file, item = held
        if isinstance(item, Unreadable):
            return SchemaProblem(file, item.reason, item.first_offset, item.position)
        if isinstance(item, ReplayedRecord):
            try:
                record = parse_record(item.key, item.value)
            except InvalidRegistryRecordError as error:
                return SchemaProblem(file, str(error), item.offset)
            self._collected.add(record, item.offset, item.timestamp, file)
        return None

    def _note_unread(self, log: PartitionLog) -> bool:
        """Note that a folder cannot be read; return whether this is new."""
        if log.name in self._problems:
            return False
        folder = log.root.display(log.folder)
        self._problems[log.name] = [SchemaProblem(folder, "the folder cannot be read")]
        return True

    def _made(self) -> SchemaStore:
        problems = dict.fromkeys(each for found in self._problems.values() for each in found)
        return SchemaStore(
            self._collected.schemas(),
            problems=problems,
            settings=self._collected.settings,
            associations=self._collected.associations,
        )
