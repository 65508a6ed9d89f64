"""Search of a partition for a key while a broker may delete, replace and compact its segments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.units import Offset
from kafkafs.decode.searching.key_search import KeyFindings, KeySearch, Passed
from kafkafs.decode.searching.search import DamageFacts, Match

Answer = TypeVar("Answer")

_LOOKS = 5
_REPLACED_AFTER = 0.002
"""Seconds in which a broker replaces segments."""


class LiveKeySearch:
    """Searches for a key, each repeated with a new view of the log when a segment has gone under it.

    Args:
        log: the partition's log.
        make: returns the search of a view.
        look: looks for the newest record, as `KeySearch.newest`.

    Attributes:
        search: the search of the last view.

    Raises:
        FileNotFoundError: the folder is gone, or segments went again and again. So do all methods.
        OSError: the log cannot be read. So do all methods.
    """

    def __init__(
        self,
        log: PartitionLog,
        make: Callable[[LogView], KeySearch],
        look: Callable[[KeySearch], KeyFindings] = KeySearch.newest,
    ) -> None:
        self._log = log
        self._make = make
        self._look = look
        self.search = make(log.view())

    def newest(self) -> KeyFindings:
        """Look for the newest record."""
        return self._repeated(lambda: self._look(self.search))

    def at_newest(
        self, findings: KeyFindings, read: Callable[[KeySearch, Offset], Answer | None]
    ) -> tuple[KeyFindings, Answer | None]:
        """Return what `read` returns for the newest record, and the findings with that record.

        Where `read` returns None, compaction removed the record in the meantime: the newest one is looked for again.
        """
        for _ in range(_LOOKS):
            offset = findings.offset
            if offset is None:
                break
            try:
                answer = read(self.search, offset)
            except FileNotFoundError:
                answer = None
            if answer is not None:
                return findings, answer
            self._look_again()
            findings = self.newest()
        return findings, None

    def lines(self) -> Iterator[Match | DamageFacts | Passed]:
        """Yield what `KeySearch.lines` yields for all records of the key, each once."""
        reached: Offset | None = None
        failed = 0
        while True:
            try:
                for item in self.search.lines(reached):
                    if isinstance(item, Passed):
                        reached, failed = item.next_offset, 0
                    yield item
            except FileNotFoundError:
                failed += 1
                if failed == _LOOKS:
                    raise
                self._look_again()
            else:
                return

    def _repeated(self, ask: Callable[[], Answer]) -> Answer:
        for _ in range(_LOOKS - 1):
            try:
                return ask()
            except FileNotFoundError:
                self._look_again()
        return ask()

    def _look_again(self) -> None:
        time.sleep(_REPLACED_AFTER)
        self.search = self._make(self._log.view(0.0))
