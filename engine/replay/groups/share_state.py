"""Replay a partition of `__share_group_state`: the state of share partitions, as in the share coordinator.

A snapshot of a share partition has all of its state, an update the changes; both count in log order. A null value for a
snapshot's key removes the share partition. Newer updates do not replace older ones, so updates are kept as bytes, and
added up when there are many of them or when the state is asked for.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from engine.errors import LimitExceededError
from engine.json_facts import facts_of
from engine.log.view.log_view import LogView
from engine.replay.groups.state_batches import BatchesOfRecord, StateBatch, merged
from engine.replay.keyed_state import not_a_key, owner_of
from engine.replay.log_replay import MOST_UNREADABLE
from engine.replay.partition_records import (
    Progress,
    ReplayedRecord,
    Unreadable,
    no_progress,
    replayed_records,
)
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import SHARE_GROUP_STATE
from engine.units import Offset, Timestamp, TopicPartition

SNAPSHOT = b"\x00\x00"
UPDATE = b"\x00\x01"
PLACE_SIZE = 20
"""Bytes of a key after the group: the topic's id and the partition's number."""
MOST_UPDATES = 512
MOST_KEPT = 1024 * 1024
"""Maximum number of updates kept for a share partition, and maximum bytes of their values. By default Kafka writes a
snapshot after 500 updates.
"""
MOST_NOTES = 20
RECORD_COST = 250
"""Memory in bytes for a record, besides its value."""
STATE_COST = 600
BATCH_COST = 250
"""Memory in bytes for a share partition, and for each of its batches."""
UNSET = -1


class ShareRecord(NamedTuple):
    """A record of a share partition."""

    offset: Offset
    timestamp: Timestamp
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffset:
    """State of a share partition; None for unknown fields.

    Attributes:
        start_offset: all records below it are finished.
        delivery_complete_count: number of finished records at or after it.
        state_epoch: incremented when the offsets are reset.
        leader_epoch: leader epoch of the partition leader that wrote it.
        snapshot_epoch: number of snapshots.
        batches: records in flight, by offset.
        create_timestamp, write_timestamp: of the snapshot.
        record_offset, record_timestamp: of the newest record.
        notes: records that are unreadable or missing.
    """

    start_offset: Offset | None = None
    delivery_complete_count: int | None = None
    state_epoch: int | None = None
    leader_epoch: int | None = None
    snapshot_epoch: int | None = None
    batches: tuple[StateBatch, ...] = ()
    create_timestamp: Timestamp | None = None
    write_timestamp: Timestamp | None = None
    record_offset: Offset = -1
    record_timestamp: Timestamp = -1
    notes: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            **facts_of(
                self, "start_offset delivery_complete_count state_epoch leader_epoch snapshot_epoch"
            ),
            "stateBatches": [batch.facts() for batch in self.batches],
            **facts_of(self, "create_timestamp write_timestamp record_offset record_timestamp"),
            "notes": list(self.notes),
        }


class KeptShare(NamedTuple):
    """Stored state of a share partition: a snapshot, or the state up to some record, and the updates since.

    `size` is the size of the values in bytes.
    """

    snapshot: ShareRecord | None
    state: ShareOffset | None
    updates: tuple[ShareRecord, ...]
    size: int

    @property
    def timestamp(self) -> Timestamp:
        """Timestamp of the newest record."""
        newest = self.updates[-1] if self.updates else self.snapshot
        if newest is not None:
            return newest.timestamp
        return -1 if self.state is None else self.state.record_timestamp

    @property
    def cost(self) -> int:
        """Approximate memory in bytes."""
        batches = 0 if self.state is None else len(self.state.batches)
        records = len(self.updates) + (self.snapshot is not None)
        return STATE_COST + BATCH_COST * batches + RECORD_COST * records + self.size

    @property
    def is_full(self) -> bool:
        """Whether the updates should be added up."""
        most = (
            MOST_UPDATES if self.state is None else max(MOST_UPDATES, len(self.state.batches) // 8)
        )
        return len(self.updates) >= most or self.size > MOST_KEPT


Places: TypeAlias = Mapping[bytes, KeptShare]
"""Share partitions of a group, by the bytes of a key after the group."""


class ShareState(NamedTuple):
    """A partition's state after the records below `next_offset`. Immutable.

    Attributes:
        partition: the partition.
        next_offset: first offset not in it.
        groups: share partitions by group.
        unreadable: bytes without readable records, and records with invalid keys; the first MOST_UNREADABLE.
        cost: approximate memory in bytes.
    """

    partition: TopicPartition
    next_offset: Offset
    groups: Mapping[bytes, Places]
    unreadable: tuple[Unreadable, ...]
    cost: int


def share_state(
    view: LogView,
    state: ShareState | None,
    progress: Progress = no_progress,
) -> ShareState:
    """Return the state at a view's end, from an earlier state of the same log or from none."""
    building = _Building(view, state)
    start = view.log_start_offset if state is None else state.next_offset
    for each in replayed_records(view, start, view.log_end_offset, progress):
        if isinstance(each, ReplayedRecord):
            building.apply(each)
        elif isinstance(each, Unreadable):
            building.note(each)
    return building.finish()


