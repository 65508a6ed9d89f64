"""What coordinators wrote shortly before a moment: ends of transactions, and offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.cut.decisions import Prepared
from engine.cut.tail import SKEW
from engine.log.view.log_view import LogView
from engine.record.fate import Fate
from engine.replay.partition_records import ReplayedRecord, replayed_records
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from engine.units import Offset, Timestamp, TopicPartition

_LONG = 60_000
"""Milliseconds before the moment in which a coordinator may have decided what has no marker then."""
_OFFSET_KEYS = (b"\x00\x00", b"\x00\x01")
_DECIDED = {
    "PrepareCommit": Fate.COMMITTED,
    "PrepareAbort": Fate.ABORTED,
    "CompleteCommit": Fate.COMMITTED,
    "CompleteAbort": Fate.ABORTED,
}


def prepared(views: Iterable[LogView], time: Timestamp) -> list[Prepared]:
    """Return the ends that transaction coordinators had decided by a time, of a minute before it. Raises OSError."""
    decoder = decoder_for(TRANSACTION_STATE)
    assert decoder is not None
    found: list[Prepared] = []
    for view in views:
        for each in _records(view, time - _LONG, time):
            value = decoder.decode(each.key, each.value).value
            fields = value["data"] if isinstance(value, dict) else {}
            fate = _DECIDED.get(fields.get("transactionStatus", ""))
            if fate is not None:
                found.append(
                    Prepared(fields["producerId"], fields["producerEpoch"], each.timestamp, fate)
                )
    return sorted(found, key=lambda each: each.time)


def last_end(views: Iterable[LogView], transactional_id: str) -> Timestamp | None:
    """Return when the last transaction of an id had ended, by its coordinator; None if none is known. Raises OSError."""
    decoder = decoder_for(TRANSACTION_STATE)
    assert decoder is not None
    found: Timestamp | None = None
    name = transactional_id.encode()
    wanted = b"\0\0" + len(name).to_bytes(2, "big") + name
    for view in views:
        for each in replayed_records(view, view.log_start_offset, view.log_end_offset):
            if each.__class__ is ReplayedRecord and each.key == wanted:
                value = decoder.decode(each.key, each.value).value
                fields = value["data"] if isinstance(value, dict) else {}
                if fields.get("transactionStatus") in _DECIDED:
                    found = each.timestamp
    return found


def committed(views: Iterable[LogView], time: Timestamp) -> dict[TopicPartition, Offset]:
    """Return the largest offsets that groups committed shortly before a time, outside of transactions. Raises OSError."""
    decoder = decoder_for(CONSUMER_OFFSETS)
    assert decoder is not None
    found: dict[TopicPartition, Offset] = {}
    for view in views:
        for each in _records(view, time - SKEW, time):
            is_offset = each.key is not None and each.key[:2] in _OFFSET_KEYS
            if not is_offset or each.producer_id >= 0:
                continue
            decoded = decoder.decode(each.key, each.value)
            if isinstance(decoded.key, dict) and isinstance(decoded.value, dict):
                place = decoded.key["data"]
                partition = TopicPartition(place["topic"], place["partition"])
                offset = decoded.value["data"]["offset"]
                found[partition] = max(found.get(partition, 0), offset)
    return found


def _records(view: LogView, since: Timestamp, until: Timestamp) -> Iterator[ReplayedRecord]:
    start = view.offset_for_time(since)
    if start is None:
        return
    for each in replayed_records(view, start.offset, view.log_end_offset):
        if each.__class__ is ReplayedRecord:
            if each.timestamp > until + SKEW:
                return
            if each.timestamp <= until:
                yield each
