"""Partitions that a query follows, refreshed at each trigger.

The source stays open between triggers: an unchanged log costs two system calls, a grown one a read of the new bytes.
A partition can be missing for a moment while a broker renames folders, and a file server can show an older state:
apparent losses are looked at again before they count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import sleep
from typing import NamedTuple

from engine.log.log_directory import LogSource
from engine.log.partition_log import MAX_AGE
from engine.log.view.log_contents import LogContext
from engine.log.view.log_view import LogView
from engine.units import TopicPartition
from kafkafs.spark.source.options.partition_choice import choose
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.options.source_paths import open_paths
from kafkafs.spark.source.planning.offset_ranges import log_end
from kafkafs.spark.streaming.stream_offsets import StreamOffsets, TopicIds

ATTEMPTS = 4
PAUSE = 0.4
"""Seconds between attempts."""


class _Topic(NamedTuple):
    """Topic id of a partition, with the state of its files when the id was read."""

    log: LogContext
    rewrites: int
    id: str


class FollowedLogs:
    """Logs of one query; for one thread.

    Args:
        options: options of the query.
        wait: waits for some seconds between attempts.
    """

    def __init__(self, options: ReadOptions, wait: Callable[[float], None] = sleep) -> None:
        self._options = options
        self._wait = wait
        self._source: LogSource | None = None
        self._identities: list[tuple[int, int]] = []
        self._topics: dict[TopicPartition, _Topic] = {}

    def close(self) -> None:
        """Close the source; the next look opens it again."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def first_look(self) -> dict[TopicPartition, LogView]:
        """Return views of the chosen partitions.

        Raises:
            OptionError: a named topic does not exist.
            SourceError: a path does not exist, or is not Kafka's.
        """
        return self._look(MAX_AGE, must_exist=True)

    def look(self, expected: StreamOffsets) -> dict[TopicPartition, LogView]:
        """Return views of the chosen partitions; look a few times until they reach the expected offsets.

        Args:
            expected: offsets that the logs are known to have reached.

        Raises:
            SourceError: as for `first_look`.
        """
        found = self._look(MAX_AGE)
        for _ in range(ATTEMPTS - 1):
            if self._is_all_there(found, expected):
                break
            self._wait(PAUSE)
            found = self._look(0)
        return found

    def topic_ids(self, views: Mapping[TopicPartition, LogView]) -> TopicIds:
        """Return the topic ids of partitions that have one in partition.metadata."""
        for partition, view in views.items():
            known = self._topics.get(partition)
            if known is None or known.log is not view.log or known.rewrites != view.rewrites:
                self._topics.pop(partition, None)
                if view.topic_id is not None:
                    self._topics[partition] = _Topic(view.log, view.rewrites, view.topic_id)
        return {each: self._topics[each].id for each in views if each in self._topics}

    def _is_all_there(self, found: dict[TopicPartition, LogView], expected: StreamOffsets) -> bool:
        return all(
            partition in found and log_end(found[partition], self._options) >= offset
            for partition, offset in expected.items()
        )

    def _look(self, max_age: float, *, must_exist: bool = False) -> dict[TopicPartition, LogView]:
        options = self._options
        logs = choose(
            self._opened().partitions(max_age),
            options.choice,
            internal=options.internal,
            must_exist=must_exist,
        )
        found = {}
        for partition, log in logs.items():
            try:
                found[partition] = log.view(max_age)
            except FileNotFoundError:  # its folder was renamed or removed after the listing
                continue
        return found

    def _opened(self) -> LogSource:
        """Return the source; reopen it when another folder is at its path, as after a new snapshot."""
        if self._source is not None and self._identities_now() != self._identities:
            self.close()
        if self._source is None:
            self._source = open_paths(self._options.paths)
            self._identities = self._identities_now()
        return self._source

    def _identities_now(self) -> list[tuple[int, int]]:
        assert self._source is not None
        found = []
        for root in self._source.roots:
            try:
                status = os.stat(root.local)
            except OSError:
                continue
            found.append((status.st_dev, status.st_ino))
        return found
