"""What is in the records files that stay: a broker does not look into those that it does not recover."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from engine.log.segment.scan import BatchRun, Damage, Disorder, scan
from engine.plan.overlay.overlay_content import OverlayContent

_MOST_SHOWN = 3


class KeptRecords(NamedTuple):
    """The records files of a log that are there after its loading.

    Attributes:
        bytes: that they have.
        verified_bytes: those that were read, by the broker's recovery or here, to check each batch's checksum.
        damaged_batches: places with bytes that are no good batch.
        damaged_bytes: what those have.
        out_of_order: good batches whose offsets are below those before them.
        damage: the first places, in sentences.
    """

    bytes: int = 0
    verified_bytes: int = 0
    damaged_batches: int = 0
    damaged_bytes: int = 0
    out_of_order: int = 0
    damage: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether no damage was found in what was read."""
        return not self.damaged_batches and not self.out_of_order

    @property
    def unread_bytes(self) -> int:
        """What nobody has read."""
        return self.bytes - self.verified_bytes


NOTHING_KEPT = KeptRecords()


class ReadableContent:
    """A file of an overlay as `scan` reads it."""

    def __init__(self, content: OverlayContent) -> None:
        self.path = content.path
        self.read_at = content.read_at


def verify_kept(
    contents: Iterable[tuple[OverlayContent, bool]],
    *,
    reads: bool = True,
    on_read: Callable[[int], None] | None = None,
) -> KeptRecords:
    """Read the records files that the broker does not read at its start.

    Args:
        contents: the records files that stay, each with whether the broker's recovery read it.
        reads: whether to read at all; else only bytes are counted.
        on_read: is told how many bytes were read.

    Raises:
        OSError: a file cannot be read.
    """
    total = verified = damaged = damaged_bytes = disorder = 0
    shown: list[str] = []
    for content, is_recovered in contents:
        total += content.size
        if is_recovered:
            verified += content.size
        if is_recovered or not reads:
            continue
        verified += content.size
        for item in scan(ReadableContent(content), 0, content.size):
            if isinstance(item, BatchRun):
                if on_read is not None:
                    on_read(len(item.buffer))
                continue
            if isinstance(item, Damage):
                damaged += 1
                damaged_bytes += item.length
            else:
                disorder += 1
            if len(shown) < _MOST_SHOWN:
                shown.append(_sentence(item))
    return KeptRecords(total, verified, damaged, damaged_bytes, disorder, tuple(shown))


def _sentence(damage: Damage | Disorder) -> str:
    where = f"{os.path.basename(damage.path)} at byte {damage.position}"
    found = ""
    if damage.expected is not None and damage.found is not None:
        found = f" (expected {damage.expected}, found {damage.found})"
    return f"{where}, {damage.length} bytes: {damage.reason}{found}"
