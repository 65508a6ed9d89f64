"""The logs of several log dirs, by partition: current ones, and those that are to take their place."""

from __future__ import annotations

import os
from collections.abc import Mapping

from engine.errors import StateError
from engine.files.file_names import FolderState, parse_folder_name
from engine.units import TopicPartition
from engine.writing.log.unified_log import UnifiedLog


class LogRegistry:
    """Which logs there are. Threads may share it: each change is one step of a dict.

    Attributes:
        current: what is read and written.
        future: copies in another log dir that are still catching up.
        stray: logs that do not belong here, set aside.
    """

    def __init__(self) -> None:
        self.current: dict[TopicPartition, UnifiedLog] = {}
        self.future: dict[TopicPartition, UnifiedLog] = {}
        self.stray: dict[TopicPartition, UnifiedLog] = {}

    def logs(self, *, is_future: bool) -> dict[TopicPartition, UnifiedLog]:
        """Return the future ones, or the current ones."""
        return self.future if is_future else self.current

    @property
    def all(self) -> list[UnifiedLog]:
        """Current and future logs."""
        return [*self.current.values(), *self.future.values()]

    def in_dir(self, log_dir: str) -> list[UnifiedLog]:
        """Current and future logs of a log dir."""
        return [each for each in self.all if each.parent_dir == log_dir]

    def of_topic(self, topic: str) -> list[UnifiedLog]:
        """Current and future logs of a topic."""
        return [each for each in self.all if each.topic_partition.topic == topic]

    def add_loaded(self, log: UnifiedLog) -> None:
        """Take in a log that was found.

        Raises:
            StateError: there is one of this partition already, in this log dir or another.
        """
        known = self.logs(is_future=log.is_future).setdefault(log.topic_partition, log)
        if known is not log:
            raise StateError(
                f"{log.topic_partition} is in {log.folder} and in {known.folder}: a log dir failed while one"
                " was to take the other's place; delete that of the log dir that failed"
            )

    def remove_dir(self, log_dir: str) -> list[UnifiedLog]:
        """Take out the logs of a log dir; which they were."""
        removed = []
        for logs in (self.current, self.future):
            for partition, log in [*logs.items()]:
                if log.parent_dir == log_dir:
                    removed.append(log)
                    logs.pop(partition, None)
        return removed


def folder_state(log: UnifiedLog) -> FolderState:
    """What the name of a log's folder says of it."""
    return parse_folder_name(os.path.basename(log.folder)).state


def is_stray_replica(
    log: UnifiedLog, broker_id: int, replicas: Mapping[tuple[str, int], list[int]]
) -> bool:
    """Return whether a log is not one of this broker's, in a cluster of brokers.

    Args:
        log: of any topic; one without a topic id is stray.
        broker_id: of this broker.
        replicas: brokers by topic id and partition number.
    """
    if log.topic_id is None:
        return True
    return broker_id not in replicas.get((log.topic_id, log.topic_partition.partition), [])
