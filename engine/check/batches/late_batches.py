"""Find the original of a batch that is in the log twice."""

from __future__ import annotations

from engine.errors import KafkaStorageError
from engine.log.view.log_view import LogView
from engine.record.batch_frame import CRC_POSITION, HEADER, MAGIC_POSITION
from engine.units import Offset

_MOST_LOOK_UPS = 100


class CopyFinder:
    """Looks up batches in a log, a limited number of times."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._left = _MOST_LOOK_UPS

    def find(self, base_offset: Offset, size: int, crc: int) -> str | None:
        """Return the place of the first batch with a base offset, size and checksum, in words; None without one."""
        self._left -= 1
        if self._left < 0:
            return None
        try:
            segment = self._view.segment_for(base_offset)
            found = None if segment is None else segment.locate(base_offset)
            if segment is None or found is None or found.size != size:
                return None
            header = segment.file.read_at(found.position, HEADER.size)
            at = CRC_POSITION[header[MAGIC_POSITION]]
            stored = header[at : at + 4]
        except (OSError, KafkaStorageError):
            return None
        if int.from_bytes(stored, "big") != crc:
            return None
        return f"byte {found.position} of {segment.name}"