class _Building:
    """A state under construction. Copies only changed parts of the given state."""

    def __init__(self, view: LogView, state: ShareState | None) -> None:
        self._view = view
        self._limit = view.log.budgets.replayed_bytes
        self._groups: dict[bytes, Places] = {} if state is None else dict(state.groups)
        self._own: dict[bytes, dict[bytes, KeptShare]] = {}
        self._unreadable = [] if state is None else list(state.unreadable)
        self._cost = 0 if state is None else state.cost

    def finish(self) -> ShareState:
        """Return the state at the view's end."""
        view = self._view
        return ShareState(
            view.partition, view.log_end_offset, self._groups, tuple(self._unreadable), self._cost
        )

    def note(self, unreadable: Unreadable) -> None:
        """Add bytes without readable records."""
        if len(self._unreadable) < MOST_UNREADABLE:
            self._unreadable.append(unreadable)

    def apply(self, record: ReplayedRecord) -> None:
        """Apply a record."""
        key = record.key
        group = None if key is None else owner_of(key)
        if key is None or group is None or not _fits(key, group, record.value):
            self.note(not_a_key(self._view.name, record.offset))
            return
        place = key[4 + len(group) :]
        before = self._groups.get(group, {}).get(place)
        self._put(group, place, before, after_record(before, key[:2], record))

    def _put(
        self, group: bytes, place: bytes, before: KeptShare | None, kept: KeptShare | None
    ) -> None:
        self._cost -= 0 if before is None else before.cost + len(place)
        places = self._places(group)
        if kept is not None:
            places[place] = kept
            self._cost += kept.cost + len(place)
        else:
            places.pop(place, None)
        if not places:
            del self._groups[group], self._own[group]
        if self._cost > self._limit:
            self._fold_all()

    def _fold_all(self) -> None:
        """Add up all updates to free memory."""
        for group in self._groups:
            places = self._places(group)
            for place, kept in places.items():
                if kept.updates:
                    places[place] = _folded(kept)
                    self._cost += places[place].cost - kept.cost
        # With less free memory, this would be repeated every few records.
        if self._cost > self._limit - self._limit // 4:
            raise LimitExceededError(
                f"the state of {self._view.name} takes too much of {self._limit} bytes of memory",
                limit="replayed_bytes",
            )

    def _places(self, group: bytes) -> dict[bytes, KeptShare]:
        """Return the share partitions of a group, for changes."""
        if group not in self._own:
            self._groups[group] = self._own[group] = dict(self._groups.get(group, {}))
        return self._own[group]


def _fits(key: bytes, group: bytes, value: bytes | None) -> bool:
    if len(key) != 4 + len(group) + PLACE_SIZE:
        return False
    return key.startswith(SNAPSHOT) or (key.startswith(UPDATE) and value is not None)


def after_record(before: KeptShare | None, kind: bytes, record: ReplayedRecord) -> KeptShare | None:
    """Return the stored state after a record of a kind, SNAPSHOT or UPDATE; None if it is removed."""
    if record.value is None:
        return None
    stored = ShareRecord(record.offset, record.timestamp, record.value)
    if kind == SNAPSHOT:
        return KeptShare(stored, None, (), len(stored.value))
    if before is None:
        return KeptShare(None, None, (stored,), len(stored.value))
    kept = before._replace(updates=(*before.updates, stored), size=before.size + len(stored.value))
    return _folded(kept) if kept.is_full else kept


def _folded(kept: KeptShare) -> KeptShare:
    return KeptShare(None, share_offset(kept), (), 0)


