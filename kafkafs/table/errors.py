"""Errors of reading splits, as facts; a view above puts them into its own words."""

from __future__ import annotations

from engine.errors import CorruptRecordError
from engine.units import Offset, TopicPartition


class LostRecordsError(RuntimeError):
    """Records that were there when the read was planned are gone.

    Attributes:
        partition: topic and partition.
        start, stop: offsets [start, stop) that cannot be read.
        why: the cause, as part of a sentence.
    """

    def __init__(self, partition: TopicPartition, start: Offset, stop: Offset, why: str) -> None:
        super().__init__(partition, start, stop, why)
        self.partition = partition
        self.start = start
        self.stop = stop
        self.why = why

    def __str__(self) -> str:
        return f"offsets [{self.start}, {self.stop}) of {self.partition} cannot be read: {self.why}"


class RecreatedTopicError(RuntimeError):
    """A topic was deleted and created again since the read was planned.

    Attributes:
        partition: topic and partition.
        before, now: topic ids.
    """

    def __init__(self, partition: TopicPartition, before: str, now: str) -> None:
        super().__init__(partition, before, now)
        self.partition = partition
        self.before = before
        self.now = now

    def __str__(self) -> str:
        return (
            f"{self.partition}: topic {self.partition.topic} was deleted and created again"
            f" (topic id {self.before} before, {self.now} now)"
        )


class OtherLogDirError(RuntimeError):
    """A path holds another broker's log dir than when the read was planned.

    Attributes:
        path: path of the source.
        before, now: owners by meta.properties; None without that file.
    """

    def __init__(self, path: str, before: str | None, now: str | None) -> None:
        super().__init__(path, before, now)
        self.path = path
        self.before = before
        self.now = now

    def __str__(self) -> str:
        before, now = self.before or "no meta.properties", self.now or "none"
        return f"another log dir is at {self.path}: {before} before, {now} now"


class CorruptBatchError(CorruptRecordError):
    """A damaged place of a records file, which may have cost wanted records.

    Attributes:
        path: absolute path of the file.
        position: byte position of the damage in the file.
        reason: one sentence.
        first_offset, last_offset: offsets that may be lost, where known.
    """

    def __init__(
        self,
        reason: str,
        *,
        first_offset: Offset | None = None,
        last_offset: Offset | None = None,
        **facts: object,
    ) -> None:
        super().__init__(reason, **facts)  # type: ignore[arg-type]
        self.first_offset = first_offset
        self.last_offset = last_offset
