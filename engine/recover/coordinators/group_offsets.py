"""Offsets that groups committed: put inside the recovered logs; those of deleted topics are removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.rebuild.assembly.pieces import Piece
from engine.record.control_records import ControlRecordType
from engine.recover.coordinators.coordinator_log import (
    CoordinatorMessage,
    KeyedValue,
    coordinator_records,
)
from engine.recover.coordinators.group_members import DroppedMembers, dropped_members, key_type
from engine.replay.partition_records import NO_PRODUCER, ReplayedControl
from engine.units import Offset, Timestamp, TopicPartition

_FILE = "consumer_offsets.txt"
_OFFSET_KEYS = (0, 1)
_UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset that a group committed.

    Attributes:
        group, partition, offset: what it committed.
        leader_epoch: of the record before it; -1 if the client did not tell.
        committed: time of the commit, by the coordinator's clock.
        topic_id: id of the topic then; None if the coordinator did not write it.
        key, value: bytes of the record.
    """

    group: str
    partition: TopicPartition
    offset: Offset
    leader_epoch: int
    committed: Timestamp
    topic_id: str | None
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class MovedOffset:
    """A committed offset past the end of a log, and the one that takes its place."""

    group: str
    partition: TopicPartition
    before: Offset
    after: Offset


@dataclass(frozen=True, slots=True)
class FormerOffset:
    """A committed offset of a deleted topic of the same name, and what shows that."""

    group: str
    partition: TopicPartition
    offset: Offset
    reason: str


@dataclass(frozen=True, slots=True)
class GroupRecords:
    """Records for the end of a partition of `__consumer_offsets`.

    Attributes:
        records: the records.
        moved: the offsets that they move.
        former: the offsets that they remove.
        dropped: the groups whose members they drop.
    """

    records: list[KeyedValue]
    moved: list[MovedOffset]
    former: list[FormerOffset]
    dropped: DroppedMembers


class GroupState:
    """The newest records of a partition of `__consumer_offsets`, as its coordinator would load them.

    Args:
        pieces: the batches of the log.
        name: name of the partition.
        ends: how the open transactions of producers end.

    Raises:
        OSError: a file cannot be read.
    """

    def __init__(self, pieces: Iterable[Piece], name: str, ends: Mapping[int, bool]) -> None:
        self._newest: dict[bytes, tuple[Offset, bytes]] = {}
        self._pending: dict[int, dict[bytes, tuple[Offset, bytes | None]]] = {}
        for record in coordinator_records(pieces, name):
            if isinstance(record, ReplayedControl):
                if record.type in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                    self._end(record.producer_id, record.type is ControlRecordType.COMMIT)
            elif record.key is not None and record.producer_id == NO_PRODUCER:
                self._put(record.key, record.offset, record.value)
            elif record.key is not None:
                pending = self._pending.setdefault(record.producer_id, {})
                pending[record.key] = record.offset, record.value
        for producer, commits in ends.items():
            self._end(producer, commits)

    def offsets(self) -> list[GroupOffset]:
        """Return the committed offsets."""
        read_key = CoordinatorMessage(_FILE, "OffsetCommitKey")
        read_value = CoordinatorMessage(_FILE, "OffsetCommitValue")
        found = []
        for key, (_, value) in self._newest.items():
            if key_type(key) not in _OFFSET_KEYS:
                continue
            names, fields = read_key.read_key(key), read_value.read(value)
            if names is not None and fields is not None:
                found.append(_offset(names, fields, key, value))
        return found

    def records(
        self,
        offsets: Iterable[GroupOffset],
        ends: Mapping[TopicPartition, Offset],
        former: Callable[[GroupOffset], str | None],
        now: Timestamp,
    ) -> GroupRecords:
        """Return the records that put offsets past the end of a log at its end, and drop the members of groups.

        Args:
            offsets: those of `offsets`.
            ends: log end of each partition; one that is not in it keeps its offsets.
            former: why an offset is of a deleted topic of the same name; None if it is not. It is removed, as its
                coordinator does when it learns of the deletion.
            now: time at which groups lose their members.
        """
        message = CoordinatorMessage(_FILE, "OffsetCommitValue")
        made = GroupRecords([], [], [], dropped_members(self._newest, now))
        for each in offsets:
            why = former(each)
            if why is not None:
                made.records.append(KeyedValue(each.key, None))
                made.former.append(FormerOffset(each.group, each.partition, each.offset, why))
                continue
            end = ends.get(each.partition)
            if end is None or each.offset <= end:
                continue
            fields = message.read(each.value) or {}
            changed = fields | {"offset": end, "leaderEpoch": _UNKNOWN_EPOCH}
            made.records.append(KeyedValue(each.key, message.write(changed, each.value)))
            made.moved.append(MovedOffset(each.group, each.partition, each.offset, end))
        made.records.extend(made.dropped.records)
        return made

    def _put(self, key: bytes, offset: Offset, value: bytes | None) -> None:
        if value is None:
            self._newest.pop(key, None)
            for pending in self._pending.values():
                pending.pop(key, None)
        else:
            self._newest[key] = offset, value

    def _end(self, producer_id: int, commits: bool) -> None:
        for key, (offset, value) in self._pending.pop(producer_id, {}).items():
            known = self._newest.get(key)
            if commits and value is not None and (known is None or offset > known[0]):
                self._newest[key] = offset, value


def _offset(
    names: Mapping[str, Any], fields: Mapping[str, Any], key: bytes, value: bytes
) -> GroupOffset:
    return GroupOffset(
        names["group"],
        TopicPartition(names["topic"], names["partition"]),
        fields["offset"],
        fields.get("leaderEpoch", _UNKNOWN_EPOCH),
        fields["commitTimestamp"],
        fields.get("topicId"),
        key,
        value,
    )
