"""What a segment looks at when it is asked whether the log should roll."""

from __future__ import annotations

from typing import NamedTuple

from engine.units import Offset, Timestamp
from engine.writing.append.log_append_info import LogAppendInfo
from engine.writing.log_config import LogConfig


class RollParams(NamedTuple):
    """The limits and what is about to be appended.

    Attributes:
        max_segment_ms, max_segment_size: the limits, in milliseconds and bytes.
        max_timestamp, max_offset: of the batches that come.
        messages_size: their bytes.
        now: the clock's time.
    """

    max_segment_ms: int
    max_segment_size: int
    max_timestamp: Timestamp
    max_offset: Offset
    messages_size: int
    now: Timestamp

    @classmethod
    def of(
        cls, config: LogConfig, append_info: LogAppendInfo, messages_size: int, now: Timestamp
    ) -> RollParams:
        """For batches of `messages_size` bytes that are about to be appended."""
        return cls(
            config.max_segment_ms,
            config.segment_size,
            append_info.max_timestamp,
            append_info.last_offset,
            messages_size,
            now,
        )
