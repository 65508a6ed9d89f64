"""Search for repeated keys below an offset, which compaction would have removed.

Compaction works from the start of a log and keeps the last record of each key. So below an offset that it has removed
no key is repeated.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.columns.batch_table import holds_control, holds_transactional
from engine.errors import KafkaStorageError
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.units import Offset

MOST_KEYS = 200_000


class Repeated(NamedTuple):
    """The first repeated key: offsets of its first and second record."""

    first: Offset
    again: Offset


def first_repeated_key(view: LogView, until: Offset) -> Repeated | None:
    """Return the first repetition below an offset, among the first MOST_KEYS keys; None without one.

    Keys in transactions do not count: records of aborted ones are removed, even without a later record of the key.
    """
    known: dict[int, Offset] = {}
    if not view.base_offsets:
        return None
    try:
        for _, item in view.runs(view.base_offsets[0], until):
            if not isinstance(item, BatchRun):
                continue
            table = item.table
            plain = ~holds_control(table) & ~holds_transactional(table)
            for row in plain.nonzero()[0].tolist():
                columns = item.decoded(row, view.log.budgets)
                offsets = columns.offset.tolist()
                for place, offset in enumerate(offsets):
                    key = columns.key(place)
                    if key is None or offset >= until:
                        continue
                    before = known.setdefault(hash(key), offset)
                    if before != offset:
                        return Repeated(before, offset)
            if len(known) >= MOST_KEYS:
                return None
    except (OSError, KafkaStorageError):
        return None
    return None
