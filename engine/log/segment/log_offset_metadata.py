"""Comparing offsets by where they lie: which segment, how many bytes apart.

An offset may come without its place, as one from a checkpoint does until it is looked up.
"""

from __future__ import annotations

from engine.units import LogOffsetMetadata

UNKNOWN_OFFSET_METADATA = LogOffsetMetadata(-1)


def is_offset_only(metadata: LogOffsetMetadata) -> bool:
    """Whether the place of the offset is not known."""
    return metadata.segment_base_offset == -1 and metadata.position == -1


def is_on_older_segment(metadata: LogOffsetMetadata, other: LogOffsetMetadata) -> bool:
    """Whether its segment is known to come before the other's."""
    if is_offset_only(metadata) or is_offset_only(other):
        return False
    return metadata.segment_base_offset < other.segment_base_offset


def is_on_same_segment(metadata: LogOffsetMetadata, other: LogOffsetMetadata) -> bool:
    """Whether both are known to lie in one segment."""
    if is_offset_only(metadata) or is_offset_only(other):
        return False
    return metadata.segment_base_offset == other.segment_base_offset


def position_difference(metadata: LogOffsetMetadata, other: LogOffsetMetadata) -> int:
    """Bytes from the other to this one.

    Raises:
        ValueError: they do not lie in one segment, or the place of one is not known.
    """
    if is_offset_only(metadata) or is_offset_only(other):
        raise ValueError(f"the place of {metadata} or of {other} is not known")
    if not is_on_same_segment(metadata, other):
        raise ValueError(f"{metadata} and {other} lie in different segments")
    return metadata.position - other.position
