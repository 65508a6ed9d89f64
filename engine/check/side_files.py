"""Which checks look at the files beside the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from engine.check.finding import Finding
from engine.check.index_check import check_offset_index
from engine.check.partition_under_check import PartitionCheck, SegmentCheck
from engine.check.time_index_check import check_time_index
from engine.log.log_directory import LogSource
from engine.source_files import SourceRoot

LogDirCheck: TypeAlias = Callable[[LogSource, SourceRoot], Iterator[Finding]]

SEGMENT_CHECKS: tuple[SegmentCheck, ...] = (check_offset_index, check_time_index)
PARTITION_CHECKS: tuple[PartitionCheck, ...] = ()
LOG_DIR_CHECKS: tuple[LogDirCheck, ...] = ()
