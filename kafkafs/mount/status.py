"""Files of the daemon in `.kafkafs/`: pid, status, statistics and log.

The tree shows them beside its own files (version, problems). All are small and made on demand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kafkafs.decode.shown_text import pretty_json
from kafkafs.fuse.statistics import Statistics
from kafkafs.mount.mounting import MountOptions
from kafkafs.process_facts import process_facts


class Facts(Protocol):
    """Protocol: the statistics of the request handlers."""

    statistics: Statistics
    lists_names_only: bool

    @property
    def open_handles(self) -> int:
        """Number of open files and folders."""

    @property
    def known_inodes(self) -> int:
        """Number of inodes that the kernel holds."""

    @property
    def busy_threads(self) -> int:
        """Number of busy worker threads."""


class DaemonStatus:
    """StatusProvider of the daemon. `attach` connects it to the handlers once they exist."""

    def __init__(
        self,
        sources: Sequence[str],
        mountpoint: str,
        options: MountOptions,
        *,
        log_text: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._sources = list(sources)
        self._mountpoint = mountpoint
        self._options = options
        self._log_text = log_text
        self._clock = clock
        self._started = clock()
        self._facts: Facts | None = None
        self._more: Callable[[], dict[str, object]] = dict
        self._loop = "none"
        self._loop_reason = ""
        self._makers: dict[str, Callable[[], bytes]] = {
            "pid": self._pid,
            "status": self._status,
            "statistics": self._statistics,
            "log": self._log,
        }

    def attach(
        self, facts: Facts, more: Callable[[], dict[str, object]], loop: str, loop_reason: str
    ) -> None:
        """Set the sources of the statistics, the name of the request loop and the reason for it."""
        self._facts = facts
        self._more = more
        self._loop = loop
        self._loop_reason = loop_reason

    def names(self) -> Sequence[str]:
        """Return the file names, in order."""
        return tuple(self._makers)

    def read(self, name: str) -> bytes:
        """Return a file's bytes as of now. Raises KeyError for an unknown name."""
        return self._makers[name]()

    def _pid(self) -> bytes:
        return b"%d\n" % os.getpid()

    def _log(self) -> bytes:
        if self._options.mask is not None:
            return b"The log may have facts from masked records: --log-file writes it elsewhere.\n"
        return self._log_text().encode("utf-8", "backslashreplace")

    def _statistics(self) -> bytes:
        return pretty_json(self._facts.statistics.facts() if self._facts else {})

    def _status(self) -> bytes:
        options = self._options
        facts: dict[str, Any] = {
            "pid": os.getpid(),
            "sources": self._sources,
            "mountpoint": self._mountpoint,
            "snapshot": options.snapshot,
            "uptimeSeconds": round(self._clock() - self._started, 1),
            "loop": self._loop,
            **process_facts(),
            "options": {
                name: getattr(options, name)
                for name in (
                    "allow_other",
                    "auto_unmount",
                    "values",
                    "schemas",
                    "workers",
                    "max_tasks",
                )
            },
        }
        if self._loop_reason:
            facts["loopReason"] = self._loop_reason
        if self._facts is not None:
            facts["knownInodes"] = self._facts.known_inodes
            facts["openHandles"] = self._facts.open_handles
            facts["busyThreads"] = self._facts.busy_threads
            facts["listsNamesOnly"] = self._facts.lists_names_only
        facts |= self._more()
        return pretty_json(facts)
