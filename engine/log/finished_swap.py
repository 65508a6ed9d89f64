"""Show a compaction or split that was interrupted as a broker's start finishes it.

New segments are written as ``.cleaned``. When all are complete they become ``.swap``, then the old segments become
``.deleted``, then the new ones get their names. A broker that starts in between deletes the files of the offsets
from the first ``.swap`` segment to the end of the last one, and renames the ``.swap`` files; see LogLoader in Kafka.
So does a running one, a moment later: whatever moment a reader sees, the log has either all old segments or all
new ones.

One thing is different: a ``.swap`` without a good batch replaces nothing. A start would lose the records that it
replaces, and readers still have them.
"""

from __future__ import annotations

from engine.files.file_names import FileState, log_file_name
from engine.log.folder_listing import (
    FolderListing,
    swapped_bases,
    without_replaced,
    without_swapped,
)
from engine.log.log_contents import LogContext
from engine.log.segment.log_segment import LogSegment
from engine.units import Offset


def finish_swap(log: LogContext, listing: FolderListing) -> FolderListing:
    """Return a listing with ``.swap`` files, without the files that these replace.

    Raises FileNotFoundError when a file is gone in the meantime, other OSError.
    """
    first: Offset | None = None
    end: Offset = 0
    for base in swapped_bases(listing):
        segment = LogSegment(log.files_of(base, listing), budgets=log.budgets)
        if segment.size and segment.next_offset == base:
            name = log_file_name(base, FileState.SWAP)
            reason = f"damaged: a start puts {name} in the place of other segments"
            listing = without_swapped(listing, base, reason)
            continue
        first = base if first is None else first
        end = max(end, segment.next_offset)
    return without_replaced(listing, end if first is None else first, end)