def share_offset(kept: KeptShare) -> ShareOffset:
    """Return the state: the snapshot and the updates added up."""
    state, notes = _beginning(kept)
    batches = [] if state is None else [BatchesOfRecord(None, state.batches)]
    for update in kept.updates:
        data = _decoded(UPDATE, update, notes)
        if data is None:
            continue
        if state is None:
            notes.append(f"offset {update.offset}: an update without a snapshot")
            batches.append(BatchesOfRecord(None, _batches(data, update, notes)))
            state = _updated(ShareOffset(), data, update)
        else:
            state = _updated(state, data, update)
            batches.append(BatchesOfRecord(state.start_offset, _batches(data, update, notes)))
    left = batches[0].batches if len(batches) == 1 else merged(batches)
    known = () if state is None else state.notes
    return replace(state or ShareOffset(), batches=tuple(left), notes=(*known, *notes)[:MOST_NOTES])


def _beginning(kept: KeptShare) -> tuple[ShareOffset | None, list[str]]:
    """Return the state before the updates, and notes about it."""
    notes: list[str] = []
    if kept.snapshot is None:
        return kept.state, notes
    data = _decoded(SNAPSHOT, kept.snapshot, notes)
    if data is None:
        return None, notes
    batches = _batches(data, kept.snapshot, notes)
    state = ShareOffset(
        state_epoch=data["stateEpoch"],
        batches=batches,
        create_timestamp=data["createTimestamp"],
        write_timestamp=data["writeTimestamp"],
    )
    return _updated(state, data, kept.snapshot), notes


def _updated(state: ShareOffset, data: dict[str, Any], record: ShareRecord) -> ShareOffset:
    """Return the state with the fields that snapshots and updates have in common."""
    start, leader = _or_none(data["startOffset"]), _or_none(data["leaderEpoch"])
    snapshot = state.snapshot_epoch
    return replace(
        state,
        start_offset=state.start_offset if start is None else start,
        delivery_complete_count=_or_none(data.get("deliveryCompleteCount", UNSET)),
        leader_epoch=state.leader_epoch if leader is None else leader,
        snapshot_epoch=data["snapshotEpoch"] if snapshot is None else snapshot,
        record_offset=record.offset,
        record_timestamp=record.timestamp,
    )


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


def _batches(data: dict[str, Any], record: ShareRecord, notes: list[str]) -> tuple[StateBatch, ...]:
    """Return the batches of a record; note those with an invalid offset range."""
    found = [
        StateBatch(
            each["firstOffset"], each["lastOffset"], each["deliveryState"], each["deliveryCount"]
        )
        for each in data["stateBatches"]
    ]
    good = tuple(batch for batch in found if batch.first_offset <= batch.last_offset)
    if len(good) < len(found):
        notes.append(
            f"offset {record.offset}: {len(found) - len(good)} batches have a last offset below the first"
        )
    return good


_NO_PLACE = {kind: kind + bytes(2 + PLACE_SIZE) for kind in (SNAPSHOT, UPDATE)}
"""Keys for decoding a value; only their type matters."""


def _decoded(kind: bytes, record: ShareRecord, notes: list[str]) -> dict[str, Any] | None:
    decoder = decoder_for(SHARE_GROUP_STATE)
    assert decoder is not None
    decoded = decoder.decode(_NO_PLACE[kind], record.value)
    if decoded.value is None:
        notes.append(f"offset {record.offset}: {decoded.value_note or 'not readable'}")
        return None
    data: dict[str, Any] = decoded.value["data"]
    return data


def place_of(place: bytes) -> tuple[str, int]:
    """Return the topic id and the partition number in the bytes of a key after the group."""
    topic_id = base64.urlsafe_b64encode(place[:16]).decode().rstrip("=")
    return topic_id, int.from_bytes(place[16:], "big", signed=True)


def states_of(states: Sequence[ShareState], group: bytes) -> Mapping[bytes, tuple[int, KeptShare]]:
    """Return a group's share partitions in all partitions of the topic, each with the partition that has it.

    If several have one, the one with the newest record counts.
    """
    found: dict[bytes, tuple[int, KeptShare]] = {}
    for state in states:
        for place, kept in state.groups.get(group, {}).items():
            known = found.get(place)
            if known is None or kept.timestamp > known[1].timestamp:
                found[place] = state.partition.partition, kept
    return found
