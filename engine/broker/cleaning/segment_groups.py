"""Group the segments that are cleaned into one."""

from __future__ import annotations

from collections.abc import Sequence

from engine.units import MAX_INT32, Offset
from engine.writing.segment.writable_segment import WritableSegment


def group_segments_by_size(
    segments: Sequence[WritableSegment],
    max_size: int,
    max_index_size: int,
    first_uncleanable_offset: Offset,
) -> list[list[WritableSegment]]:
    """Group adjacent segments up to the size of a segment, so that cleaned segments do not get ever smaller.

    Args:
        segments: segments of a log, in order.
        max_size: most bytes of records in a group.
        max_index_size: most bytes of each of its indexes.
        first_uncleanable_offset: end of the cleaned part.
    """
    groups: list[list[WritableSegment]] = []
    sizes: tuple[int, ...] = (0, 0, 0)
    for place, segment in enumerate(segments):
        own = _sizes(segment)
        together = tuple(map(sum, zip(sizes, own, strict=True)))
        fits = all(
            size <= most
            for size, most in zip(together, (max_size, max_index_size, max_index_size), strict=True)
        )
        if (
            groups
            and fits
            and _is_in_range(groups[-1][0], segments, place, first_uncleanable_offset)
        ):
            groups[-1].append(segment)
            sizes = together
        else:
            groups.append([segment])
            sizes = own
    return groups


def _sizes(segment: WritableSegment) -> tuple[int, ...]:
    return segment.size, segment.offset_index.size_in_bytes, segment.time_index.size_in_bytes


def _is_in_range(
    first: WritableSegment,
    segments: Sequence[WritableSegment],
    place: int,
    first_uncleanable_offset: Offset,
) -> bool:
    """Return whether the offsets of the segment at index `place` are within 31 bits of the group's base offset.

    The last offset is estimated, never too low, as the offset before the next segment's base offset.
    An empty segment always fits, so that none remains for each 2^31 offsets.
    """
    if segments[place].size == 0:
        return True
    following = segments[place + 1 : place + 2]
    end = following[0].base_offset if following else first_uncleanable_offset
    return end - 1 - first.base_offset <= MAX_INT32
