"""The loading rules of brokers before 4.1, and the different steps of those before 3.1.

Before 3.1 a broker finishes an interrupted replacement segment by segment: see loadSegments in Log.scala of
Kafka 2.8. Only the records of the new segment count: its indexes are rebuilt, the indexes of the segment with
the same base offset are removed, and the segments that overlap the new one are renamed to .deleted.
"""

from __future__ import annotations

from engine.plan.loading.broker_segments import RULES_BEFORE_41, RULES_BEFORE_44
from engine.plan.loading.broker_steps import (
    BROKER_RULES,
    CLEANED,
    DELETED,
    INDEXES,
    LOG,
    SWAP,
    file_names,
    offset_of,
    open_segments,
    path_of,
    recover,
    recover_unflushed,
)
from engine.units import MAX_INT64
from engine.writing.log.log_loader import LogLoader, splitting_overflows
from engine.writing.segment.segment_files import (
    delete_files_if_exist,
    offset_index_path,
    time_index_path,
    transaction_index_path,
)
from engine.writing.segment.segment_replacement import replace_segments


def clear_leftovers(loader: LogLoader) -> None:
    """Remove incomplete files, and the indexes that replacements rebuild."""
    disk = loader.disk
    cleaned: list[str] = []
    swaps: list[str] = []
    for name in file_names(loader):
        if name.endswith(DELETED):
            disk.remove(path_of(loader, name))
        elif name.endswith(CLEANED):
            cleaned.append(name)
        elif name.endswith(SWAP):
            base = name.removesuffix(SWAP)
            if base.endswith((LOG, *INDEXES)):
                offset = offset_of(loader, name)
                for index_path in (offset_index_path, time_index_path, transaction_index_path):
                    disk.remove(index_path(loader.folder, offset), missing_ok=True)
            if base.endswith(LOG):
                swaps.append(name)
    first_cleaned = min((offset_of(loader, name) for name in cleaned), default=MAX_INT64)
    for name in swaps:
        offset = offset_of(loader, name)
        if offset >= first_cleaned:
            delete_files_if_exist(loader.folder, offset, SWAP, disk=disk)
            disk.remove(path_of(loader, name), missing_ok=True)
    for name in cleaned:
        disk.remove(path_of(loader, name))


def finish_replacements(loader: LogLoader) -> None:
    """Recover each .swap segment, and replace the segments that it overlaps."""
    for name in file_names(loader):
        if not name.endswith(LOG + SWAP):
            continue
        segment = loader.open_segment(offset_of(loader, name), suffix=SWAP)
        recover(loader, segment)
        base_offset, end = segment.base_offset, segment.read_next_offset()
        replaced = [
            each
            for each in loader.segments.values(base_offset, max(end, base_offset))
            if each.read_next_offset() > base_offset
        ]
        replace_segments(
            loader.log_folder,
            loader.segments,
            [segment],
            replaced,
            is_recovered_swap_file=True,
        )


RULES_41_TO_43 = BROKER_RULES._replace(segments=RULES_BEFORE_44)
RULES_31_TO_40 = BROKER_RULES._replace(segments=RULES_BEFORE_41)
RULES_28_TO_30 = RULES_31_TO_40._replace(
    steps=(
        clear_leftovers,
        splitting_overflows(open_segments),
        finish_replacements,
        splitting_overflows(recover_unflushed),
    )
)
