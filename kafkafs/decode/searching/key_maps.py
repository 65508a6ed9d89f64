"""Look-ups by key for a process that makes many: searches first, a map of the keys once that is cheaper.

A log has no index of its keys. A search reads back to the newest record of the key, and all of the log for a key
without a record. When the searches of a partition have read as many bytes as it has, the next look-up makes a map of
its keys, which costs about as much as a few such searches. From then on a look-up reads the batch of the record, and
what was appended since the last one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from engine.errors import KafkaStorageError
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.units import Offset
from kafkafs.decode.failures import Cancelled
from kafkafs.decode.searching.key_map import KeyMap
from kafkafs.decode.searching.key_search import KeyFindings, KeySearch, never

_PATIENCE = 0.1
"""Seconds after which a thread that waits for a map looks whether it was cancelled."""


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
