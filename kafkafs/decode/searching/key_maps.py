"""Look-ups by key for a process that makes many: searches first, a map of the keys once that is cheaper.

A log has no index of its keys. A search reads back to the newest record of the key, and all of the log for a key
without a record. When the searches of a partition have read as many bytes as it has, the next look-up makes a map of
its keys, which costs about as much as a few such searches. From then on a look-up reads the batch of the record, and
what was appended since the last one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from engine.budgets import Budgets
from engine.coding.hashed_slots import BYTES_PER_SLOT
from engine.columns.batch_table import holds_control
from engine.columns.columns import Columns
from engine.errors import KafkaStorageError
from engine.index.offset_map import NOT_THERE, HashedOffsetMap
from engine.log.partition_log import PartitionLog
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Disorder, ScanItem
from engine.log.view.log_view import LogView
from engine.units import Offset
from engine.verdict.log_runs import is_large, runs
from engine.workers import Workers
from kafkafs.decode.failures import Cancelled
from kafkafs.decode.searching.key_search import KeyFindings, KeySearch, never

_PATIENCE = 0.1
"""Seconds after which a thread that waits for a map looks whether it was cancelled."""


_FEWEST_SLOTS = 4096
_MOST_TAKEN = 0.75
"""Share of the slots that may be taken before the map grows."""


class KeyMap:
    """The keys of a log up to an offset. One thread extends it; others may ask meanwhile.

    Control records have no key of a producer and are left out. So are null keys.

    Args:
        most_bytes: most memory that it takes.
    """

    def __init__(self, most_bytes: int) -> None:
        self._end: Offset = 0  # the keys of all records before it are in the map
        # Whether the keys fit into the memory, and the offsets of the log are in order.
        self._is_usable = most_bytes >= _FEWEST_SLOTS * BYTES_PER_SLOT
        self._most_slots = most_bytes // BYTES_PER_SLOT
        self._map = HashedOffsetMap(_FEWEST_SLOTS * BYTES_PER_SLOT)
        self._proven_from: Offset = 0  # damage may have cost records before it, and none from it on

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return self._map.slots * BYTES_PER_SLOT

    def is_behind(self, view: LogView) -> bool:
        """Return whether the map lacks keys of a view, and can have them."""
        return self._is_usable and self._end < view.log_end_offset

    def find(self, view: LogView, key: bytes) -> tuple[Offset | None] | None:
        """Return the offset of a key's newest record, None for a key without one; or None where only a search can tell.

        Args:
            view: the log as it was when the map was extended, or later.
            key: the key.

        Raises:
            KafkaStorageError: the batch of the record cannot be read.
            OSError.
        """
        if not self._is_usable:
            return None
        offset = self._map.get(key)
        if offset < self._proven_from > view.log_start_offset:
            return None
        if offset == NOT_THERE or offset < view.log_start_offset:
            return (None,)
        found = view.record(offset)
        if found is None or found[0].key(found[1]) != key:
            return None
        return (offset,)

    def extend(self, view: LogView, jobs: int, cancel: Callable[[], bool]) -> None:
        """Put the keys up to the log end of a view.

        Args:
            view: the log, with the records that are in the map and later ones.
            jobs: number of threads that decode.
            cancel: called after each run of batches; True ends it, and the next call goes on from there.

        Raises:
            Cancelled: `cancel` has returned True.
            OSError.
        """
        start, is_damaged = max(self._end, view.log_start_offset), False
        with Workers(jobs, "keys") as workers:
            found = runs(view, start, view.log_end_offset)
            for item in workers.flat_map(partial(_decoded, view.log.budgets), found, is_large):
                if isinstance(item, _Keys):
                    self._put(item, start)
                elif isinstance(item, BatchRun):
                    if is_damaged:
                        self._proven_from = max(self._proven_from, item.base_offset)
                    is_damaged = False
                    self._end = max(self._end, item.next_offset)
                elif not item.is_quiet:
                    is_damaged = True
                    self._is_usable &= not isinstance(item, Disorder)
                if not self._is_usable:
                    self._map = HashedOffsetMap(BYTES_PER_SLOT)
                    return
                if cancel():
                    raise Cancelled
        self._end = max(self._end, view.log_end_offset)
        if is_damaged:
            self._proven_from = self._end

    def _put(self, keys: _Keys, start: Offset) -> None:
        columns = keys.columns
        self._proven_from = max(self._proven_from, keys.proven_from)
        while True:
            done = self._map.put_keys(columns, start, int(self._map.slots * _MOST_TAKEN))
            if done == len(columns):
                return
            columns = Columns(columns.table[done:], columns.arena, [], columns.next_row)
            slots = 2 * self._map.slots
            if slots > self._most_slots:
                self._is_usable = False
                return
            self._map.grow(slots)


class _Keys(NamedTuple):
    """Records to put, and the end of the batches among them that do not decode whole; 0 without one."""

    columns: Columns
    proven_from: Offset


def _decoded(budgets: Budgets, task: tuple[LogSegment, ScanItem]) -> Iterator[_Keys | ScanItem]:
    """Yield the records of a run that have keys of producers, some at a time, and then the run; or the damage."""
    _, part = task
    if isinstance(part, BatchRun):
        table = part.table[~holds_control(part.table)]
        for columns in part.columns(table, budgets):
            rows = [problem.row for problem in columns.problems]
            yield _Keys(columns, int(table["last_offset"][rows].max()) + 1 if rows else 0)
    yield part


class KeyMaps:
    """The maps of the partitions whose keys are looked up, the least recently used dropped first. Thread-safe.

    Args:
        most_bytes: most memory of all maps.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._logs: OrderedDict[PartitionLog, _SearchedLog] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes of all maps."""
        return sum(each.size for each in list(self._logs.values()))

    def newest(
        self, log: PartitionLog, search: KeySearch, cancel: Callable[[], bool] = never
    ) -> KeyFindings:
        """Look for the newest record of a key. One whose bytes are not known is searched for.

        Args:
            log: the partition.
            search: a search for the key in a view of the log, from the log start to the log end.
            cancel: called now and then; True ends the look-up.

        Raises:
            Cancelled: `cancel` has returned True.
            FileNotFoundError: a segment was deleted or replaced since the view was made.
            OSError.
        """
        if not search.key.is_exact:
            return search.newest(cancel)
        known = self._known(log, search.view)
        found = known.find(search.view, search.key.content, search.jobs, cancel)
        self._drop_others(log)
        if found is not None:
            return KeyFindings(found[0])
        findings = search.newest(cancel)
        known.left -= findings.size
        return findings

    def _known(self, log: PartitionLog, view: LogView) -> _SearchedLog:
        with self._lock:
            known = self._logs.pop(log, None)
            if known is None or known.rewrites != view.rewrites:
                known = _SearchedLog(view, self._most_bytes)
            self._logs[log] = known
            return known

    def _drop_others(self, log: PartitionLog) -> None:
        with self._lock:
            while self.size > self._most_bytes:
                oldest = next(iter(self._logs))
                if oldest is log:
                    return
                del self._logs[oldest]


class _SearchedLog:
    """What is known about the keys of a log that has had some rewrites.

    Attributes:
        rewrites: number of the rewrites.
        left: bytes that searches may read before the map is made.
    """

    def __init__(self, view: LogView, most_bytes: int) -> None:
        self.rewrites = view.rewrites
        self.left = view.size
        self._most_bytes = most_bytes
        self._map: KeyMap | None = None
        self._extending = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes of the map."""
        return 0 if self._map is None else self._map.size

    def find(
        self, view: LogView, key: bytes, jobs: int, cancel: Callable[[], bool]
    ) -> tuple[Offset | None] | None:
        """Return the offset of a key's newest record, or that it has none; None where only a search can tell."""
        active = view.active_segment
        if self.left > 0 or (active is not None and active.tail_end > active.end):
            return None  # damage after the last batch may have held any key
        while self._map is None or self._map.is_behind(view):
            if self._extending.acquire(timeout=_PATIENCE):
                try:
                    if self._map is None:
                        self._map = KeyMap(self._most_bytes)
                    if self._map.is_behind(view):
                        self._map.extend(view, jobs, cancel)
                finally:
                    self._extending.release()
            elif cancel():
                raise Cancelled
        try:
            return self._map.find(view, key)
        except KafkaStorageError:
            return None
