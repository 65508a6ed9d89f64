"""Replay a partition of a compacted internal topic: the newest value of every key, as in its coordinator's memory.

Records count in log order; a null value removes its key. A record with a producer id counts from its producer's commit
marker on, unless there is a newer record of the same key by then, and never after an abort: like offsets committed in
transactions in the group coordinator. Values are not decoded here, so a partition of a million records costs only the
decoding of the remaining keys.

The keys of `__consumer_offsets`, `__transaction_state` and `__share_group_state` all begin with an int16 type and the
string of their owner: a group or a transactional id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from engine.errors import LimitExceededError
from engine.log.view.log_view import LogView
from engine.record.control_records import ControlRecordType
from engine.record.fate import Fate
from engine.replay.log_replay import MOST_UNREADABLE
from engine.replay.partition_records import (
    NO_PRODUCER,
    Progress,
    ReplayedControl,
    ReplayedRecord,
    Unreadable,
    no_progress,
    replayed_records,
)
from engine.units import Offset, Timestamp, TopicPartition

ENTRY_COST = 300
"""Memory in bytes for a key, besides the key and the value themselves."""


class KeyedEntry(NamedTuple):
    """The newest record of a key; `producer_id` is -1 unless it was committed in a transaction."""

    offset: Offset
    timestamp: Timestamp
    producer_id: int
    value: bytes


Owned: TypeAlias = dict[bytes, KeyedEntry]
"""Entries by key, of one group or transactional id."""


class KeyedState(NamedTuple):
    """A partition's state after the records below `next_offset`. Immutable.

    Attributes:
        partition: the partition.
        next_offset: first offset not in it.
        owners: entries by group or transactional id, and by key.
        pending: entries of open transactions, by producer id and key.
        unreadable: bytes without readable records, and records with invalid keys; the first MOST_UNREADABLE.
        cost: approximate memory in bytes.
    """

    partition: TopicPartition
    next_offset: Offset
    owners: Mapping[bytes, Owned]
    pending: Mapping[int, Owned]
    unreadable: tuple[Unreadable, ...]
    cost: int


def carried_forward(
    view: LogView,
    state: KeyedState | None,
    progress: Progress = no_progress,
) -> KeyedState:
    """Return the state at a view's end, from an earlier state of the same log or from none."""
    building = _Building(view, state)
    start = view.log_start_offset if state is None else state.next_offset
    for each in replayed_records(view, start, view.log_end_offset, progress):
        if isinstance(each, ReplayedRecord):
            building.apply(each)
        elif isinstance(each, ReplayedControl):
            building.end_transaction(each)
        else:
            building.note(each)
    return building.finish()


class _Building:
    """A state under construction. Copies only changed parts of the given state."""

    def __init__(self, view: LogView, state: KeyedState | None) -> None:
        self._view = view
        self._limit = view.log.budgets.replayed_bytes
        self._owners: dict[bytes, Owned] = {} if state is None else dict(state.owners)
        self._own: set[bytes] = set()
        pending = {} if state is None else state.pending
        self._pending = {producer: dict(entries) for producer, entries in pending.items()}
        self._unreadable = [] if state is None else list(state.unreadable)
        self._cost = 0 if state is None else state.cost

    def finish(self) -> KeyedState:
        """Return the state at the view's end; of a log that is cut, with its transactions ended."""
        if self._view.ended is not None:
            for producer in list(self._pending):
                self._end(producer, self._view.ended.get(producer) is Fate.COMMITTED)
        return KeyedState(
            self._view.partition,
            self._view.log_end_offset,
            self._owners,
            self._pending,
            tuple(self._unreadable),
            self._cost,
        )

    def note(self, unreadable: Unreadable) -> None:
        """Add bytes without readable records."""
        if len(self._unreadable) < MOST_UNREADABLE:
            self._unreadable.append(unreadable)

    def apply(self, record: ReplayedRecord) -> None:
        """Apply a record."""
        key = record.key
        owner = None if key is None else owner_of(key)
        if key is None or owner is None:
            self.note(not_a_key(self._view.name, record.offset))
        elif record.value is None:
            self._remove(owner, key)
        else:
            entry = KeyedEntry(record.offset, record.timestamp, record.producer_id, record.value)
            if record.producer_id == NO_PRODUCER:
                self._put(self._entries(owner), key, entry)
            else:
                self._put(self._pending.setdefault(record.producer_id, {}), key, entry)

    def end_transaction(self, marker: ReplayedControl) -> None:
        """Apply or drop the pending records of a producer."""
        ended = (ControlRecordType.COMMIT, ControlRecordType.ABORT)
        if marker.type not in ended:
            return
        self._end(marker.producer_id, marker.type is ControlRecordType.COMMIT)

    def _end(self, producer_id: int, commits: bool) -> None:
        for key, entry in self._pending.pop(producer_id, {}).items():
            self._cost -= cost_of(key, entry)
            if commits:
                entries = self._entries(owner_of(key) or b"")
                known = entries.get(key)
                if known is None or entry.offset > known.offset:
                    self._put(entries, key, entry)

    def _entries(self, owner: bytes) -> Owned:
        """Return the entries of a group or transactional id, for changes."""
        if owner in self._own:
            return self._owners[owner]
        self._own.add(owner)
        entries = self._owners[owner] = dict(self._owners.get(owner, {}))
        return entries

    def _put(self, entries: Owned, key: bytes, entry: KeyedEntry) -> None:
        known = entries.get(key)
        self._cost += cost_of(key, entry) - (0 if known is None else cost_of(key, known))
        entries[key] = entry
        if self._cost > self._limit:
            raise LimitExceededError(
                f"the state of {self._view.name} takes more than {self._limit} bytes of memory",
                limit="replayed_bytes",
            )

    def _remove(self, owner: bytes, key: bytes) -> None:
        if owner in self._owners and key in self._owners[owner]:
            entries = self._entries(owner)
            self._cost -= cost_of(key, entries.pop(key))
            if not entries:
                del self._owners[owner]
                self._own.discard(owner)
        for pending in self._pending.values():
            entry = pending.pop(key, None)
            if entry is not None:
                self._cost -= cost_of(key, entry)


def not_a_key(name: str, offset: Offset) -> Unreadable:
    """Return the entry for a record with an invalid key."""
    reason = "a record with an invalid key for this topic"
    return Unreadable(name, name, 0, 0, reason, offset, offset)


def owner_of(key: bytes) -> bytes | None:
    """Return the group or transactional id in a key; None for an invalid key."""
    if len(key) < 4:
        return None
    end = 4 + int.from_bytes(key[2:4], "big", signed=True)
    return key[4:end] if 4 <= end <= len(key) else None


def cost_of(key: bytes, entry: KeyedEntry) -> int:
    """Return the approximate memory of an entry in bytes."""
    return ENTRY_COST + len(key) + len(entry.value)
