"""The partitions of a source's internal topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.topics.topic_names import KAFKA_TOPICS


class InternalLogs:
    """Partitions of a source's internal topics. Thread-safe."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._known: tuple[object, Mapping[str, Sequence[PartitionLog]]] = None, {}

    @classmethod
    def of_source(cls, source: LogSource | InternalLogs) -> InternalLogs:
        """Return the internal topics of a source, or the given ones themselves."""
        return source if isinstance(source, InternalLogs) else cls(source)

    def of(self, topic: str) -> Sequence[PartitionLog]:
        """Return the partitions of a topic, by number, without second copies or folders that are not the log."""
        logs = self._source.partitions()
        seen, found = self._known
        if seen is not logs:
            found = _sorted_out(logs)
            self._known = logs, found
        return found.get(topic, ())


def _sorted_out(logs: Mapping[str, PartitionLog]) -> Mapping[str, Sequence[PartitionLog]]:
    """Group the partitions of internal topics, by topic and number."""
    found: dict[str, list[PartitionLog]] = {}
    for name, log in logs.items():
        topic = log.topic_partition.topic
        if topic in KAFKA_TOPICS and name == str(log.topic_partition):
            found.setdefault(topic, []).append(log)
    for partitions in found.values():
        partitions.sort(key=lambda log: log.topic_partition.partition)
    return found
