"""Parts of a records file: its batches, and the items between them, in file order.

The parts are found in order, since damage decides where the next batch begins. The items of their batches depend on
nothing else, so that several threads or processes can make them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from engine.files.source_files import SourceFile
from engine.log.segment.scan import Damage
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_items import DumpItem, Tally
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.records.log_batches import Lost, ShownBatches, batches_of

_MOST_TOLD = 64


class LogPart(NamedTuple):
    """A part of the dump of a records file.

    Attributes:
        told: items that are ready.
        batches: batches whose items follow; None for none.
        size: bytes of the file that the batches take.
    """

    file: DumpFile
    told: list[DumpItem]
    batches: ShownBatches | None = None
    size: int = 0


class Around(Protocol):
    """Maker of the items around the batches of one file, asked in file order."""

    def headline(self, size: int) -> list[DumpItem]:
        """Return the items before the batches of a file of `size` bytes."""

    def lost_bytes(self, damage: Damage, end: int) -> list[DumpItem]:
        """Return the items of bytes without a batch, in a file that is read up to `end`."""

    def before(self, batches: ShownBatches) -> list[DumpItem]:
        """Return the items before batches."""

    def tail(self, left: int) -> list[DumpItem]:
        """Return the items after the batches, with `left` bytes of the file not looked at."""


def parts_of(
    file: DumpFile, opened: SourceFile, options: DumpOptions, around: Around
) -> Iterator[LogPart]:
    """Yield the parts of a records file, or of the beginning of it that the options select."""
    size = opened.size()
    end = min(size, options.max_bytes)
    told = around.headline(size)
    done = 0
    for item in batches_of(opened, end, path=file.shown, budgets=options.budgets):
        if isinstance(item, Lost):
            now = item.damage.position + item.damage.length
            told += [*around.lost_bytes(item.damage, end), Tally(processed=now - done)]
            if len(told) > _MOST_TOLD:
                yield LogPart(file, told)
                told = []
        else:
            now = item.end_position
            told += around.before(item)
            yield LogPart(file, told, item, now - done)
            told = []
        done = now
        del item  # free it before the next read: a batch may be as large as the budget
    yield LogPart(file, [*told, *around.tail(end - done)])
