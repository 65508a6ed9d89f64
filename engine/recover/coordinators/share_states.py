"""State of share partitions past the end of a recovered log: new records at these offsets would count as delivered."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from engine.rebuild.assembly.pieces import Piece
from engine.recover.coordinators.coordinator_log import (
    CoordinatorMessage,
    KeyedValue,
    coordinator_records,
)
from engine.recover.coordinators.group_offsets import MovedOffset
from engine.replay.groups.share_state import (
    PLACE_SIZE,
    SNAPSHOT,
    UNSET,
    UPDATE,
    KeptShare,
    ShareOffset,
    after_record,
    share_offset,
)
from engine.replay.partition_records import ReplayedRecord
from engine.units import Offset, Timestamp, TopicPartition

_FILE = "share_group_state.txt"
_FINISHED = (2, 4)
"""Delivery states ACKNOWLEDGED and ARCHIVED."""


class StoredShare(NamedTuple):
    """State of a share partition: its group, topic id and partition, state, and the key of its snapshots."""

    group: str
    topic_id: str
    number: int
    state: ShareOffset
    key: bytes


def share_rows(pieces: Iterable[Piece], name: str) -> Iterator[StoredShare]:
    """Yield the states in the log of a partition of `__share_group_state`.

    Raises:
        OSError: a file cannot be read.
    """
    kept: dict[bytes, KeptShare] = {}
    for record in coordinator_records(pieces, name):
        if not isinstance(record, ReplayedRecord) or record.key is None:
            continue
        kind, place = record.key[:2], record.key[2:]
        if kind not in (SNAPSHOT, UPDATE):
            continue
        after = after_record(kept.get(place), kind, record)
        if after is None:
            kept.pop(place, None)
        else:
            kept[place] = after
    message = CoordinatorMessage(_FILE, "ShareSnapshotKey")
    for place, each in kept.items():
        names = message.read_key(SNAPSHOT + place)
        if names is not None and len(place) > PLACE_SIZE:
            topic = base64.urlsafe_b64encode(place[-PLACE_SIZE:-4]).decode().rstrip("=")
            state = share_offset(each)
            yield StoredShare(names["groupId"], topic, names["partition"], state, SNAPSHOT + place)


def clamped(
    rows: Iterable[StoredShare],
    end_of: Callable[[str, int], tuple[TopicPartition, Offset] | None],
    now: Timestamp,
) -> tuple[list[KeyedValue], list[MovedOffset]]:
    """Return snapshots of the states that go past the end of a log, cut there, and what they move.

    Args:
        rows: all states.
        end_of: returns name and end of a partition by topic id and number; None if there is none.
        now: time of the snapshots.
    """
    message = CoordinatorMessage(_FILE, "ShareSnapshotValue")
    records, moved = [], []
    for each in rows:
        found = end_of(each.topic_id, each.number)
        if found is None:
            continue
        partition, end = found
        state = each.state
        known = max([state.start_offset or 0, *(batch.last_offset + 1 for batch in state.batches)])
        if known <= end:
            continue
        batches = [
            batch._replace(last_offset=min(batch.last_offset, end - 1))
            for batch in state.batches
            if batch.first_offset < end
        ]
        finished = sum(
            batch.last_offset + 1 - batch.first_offset
            for batch in batches
            if batch.delivery_state in _FINISHED
        )
        is_counted = state.delivery_complete_count is not None
        fields = {
            "snapshotEpoch": (state.snapshot_epoch or 0) + 1,
            "stateEpoch": state.state_epoch or 0,
            "leaderEpoch": state.leader_epoch or 0,
            "startOffset": UNSET if state.start_offset is None else min(state.start_offset, end),
            "deliveryCompleteCount": finished if is_counted else UNSET,
            "createTimestamp": now if state.create_timestamp is None else state.create_timestamp,
            "writeTimestamp": now,
            "stateBatches": [
                {
                    "firstOffset": batch.first_offset,
                    "lastOffset": batch.last_offset,
                    "deliveryState": batch.delivery_state,
                    "deliveryCount": batch.delivery_count,
                }
                for batch in batches
            ],
        }
        records.append(KeyedValue(each.key, message.write(fields, b"\0\0")))
        moved.append(MovedOffset(each.group, partition, known, end))
    return records, moved
