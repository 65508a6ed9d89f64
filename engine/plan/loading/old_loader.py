"""Logs as brokers before 3.1 load them: a replacement that was interrupted is finished segment by segment.

See loadSegments in Log.scala of Kafka 2.8. Of a segment that is to take another's place only the records count:
its indexes are made anew, those of a segment with the same base offset are removed, and the segments that it
overlaps with are renamed to be deleted later.
"""

from __future__ import annotations

from engine.files.file_names import FileKind, FileState
from engine.plan.loading.broker_loader import BrokerLoader
from engine.plan.loading.broker_segment import BrokerSegment
from engine.units import MAX_INT64, Offset
from engine.writing.segment.segment_files import (
    delete_files_if_exist,
    offset_index_path,
    time_index_path,
    transaction_index_path,
)
from engine.writing.segment.segment_replacement import replace_segments

_DELETED = FileState.DELETED.value
_CLEANED = FileState.CLEANED.value
_SWAP = FileState.SWAP.value
_LOG = FileKind.LOG.value
_INDEXES = tuple(
    kind.value for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
)


class SegmentFoundByEnd(BrokerSegment):
    """A segment in which brokers before 4.1 find an offset: in the first batch that ends at or above it."""

    finds_by_last_offset = True


class Loader40(BrokerLoader):
    """Loads a log as brokers from 3.1 to 4.0 do."""

    segment_type = SegmentFoundByEnd


class Loader30(Loader40):
    """Loads a log as brokers from 2.8 to 3.0 do."""

    def _clear_leftovers(self) -> None:
        self._swaps: list[Offset] = []
        cleaned: list[str] = []
        swaps: list[str] = []
        for name in self._files():
            if name.endswith(_DELETED):
                self._disk.remove(self._at(name))
            elif name.endswith(_CLEANED):
                cleaned.append(name)
            elif name.endswith(_SWAP):
                base = name.removesuffix(_SWAP)
                if base.endswith((_LOG, *_INDEXES)):
                    self._remove_indexes(self._offset_in(name))
                if base.endswith(_LOG):
                    swaps.append(name)
        first_cleaned = min((self._offset_in(name) for name in cleaned), default=MAX_INT64)
        for name in swaps:
            offset = self._offset_in(name)
            if offset < first_cleaned:
                self._swaps.append(offset)
                continue
            delete_files_if_exist(self._folder, offset, _SWAP, disk=self._disk)
            self._disk.remove(self._at(name), missing_ok=True)
        for name in cleaned:
            self._disk.remove(self._at(name))

    def _remove_indexes(self, base_offset: Offset) -> None:
        for path_of in (offset_index_path, time_index_path, transaction_index_path):
            self._disk.remove(path_of(self._folder, base_offset), missing_ok=True)

    def _finish_swaps(self) -> None:
        for base_offset in self._swaps:
            segment = self._open_swap(base_offset)
            self._opened.append(segment)
            self._recover_segment(segment)
            end = segment.read_next_offset()
            replaced = [
                each
                for each in self._segments.values(base_offset, max(end, base_offset))
                if each.read_next_offset() > base_offset
            ]
            replace_segments(
                self._segments,
                [segment],
                replaced,
                self._folder,
                self._topic_partition,
                self._config,
                self._scheduler,
                self._channel,
                is_recovered_swap_file=True,
                disk=self._disk,
            )
