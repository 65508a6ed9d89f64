"""Offset checkpoints of a log dir: an offset for each partition, as "topic partition offset" lines.

recovery-point-offset-checkpoint: the offset up to which the log was flushed.
log-start-offset-checkpoint: the log start, if it is not the first segment's base offset.
replication-offset-checkpoint: the high watermark. cleaner-offset-checkpoint: the offset up to which
the log was compacted. All lag behind a running broker.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.checkpoint.checkpoint_file import parse_checkpoint, render_checkpoint
from engine.checkpoint.decimal_text import parse_int32, parse_int64
from engine.units import Offset, TopicPartition


def parse_offset_checkpoint(
    data: bytes, *, path: str | None = None
) -> dict[TopicPartition, Offset]:
    """Return the offset of each partition as written: it may be negative, and the last line of a partition wins.

    Raises CorruptCheckpointError and LimitExceededError.
    """
    topics: dict[str, str] = {}

    def entry(words: list[str]) -> tuple[TopicPartition, Offset]:
        topic, partition, offset = words
        topic = topics.setdefault(topic, topic)
        return TopicPartition(topic, parse_int32(partition)), parse_int64(offset)

    return dict(parse_checkpoint(data, entry, path=path))


def render_offset_checkpoint(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """Return the file of these offsets.

    >>> render_offset_checkpoint({TopicPartition("orders", 1): 985})
    b'0\\n1\\norders 1 985\\n'
    """
    return render_checkpoint(
        f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()
    )
