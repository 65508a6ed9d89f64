"""Parts of a writable log, and the lock under which they change."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from engine.broker.log.local_log import LocalLog
from engine.broker.log.topic_identity import TopicIdentity
from engine.broker.log.watermarks import Watermarks
from engine.errors import StateError
from engine.units import Offset
from engine.writing.log.producer_rebuild import delete_producer_snapshots
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager


class LogState:
    """Segments, leader epochs, producers and watermarks of a log: a change of one is followed by the others.

    Attributes:
        folder: folder, configuration, scheduler, clock and disk of the log.
        local_log: segments.
        leader_epoch_cache: leader epochs; another object after the folder was renamed.
        producer_state: state of the producers.
        watermarks: offsets that bound what readers see.
        topic_identity: topic id.
        lock: held by every change of the log.
        is_closed: whether the log was closed.
    """

    def __init__(
        self,
        local_log: LocalLog,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state: ProducerStateManager,
        log_start_offset: Offset,
        topic_id: str | None,
    ) -> None:
        self.lock = threading.RLock()
        self.folder = local_log.folder
        self.local_log = local_log
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state = producer_state
        self.watermarks = Watermarks(local_log, producer_state, log_start_offset, self.lock)
        self.watermarks.move_log_start(max(log_start_offset, self.segments[0].base_offset))
        self.watermarks.refresh_first_unstable()
        self.topic_identity = TopicIdentity(self.folder, topic_id)
        self.is_closed = False

    @property
    def segments(self) -> list[WritableSegment]:
        """All segments, the oldest first."""
        with self.lock:
            return list(self.local_log.segments)

    def ensure_open(self) -> None:
        """Raise StateError if the log was closed."""
        if self.is_closed:
            raise StateError(f"the log of {self.folder.topic_partition} is closed")
        if self.local_log.is_closed:
            self.local_log.ensure_open()

    @contextmanager
    def changing(self, what: str) -> Iterator[None]:
        """Hold the lock of an open log. An OSError takes the log dir offline; see `WritableLogFolder.reporting`."""
        with self.folder.reporting(what), self.lock:
            self.ensure_open()
            yield

    def delete_producer_snapshots(self, segments: Iterable[WritableSegment]) -> None:
        """Delete the producer snapshots of segments after file.delete.delay.ms."""
        offsets = [segment.base_offset for segment in segments]
        delete_producer_snapshots(self.producer_state, offsets, self.folder)
