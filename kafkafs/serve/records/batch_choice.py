"""Choose the batches that a fetch of one partition gets."""

from __future__ import annotations

from errno import ENOENT
from typing import NamedTuple, TypeAlias

from engine.files.source_files import SourceFile
from engine.log.segment.batch_search import first_offset
from engine.log.segment.fetch import offset_metadata
from engine.log.segment.log_segment import LogSegment
from engine.log.view.log_view import LogView
from engine.units import Offset, Position
from engine.verdict.log_losses import losses_of
from kafkafs.serve.records.partition_look import PartitionLook


class GoodBatches(NamedTuple):
    """Good batches of a segment, from the first that reaches the offset on.

    Attributes:
        segment: the segment.
        file: its file.
        start: position of the first batch.
        first_size: bytes of the first batch.
        end: end of the good batches, or of the bytes that were asked for.
    """

    segment: LogSegment
    file: SourceFile
    start: Position
    first_size: int
    end: Position


class DamagedOffsets(NamedTuple):
    """Offsets that damage may have held.

    Attributes:
        segment: the segment with the damage.
        position: position of the damage.
        next_offset: offset of the first good batch behind, or the base offset of the next segment.
        reason: a sentence about the damage.
    """

    segment: LogSegment
    position: Position
    next_offset: Offset
    reason: str


Found: TypeAlias = "GoodBatches | DamagedOffsets"


def find_batches(
    look: PartitionLook, offset: Offset, most: int, *, min_one_batch: bool
) -> Found | None:
    """Return the first batch that reaches an offset of [log start, log end), or the damage there.

    None if there is none below the log end, which compaction may have moved away from the last batch.

    Args:
        look: the log.
        offset: the offset.
        most: bytes that are asked for.
        min_one_batch: whether the first batch is asked for whole, whatever its size.

    Raises:
        OSError: a file cannot be read, or is gone.
    """
    segment = None
    for segment in look.view.segments_from(offset):
        file = segment.file
        located = segment.locate(offset)
        if located is not None and located.base_offset <= offset:
            place = located.position, located.size
            found = _good_from(look, segment, file, place, most, min_one_batch)
            if found.end > found.start:
                return found
        sought = _seek(look.view, segment, offset)
        if isinstance(sought, DamagedOffsets):
            is_below = offset < segment.base_offset  # a segment before the damaged one may be lost
            return (_lost(look.view, segment, offset) if is_below else None) or sought
        if sought is not None:
            base, position, size = sought
            lost = _lost(look.view, segment, offset) if base > offset else None
            place = position, size
            return lost or _good_from(look, segment, file, place, most, min_one_batch)
    return None if segment is None else _lost(look.view, segment, offset)


def _lost(view: LogView, segment: LogSegment, offset: Offset) -> DamagedOffsets | None:
    """Return the offsets from one on that are lost before the next batch, or at the log end, if any.

    In a log that a broker writes, nothing is read to find out: it would be read for each new view of the log.
    """
    losses = losses_of(view)
    lost = losses.at(offset, may_read=losses.may_explain)
    if lost is None or lost.next_offset is None:
        return None
    losses.note(lost.damage())
    return DamagedOffsets(segment, 0, min(lost.next_offset, view.log_end_offset), lost.reason)


def _good_from(
    look: PartitionLook,
    segment: LogSegment,
    file: SourceFile,
    place: tuple[Position, int],
    most: int,
    min_one_batch: bool,
) -> GoodBatches:
    """Prove the batches that are asked for, from one on with its position and size, and at least that one."""
    position, size = place
    least = size if min_one_batch else 1
    stop = min(position + (max(least, most)), segment.end)
    end = look.proof(file).good_end(segment, position, stop, losses_of(look.view))
    now = segment.file
    if now is not file and (now.device, now.inode) != (file.device, file.inode):
        # Closed, and another when it was opened again: a cleaned segment takes the place of several.
        raise FileNotFoundError(ENOENT, "another file has its name", file.path)
    return GoodBatches(segment, file, position, size, end)


def _seek(
    view: LogView, segment: LogSegment, offset: Offset
) -> tuple[Offset, Position, int] | DamagedOffsets | None:
    """Find base offset, position and size of the first good batch of a segment with every checksum checked.

    None if all are below the offset.
    """
    landing = segment.seek(offset)
    batch, damage = landing.batch, landing.damage
    if batch is not None:
        base, position, size = (int(batch[name][0]) for name in ("base_offset", "position", "size"))
        if damage is None or landing.position == position or base <= offset:
            return base, position, size
        base = first_offset(segment.run_of(batch))  # a wrapper's header has that of its last record
        if base <= offset:
            return base, position, size
        return DamagedOffsets(segment, landing.position, base, damage.reason)
    if damage is None or view.next_base(segment) <= offset:
        return None
    return DamagedOffsets(segment, landing.position, view.next_base(segment), damage.reason)


def position_of(view: LogView, segment: LogSegment, bound: Offset) -> Position:
    """Return the position in a segment that a reader stops at which may not see the offset `bound`."""
    if bound >= view.log_end_offset:
        return segment.end
    at = offset_metadata(view.segments_from, view.end_metadata, bound)
    if at.segment_base_offset > segment.base_offset:
        return segment.end
    return at.position if at.segment_base_offset == segment.base_offset else 0
