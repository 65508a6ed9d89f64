"""Choose the log dir of a new log."""

from __future__ import annotations

import os
from collections.abc import Sequence

from engine.broker.log_dirs.log_dir_set import LogDirSet
from engine.broker.log_dirs.log_loading import report
from engine.broker.log_dirs.log_registry import LogRegistry
from engine.disk.disk import StrPath
from engine.errors import LogDirFailureError, StateError
from engine.units import TopicPartition
from engine.writing.log_folder import log_dir_name, log_future_dir_name


class LogPlacement:
    """Log dirs for new logs: the preferred one, or the one with the fewest logs.

    Attributes:
        preferred: log dir of a partition's next log.
    """

    def __init__(self, dirs: LogDirSet, registry: LogRegistry) -> None:
        self.preferred: dict[TopicPartition, str] = {}
        self._dirs = dirs
        self._registry = registry

    def prefer(self, topic_partition: TopicPartition, path: StrPath) -> None:
        """Choose the log dir of a partition's next log; do nothing if the partition has a log there."""
        path = os.path.abspath(path)
        logs = [self._registry.get(topic_partition, is_future=each) for each in (False, True)]
        if not any(each is not None and each.parent_dir == path for each in logs):
            self.preferred[topic_partition] = path

    def make_folder(
        self,
        partition: TopicPartition,
        *,
        is_new: bool,
        is_future: bool,
        directory_id: str | None,
    ) -> str:
        """Create the folder of a new log; return its path.

        Args:
            partition: partition of the log.
            is_new: whether the partition certainly has no log, not even in an offline log dir.
            is_future: whether the log is a future log, which needs a preferred log dir.
            directory_id: id of a log dir, if none is preferred.

        Raises:
            LogDirFailureError: the log may be in an offline log dir, or no log dir is usable.
            StateError: a future log has no preferred log dir, or it is that of the current log.
            ValueError: the preferred log dir is unknown.
        """
        offline = self._dirs.offline
        if offline and not is_new:
            raise LogDirFailureError(
                f"the log of {partition} may be in a log dir that is offline: {offline}", offline[0]
            )
        preferred = self.preferred.get(partition)
        if preferred is None and directory_id is not None:
            paths = {each: path for path, each in self._dirs.directory_ids.items()}
            preferred = paths.get(directory_id)
        if is_future:
            self._check_future(partition, preferred)
        name = log_future_dir_name(partition) if is_future else log_dir_name(partition)
        return self._make([preferred] if preferred else self._emptiest(), name)

    def _check_future(self, partition: TopicPartition, preferred: str | None) -> None:
        if preferred is None:
            raise StateError(f"a future log of {partition} needs a log dir that is preferred")
        current = self._registry.get(partition)
        if current is None or current.parent_dir == preferred:
            raise StateError(f"a future log of {partition} needs a current one in another log dir")

    def _make(self, paths: Sequence[str], name: str) -> str:
        for path in paths:
            if not self._dirs.is_online(path):
                continue
            try:
                return self._dirs.live[path].make_log_folder(name)
            except OSError as error:
                report(self._dirs.channel, path, f"cannot make {name}", error)
        where = paths or self._dirs.paths
        raise LogDirFailureError(f"no log dir can take {name}: tried {where}", where[0])

    def _emptiest(self) -> list[str]:
        """Return the usable log dirs, the one with the fewest logs first."""
        counts = dict.fromkeys(self._dirs.live, 0)
        for each in self._registry.all:
            if each.parent_dir in counts:
                counts[each.parent_dir] += 1
        return sorted(counts, key=lambda path: counts[path])
