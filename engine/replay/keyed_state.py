"""The newest value of every key of a compacted internal topic's partition, as its coordinator has it in memory.

Records count in log order; a null value removes its key. A record with a producer id counts once its
producer's commit marker comes, unless a newer one of the same key was there by then, and never after an
abort: so the group coordinator treats offsets that are committed in transactions. What a value says is not
looked at here, so that a partition of a million records costs the decoding of the keys that are left.

The keys of `__consumer_offsets`, `__transaction_state` and `__share_group_state` all begin with an int16
type and the string that they belong to: a group or a transactional id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from engine.errors import LimitExceededError
from engine.log.log_view import LogView
from engine.record.control_records import ControlRecordType
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
"""Bytes that a key costs beside its own and its value's."""


class KeyedEntry(NamedTuple):
    """The newest record of a key; `producer_id` is -1 unless it was committed in a transaction."""

    offset: Offset
    timestamp: Timestamp
    producer_id: int
    value: bytes


Owned: TypeAlias = dict[bytes, KeyedEntry]
"""Entries by key, of one group or transactional id."""


class KeyedState(NamedTuple):
    """A partition's state after the records below `next_offset`. Never changed: what follows makes another.

    Attributes:
        partition: whose.
        next_offset: the first offset that is not in it.
        owners: entries by group or transactional id, and by key.
        pending: entries of open transactions, by producer id and key.
        unreadable: bytes that gave no records, and records whose key is not one; the first so many.
        cost: about how many bytes of memory it takes.
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
    until: Timestamp | None = None,
    progress: Progress = no_progress,
) -> KeyedState:
    """The state at a view's end, from an earlier one of the same log or from nothing."""
    building = _Building(view, state)
    start = view.log_start_offset if state is None else state.next_offset
    for each in replayed_records(view, start, view.log_end_offset, until, progress):
        if isinstance(each, ReplayedRecord):
            building.apply(each)
        elif isinstance(each, ReplayedControl):
            building.end_transaction(each)
        else:
            building.note(each)
    return building.finish()


class _Building:
    """A state in the making; of the state that it goes on from, only what is touched is copied."""

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
        """The state at the view's end."""
        return KeyedState(
            self._view.partition, self._view.log_end_offset, self._owners, self._pending,
            tuple(self._unreadable), self._cost,
        )  # fmt: skip

    def note(self, unreadable: Unreadable) -> None:
        """Remember what gave no records."""
        if len(self._unreadable) < MOST_UNREADABLE:
            self._unreadable.append(unreadable)

    def apply(self, record: ReplayedRecord) -> None:
        """Take a record in."""
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
        """Let the pending records of a producer count, or drop them."""
        ended = (ControlRecordType.COMMIT, ControlRecordType.ABORT)
        if marker.type not in ended:
            return
        for key, entry in self._pending.pop(marker.producer_id, {}).items():
            self._cost -= cost_of(key, entry)
            if marker.type is ControlRecordType.COMMIT:
                entries = self._entries(owner_of(key) or b"")
                known = entries.get(key)
                if known is None or entry.offset > known.offset:
                    self._put(entries, key, entry)

    def _entries(self, owner: bytes) -> Owned:
        """The entries of a group or transactional id, to be changed."""
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
    """A record of a partition whose key is none of its topic's."""
    reason = "a record whose key is not one of this topic"
    return Unreadable(name, name, 0, 0, reason, offset, offset)


def owner_of(key: bytes) -> bytes | None:
    """The group or transactional id that a key belongs to; None for bytes that are no such key."""
    if len(key) < 4:
        return None
    end = 4 + int.from_bytes(key[2:4], "big", signed=True)
    return key[4:end] if 4 <= end <= len(key) else None


def cost_of(key: bytes, entry: KeyedEntry) -> int:
    """About how many bytes of memory an entry takes."""
    return ENTRY_COST + len(key) + len(entry.value)
