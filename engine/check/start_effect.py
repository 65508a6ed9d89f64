"""Effect of a broker's start on damage in a records file; `kafkafs plan` finds the same by trying.

After an unclean shutdown a broker recovers the segments from the recovery point. The first bytes in them that are not a
good batch end the log: the rest of their segment is truncated, and later segments are deleted. After a clean shutdown
it only looks for the log end, in the last segment.
"""

from __future__ import annotations

from dataclasses import replace

from engine.check.partition_under_check import SegmentUnderCheck
from engine.check.rules.breach import Breach
from engine.check.rules.rules import Severity
from engine.files.file_names import CLEAN_SHUTDOWN
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import Damage
from engine.record.batch_frame import UP_TO_MAGIC
from engine.topics.topic_names import CLUSTER_METADATA

_ENDS_RECOVERY = frozenset(
    {
        DamageKind.CRC_MISMATCH,
        DamageKind.BAD_LENGTH,
        DamageKind.ZEROS,
        DamageKind.TORN_TAIL,
        DamageKind.ZERO_TAIL,
    }
)
_LEAST_HEADER = UP_TO_MAGIC + 1
"""Minimum number of bytes after the last batch that a broker reads as a batch."""
_SAVE = (
    "Run `kafkafs rebuild` before a broker starts here: it keeps the good batches after the damage."
)
_UNMARK = (
    f"Delete {CLEAN_SHUTDOWN} before a broker starts: then the broker recovers the log and truncates the zeros."
    " `kafkafs rebuild` writes a log without them."
)
_MIDDLE = "`kafkafs rebuild` writes a log without the damage; or let the broker copy the partition from another replica."


def with_start(breach: Breach, damage: Damage, segment: SegmentUnderCheck) -> Breach:
    """Add the effect of a broker's start to a breach for damage, and advice."""
    if damage.kind not in _ENDS_RECOVERY:
        return breach
    partition = segment.partition
    is_at_end = damage.kind.is_tail
    if partition.log_dir is not None and partition.is_served:
        if _is_recovered(segment):
            if not _something_follows(damage, segment):
                return breach
            start = damage.first_offset
            behind = f"byte {damage.position} on" if start is None else f"offset {start}"
            what = f"a broker that starts here drops the rest of the log, from {behind}"
            return _graver(breach, f"{what} to offset {partition.log_end_offset - 1}", _SAVE)
        if (
            damage.kind is DamageKind.ZERO_TAIL
            and segment.next_base is None
            and not partition.is_live
        ):
            what = f"{CLEAN_SHUTDOWN} exists, and a broker does not start on such a log"
            if damage.length < _LEAST_HEADER:
                what = f"{CLEAN_SHUTDOWN} exists, so a broker appends after them, where no consumer reads"
            return _graver(breach, what, _UNMARK)
    if is_at_end and segment.next_base is not None:
        what = "a broker that recovers this segment, which is not the last one, drops everything after it"
        return _graver(breach, what, _MIDDLE)
    return breach


def _graver(breach: Breach, what: str, advice: str) -> Breach:
    sentence = f"{breach.sentence}; {what}"
    return replace(breach, sentence=sentence, severity=Severity.ERROR, advice=advice)


def _is_marked(segment: SegmentUnderCheck) -> bool:
    partition = segment.partition
    is_metadata = partition.partition.topic == CLUSTER_METADATA
    return not is_metadata and partition.view.log.checkpoints.stopped_cleanly()


def _is_recovered(segment: SegmentUnderCheck) -> bool:
    """Return whether a broker that is killed now would recover the segment at its next start."""
    partition = segment.partition
    if partition.partition.topic == CLUSTER_METADATA:
        return True
    if _is_marked(segment):
        return False
    point = partition.view.log.checkpoints.recovery_point(partition.partition) or 0
    return segment.next_base is None or segment.next_base > point


def _something_follows(damage: Damage, segment: SegmentUnderCheck) -> bool:
    """Return whether good batches follow the damage; in its own segment they were not read yet."""
    if segment.next_base is not None:
        return segment.next_base < segment.partition.log_end_offset
    return not damage.kind.is_tail and (segment.segment.end > damage.position + damage.length)
