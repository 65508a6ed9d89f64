"""Show a compaction or split that was interrupted as a broker's start finishes it.

New segments are written as ``.cleaned``. When all are complete they become ``.swap``, then the old segments become
``.deleted``, then the new ones get their names. A broker that starts in between deletes the files of the offsets
from the first ``.swap`` segment to the end of the last one, and renames the ``.swap`` files; see LogLoader in Kafka.
So does a running one, a moment later: whatever moment a reader sees, the log has either all old segments or all
new ones.

One thing is different: while the first old segment is there, a ``.swap`` without a good batch replaces nothing. A
start loses the records that it replaces, and readers still have them.
"""

from __future__ import annotations

from engine.files.file_names import log_file_name
from engine.log.folder_listing import (
    FolderListing,
    swapped_bases,
    without_replaced,
    without_swapped,
)
from engine.log.segment.log_segment import LogSegment
from engine.log.view.log_contents import LogContext


def finish_swap(log: LogContext, listing: FolderListing) -> FolderListing:
    """Return a listing with ``.swap`` files, without the files that these replace.

    Raises FileNotFoundError when a file is gone in the meantime, other OSError.
    """
    bases = swapped_bases(listing)
    if not bases:
        return without_replaced(listing, 0, 0)
    segments = [LogSegment(log.files_of(base, listing), budgets=log.budgets) for base in bases]
    for segment in segments:
        is_bad = segment.size > 0 and segment.next_offset == segment.base_offset
        if is_bad and listing.has_file(log_file_name(bases[0])):
            return without_swapped(listing, f"no segment: {segment.name} has no good batch")
    return without_replaced(listing, bases[0], max(segment.next_offset for segment in segments))
