"""The tree that the daemon serves: opened log dirs, and their usage and statistics."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from heapq import nlargest
from operator import attrgetter

from engine.clock import SYSTEM_CLOCK
from engine.cut.moment import Moment
from engine.cut.opening import open_at
from engine.errors import SourceError
from engine.log.log_directory import LogSource
from engine.log.segment.problems import ProblemEntry
from kafkafs.fuse.daemon_log import logger
from kafkafs.fuse.source_usage import Usage
from kafkafs.masking.policy import MaskPolicy, require_topics
from kafkafs.mount.mounting import MountOptions
from kafkafs.mount.status import DaemonStatus
from kafkafs.time_grammar import MOMENTS, TimeGrammar
from kafkafs.tree.node import Directory
from kafkafs.tree.tree import Tree, TreeOptions

MOST_FOLLOWED = 100
"""Partitions in the status file: those that were looked at last."""


class LogTree:
    """Opened log dirs and the tree over them."""

    def __init__(self, paths: Sequence[str], options: MountOptions, status: DaemonStatus) -> None:
        """Open the log dirs. Raises SourceError, MaskPolicyError."""
        policy = None if options.mask is None else MaskPolicy(options.mask)
        at = None if options.at is None else _moment(options.at)
        self._source = open_at(
            list(paths),
            at,
            snapshot=options.snapshot,
            cross_device=options.cross_device,
            budgets=options.budgets,
        )
        if policy is not None:
            require_topics(self._source)
        self._tree = Tree(
            self._source,
            options=TreeOptions(
                values=options.values,
                snapshot=options.snapshot,
                budgets=options.budgets,
                schemas=tuple(options.schemas.split(os.pathsep)),
                mask=policy,
                at=at,
            ),
            status=status,
        )

        self._source.watch_silence(logger.warning)

    def root(self) -> Directory:
        """Return the folder at the mountpoint."""
        return self._tree.root()

    def usage(self) -> Usage:
        """Return the sums over the file systems that hold the log dirs."""
        systems = {root.stat().st_dev: root.statvfs() for root in self._source.roots}.values()
        return Usage(
            size=sum(system.f_blocks * system.f_frsize for system in systems),
            free=sum(system.f_bfree * system.f_frsize for system in systems),
            available=sum(system.f_bavail * system.f_frsize for system in systems),
            files=sum(system.f_files for system in systems),
            free_files=sum(system.f_ffree for system in systems),
        )

    def rescan(self) -> None:
        """List the source again now."""
        self._source.partitions(max_age=0.0)

    def facts(self) -> dict[str, object]:
        """Return statistics for the status file."""
        context = self._tree.context
        return {
            "partitions": len(self._source.partitions()),
            "nodes": list(self._source.nodes),
            "brokerPid": self._source.broker_pid,
            "cachedBytes": context.chunks.bytes,
            "cacheHits": context.chunks.hits,
            "cacheMisses": context.chunks.misses,
            "streams": len(context.streams),
            "followed": list(followed_partitions(self._source)),
        }

    def problems(self) -> Sequence[ProblemEntry]:
        """Return the problems found so far, without what a mask hides."""
        return self._tree.context.problems

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def _moment(text: str) -> Moment:
    found = TimeGrammar(SYSTEM_CLOCK.now_ms()).moment(text)
    if found is None:
        raise SourceError(f"mount option at cannot be {text!r}: {MOMENTS}")
    return found


def followed_partitions(source: LogSource) -> Iterator[dict[str, object]]:
    """Yield the live partitions that were looked at last, with how far their last look is behind their files."""
    for log in nlargest(MOST_FOLLOWED, source.partitions().values(), key=attrgetter("looked_at")):
        lag = log.lag()
        if lag is not None:
            yield {
                "partition": log.name,
                "logEndOffset": lag.log_end_offset,
                "unreadBytes": lag.unread_bytes,
                "secondsSinceLook": round(lag.seconds, 1),
            }
