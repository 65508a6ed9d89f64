"""Logs of several log dirs, by partition: current and future ones."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from engine.broker.log.unified_log import UnifiedLog
from engine.errors import StateError
from engine.files.file_names import FolderState, parse_folder_name
from engine.units import TopicPartition


class LogRegistry:
    """Logs of a broker. Safe from several threads: each change is one atomic change of a dict.

    Attributes:
        current: logs that are read and written.
        future: copies in another log dir that are catching up.
        stray: logs that do not belong here, set aside.
        lock: held while a log is created, removed or replaced.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.current: dict[TopicPartition, UnifiedLog] = {}
        self.future: dict[TopicPartition, UnifiedLog] = {}
        self.stray: dict[TopicPartition, UnifiedLog] = {}

    def logs(self, *, is_future: bool) -> dict[TopicPartition, UnifiedLog]:
        """Return the future or the current logs."""
        return self.future if is_future else self.current

    def get(self, topic_partition: TopicPartition, *, is_future: bool = False) -> UnifiedLog | None:
        """Return the log of a partition, None without one."""
        return self.logs(is_future=is_future).get(topic_partition)

    @property
    def all(self) -> list[UnifiedLog]:
        """Current and future logs."""
        return [*self.current.values(), *self.future.values()]

    def in_dir(self, log_dir: str) -> list[UnifiedLog]:
        """Return the current and future logs of a log dir."""
        return [each for each in self.all if each.parent_dir == log_dir]

    def of_topic(self, topic: str) -> list[UnifiedLog]:
        """Return the current and future logs of a topic."""
        return [each for each in self.all if each.topic_partition.topic == topic]

    def add_loaded(self, log: UnifiedLog) -> None:
        """Add a loaded log.

        Raises:
            StateError: the partition has a log already, in this log dir or another.
        """
        known = self.logs(is_future=log.log_folder.is_future).setdefault(log.topic_partition, log)
        if known is not log:
            raise StateError(
                f"{log.topic_partition} is in {log.folder} and in {known.folder}: a log dir failed while a"
                " future log replaced the current one; delete the folder in the failed log dir"
            )

    def remove_dir(self, log_dir: str) -> list[UnifiedLog]:
        """Remove and return the logs of a log dir."""
        removed = []
        for logs in (self.current, self.future):
            for partition, log in [*logs.items()]:
                if log.parent_dir == log_dir:
                    removed.append(log)
                    logs.pop(partition, None)
        return removed


def folder_state(log: UnifiedLog) -> FolderState:
    """Return the state in the name of a log's folder."""
    return parse_folder_name(os.path.basename(log.folder)).state


def is_stray_replica(
    log: UnifiedLog, broker_id: int, replicas: Mapping[tuple[str, int], list[int]]
) -> bool:
    """Return whether a log is not assigned to this broker.

    Args:
        log: log of any topic; without a topic id it is stray.
        broker_id: id of this broker.
        replicas: broker ids by topic id and partition number.
    """
    if log.topic_id is None:
        return True
    return broker_id not in replicas.get((log.topic_id, log.topic_partition.partition), [])
