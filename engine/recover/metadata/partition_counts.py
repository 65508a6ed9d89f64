"""The number of partitions of Kafka's own topics, proven by their records: each is in the partition of its key's hash."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from engine.errors import KafkaStorageError
from engine.log.partition_log import PartitionLog
from engine.replay.partition_records import ReplayedRecord, replayed_records
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

_MOST_PARTITIONS = 1000
_MOST_KEYS = 10_000
"""Keys of one partition that are looked at."""
_MIN_INT32 = -(1 << 31)


class ProvenCount(NamedTuple):
    """Number of partitions, and a sentence if it is not proven or larger than the folders show."""

    partitions: int
    sentence: str = ""


def java_hash(text: str) -> int:
    """Return the hashCode of a Java String, of its UTF-16 code units.

    >>> java_hash("billing"), java_hash("polygenelubricants")
    (-109829509, -2147483648)
    """
    data = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for at in range(0, len(data), 2):
        found = (31 * found + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found


def partition_for(text: str, count: int) -> int:
    """Return the partition of a group, a transactional id or a share key among `count`; Utils.abs of Kafka.

    >>> partition_for("billing", 50), partition_for("polygenelubricants", 50)
    (9, 0)
    """
    found = java_hash(text)
    return (0 if found == _MIN_INT32 else abs(found)) % count


def _share_key(key: Mapping[str, Any]) -> str | None:
    if "groupId" not in key:
        return None
    return f"{key['groupId']}:{key['topicId']}:{key['partition']}"


def _group(key: Mapping[str, Any]) -> str | None:
    for name in ("groupId", "group"):
        if name in key:
            return str(key[name])
    return None


def _transactional_id(key: Mapping[str, Any]) -> str | None:
    found = key.get("transactionalId")
    return None if found is None else str(found)


PROVEN_TOPICS: Mapping[str, Callable[[Mapping[str, Any]], str | None]] = {
    CONSUMER_OFFSETS: _group,
    TRANSACTION_STATE: _transactional_id,
    SHARE_GROUP_STATE: _share_key,
}
"""Topics whose records prove the number of partitions, and what of a key is hashed."""


def proven_count(topic: str, logs: Mapping[int, Sequence[PartitionLog]]) -> ProvenCount:
    """Return the number of partitions of one of Kafka's own topics: the smallest that puts each of its keys where it is.

    Args:
        topic: one of PROVEN_TOPICS.
        logs: copies of each partition that is there, by number; at least one.
    """
    least = max(logs) + 1
    keys = {(text, number) for number, copies in logs.items() for text in _keys_of(topic, copies)}
    if not keys:
        return ProvenCount(
            least, f"the number of partitions of {topic} is a guess ({least}): it has no keys"
        )
    hashes = [(java_hash(text), number) for text, number in keys]
    fitting = [
        count
        for count in range(least, _MOST_PARTITIONS + 1)
        if all(
            (0 if found == _MIN_INT32 else abs(found)) % count == number for found, number in hashes
        )
    ]
    if not fitting:
        return ProvenCount(
            least,
            f"the number of partitions of {topic} is a guess ({least}): its {len(keys)} keys fit to no number",
        )
    if fitting[0] == least and len(fitting) == 1:
        return ProvenCount(least)
    if fitting[0] != least:
        return ProvenCount(
            fitting[0],
            f"{topic} has {fitting[0]} partitions by the hashes of its {len(keys)} keys, but folders for {len(logs)}",
        )
    others = ", ".join(map(str, fitting[1:4]))
    return ProvenCount(
        least,
        f"the number of partitions of {topic} is taken as {least}: its {len(keys)} keys also fit to {others}",
    )


def _keys_of(topic: str, copies: Sequence[PartitionLog]) -> set[str]:
    """Return what is hashed of the keys of a partition, of its first readable copy with any."""
    for log in copies:
        found: set[str] = set()
        try:
            for text in _texts(topic, log):
                found.add(text)
                if len(found) >= _MOST_KEYS:
                    break
        except (KafkaStorageError, OSError):
            pass
        if found:
            return found
    return set()


def _texts(topic: str, log: PartitionLog) -> Iterator[str]:
    decoder, take = decoder_for(topic), PROVEN_TOPICS[topic]
    assert decoder is not None
    view = log.view()
    seen: set[bytes] = set()
    for record in replayed_records(view, view.log_start_offset, view.log_end_offset):
        if not isinstance(record, ReplayedRecord) or record.key is None or record.key in seen:
            continue
        seen.add(record.key)
        decoded = decoder.decode(record.key, None)
        text = None if decoded.key is None else take(decoded.key["data"])
        if text is not None:
            yield text
