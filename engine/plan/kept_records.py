"""Check the records files that stay: a broker does not read those that it does not recover."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from engine.log.segment.scan import BatchRun, Damage, Disorder, scan
from engine.plan.overlay.overlay_content import OverlayContent
from engine.record.batch_frame import CURRENT_MAGIC
from engine.units import Offset
from engine.verdict.gap_causes.gap_evidence import gaps_within

_MOST_SHOWN = 3


class KeptRecords(NamedTuple):
    """Records files of a log after its loading.

    Attributes:
        bytes: size of the files.
        verified_bytes: bytes with verified checksums, by the broker's recovery or here.
        damaged_batches: number of damaged places.
        damaged_bytes: bytes in damaged places.
        out_of_order: number of good batches with offsets below their predecessor's.
        has_gaps: whether offsets are missing between good batches of magic 2 of a file.
        damage: one sentence for each of the first places.
    """

    bytes: int = 0
    verified_bytes: int = 0
    damaged_batches: int = 0
    damaged_bytes: int = 0
    out_of_order: int = 0
    has_gaps: bool = False
    damage: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether no damage was found in the verified bytes."""
        return not self.damaged_batches and not self.out_of_order

    @property
    def unread_bytes(self) -> int:
        """Bytes that were not verified."""
        return self.bytes - self.verified_bytes


NOTHING_KEPT = KeptRecords()


class ReadableContent:
    """A file of an overlay in the shape that `scan` reads."""

    def __init__(self, content: OverlayContent) -> None:
        self.path = content.path
        self.read_at = content.read_at


def verify_kept(
    contents: Iterable[tuple[OverlayContent, bool]],
    *,
    reads: bool = True,
    on_read: Callable[[int], None] | None = None,
) -> KeptRecords:
    """Verify the records files that stay; the broker's recovery takes for good what readers do not, and sees no gap.

    Args:
        contents: records files that stay, each with whether the broker's recovery read it.
        reads: whether to read them; if not, only their bytes are counted.
        on_read: called with the number of bytes read of files that the recovery did not read.

    Raises:
        OSError: a file cannot be read.
    """
    total = verified = damaged = damaged_bytes = disorder = 0
    has_gaps = False
    shown: list[str] = []
    for content, is_recovered in contents:
        total += content.size
        if is_recovered or reads:
            verified += content.size
        if not reads:
            continue
        expected: Offset | None = None
        for item in scan(ReadableContent(content), 0, content.size):
            if isinstance(item, BatchRun):
                if on_read is not None and not is_recovered:
                    on_read(len(item.buffer))
                has_gaps |= _has_gaps(item, expected)
                expected = item.next_offset
                continue
            if isinstance(item, Damage):
                damaged += 1
                damaged_bytes += item.length
            else:
                disorder += 1
            if len(shown) < _MOST_SHOWN:
                shown.append(_sentence(item))
    return KeptRecords(total, verified, damaged, damaged_bytes, disorder, has_gaps, tuple(shown))


def _has_gaps(run: BatchRun, expected: Offset | None) -> bool:
    # Older batches may not state their first offset.
    table = run.table[run.table["magic"] >= CURRENT_MAGIC]
    is_late = expected is not None and len(table) > 0 and int(table["base_offset"][0]) > expected
    return is_late or next(gaps_within(table), None) is not None


def _sentence(damage: Damage | Disorder) -> str:
    where = f"{os.path.basename(damage.path)} at byte {damage.position}"
    found = ""
    if damage.expected is not None and damage.found is not None:
        found = f" (expected {damage.expected}, found {damage.found})"
    return f"{where}, {damage.length} bytes: {damage.reason}{found}"
