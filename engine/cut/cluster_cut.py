"""The cut of a cluster at a moment: an end for each log, the transactions that are in, the metadata of then.

Ends are worked out when a log is first asked for, from its time index and what was written around the moment. Other logs
are read there too if a transaction has its end on both sides of the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from threading import RLock
from typing import Any, NamedTuple

from engine.cut.coordinators import committed, prepared
from engine.cut.decisions import Decided, Decisions
from engine.cut.folders_then import FoldersThen
from engine.cut.moment import METADATA, FoundMoment, Moment, found
from engine.cut.tail import Tail, tail_of
from engine.errors import KafkaStorageError
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog, Placed
from engine.log.view.cut_view import cut_view
from engine.log.view.log_view import LogView
from engine.record.fate import Fate
from engine.replay.cluster import ClusterImage, image_of
from engine.topics.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from engine.units import Offset, Timestamp, TopicPartition

Open = Callable[[FoldersThen], LogSource]
"""Opens the whole source with the folders of a moment."""


class CutEnd(NamedTuple):
    """Where a log ends.

    Attributes:
        offset: the end.
        evidence: what it is known by, in words.
        ended: fates of the transactions whose end is cut off, by producer id; others are aborted.
        gone: what compaction or retention took since, in words; None for nothing known.
        time: the moment in milliseconds.
    """

    offset: Offset
    evidence: str
    ended: Mapping[int, Fate]
    gone: str | None
    time: Timestamp


class ClusterCut:
    """A cluster as of a moment; the `cut` of its LogSource. Thread-safe.

    Args:
        whole: opens the source as it is now, with the folders of the moment.
        moment: the moment.

    Attributes:
        time: the moment in milliseconds; records up to it are in, as far as clocks tell.

    Raises:
        MomentError: the source does not have what names the moment.
        SourceError, OSError: it cannot be read.
    """

    def __init__(self, whole: Open, moment: Moment) -> None:
        self._folders = FoldersThen()
        self._lock = RLock()
        self._tails: dict[PartitionLog, Tail] = {}
        self._ends: dict[TopicPartition, CutEnd] = {}
        self._source = whole(self._folders)
        try:
            self._found: FoundMoment = found(moment, self._source)
            self.time: Timestamp = self._found.time
            self._place()
        except BaseException:
            self._source.close()
            raise

    def _place(self) -> None:
        """Find the topics of the moment in the metadata, and take their folders."""
        log = self._source.partitions().get(str(METADATA))
        view = None if log is None else log.view_or_none()
        if log is None or view is None:
            return
        then: ClusterImage | None = image_of(self.view(log, view))
        if then is not None and (then.missing is not None or not then.newest_offset + 1):
            then = None
        if then is not None:
            self._folders.place(then, image_of(view))
            self._source.list_again()

    @property
    def folders(self) -> FoldersThen:
        """Which folders were the logs of topics."""
        return self._folders

    def close(self) -> None:
        """Close the source that the ends are read from."""
        self._source.close()

    def placed(self, root: SourceRoot, found: Placed) -> Placed | None:
        """Return the folder of a partition as it was; None if it was not the log of a topic."""
        return self._folders.placed(root, found)

    def view(self, log: PartitionLog, whole: LogView) -> LogView:
        """Return a log up to its end. Raises OSError, UnsupportedCodecError."""
        end = self.end_of(log.topic_partition)
        return whole if end is None else cut_view(whole, end.offset, end.ended)

    def end_of(self, partition: TopicPartition) -> CutEnd | None:
        """Return the end of a log; None if the source does not have it. Raises OSError, UnsupportedCodecError."""
        with self._lock:
            known = self._ends.get(partition)
            if known is None:
                log = self._source.partitions().get(str(partition)) or next(
                    (
                        each
                        for each in self._source.partitions().values()
                        if each.topic_partition == partition
                    ),
                    None,
                )
                if log is None:
                    return None
                known = self._ends[partition] = self._end(log)
            return known

    def ends(self) -> Iterator[tuple[PartitionLog, CutEnd]]:
        """Yield all logs of the source with their ends, by name. Raises OSError, UnsupportedCodecError."""
        for log in self._source.partitions().values():
            if log.view_or_none() is not None and (end := self.end_of(log.topic_partition)):
                yield log, end

    @property
    def decided(self) -> list[Decided]:
        """The transactions that are in, and have an end that is cut off in some partition."""
        return self._decisions.decided

    @property
    def skew(self) -> int:
        """Largest difference between clocks that was seen around the moment, in milliseconds."""
        apart = [each.last - each.first for each in self._decisions.decided]
        return max([*(each.skew for each in self._tails.values()), *apart, 0])

    def _end(self, log: PartitionLog) -> CutEnd:
        tail = self._tail(log)
        floor = self._floor(log, tail)
        end, evidence = max(tail.end, floor), tail.evidence
        if floor > tail.end:
            evidence = f"a group had committed offset {floor}"
        ended: Mapping[int, Fate] = {}
        if tail.straddles(end) and log.topic_partition != METADATA:
            decisions = self._decisions
            ended = decisions.ended.get(log, {})
            if decisions.ends[log] > end:
                end = decisions.ends[log]
                evidence = "it has the data of a transaction that had ended elsewhere"
        return CutEnd(end, evidence, ended, _gone(log, end), self.time)

    def _tail(self, log: PartitionLog) -> Tail:
        known = self._tails.get(log)
        if known is None:
            pinned = self._found.pinned
            own = pinned[1] if pinned is not None and pinned[0] == log.topic_partition else None
            known = self._tails[log] = tail_of(log.view(), self.time, own)
        return known

    def _floor(self, log: PartitionLog, tail: Tail) -> Offset:
        """Return how far groups had committed; a log ends behind the batch that holds the record before that."""
        floor = min(self._floors.get(log.topic_partition, 0), tail.log_end)
        held = log.view().batch(floor - 1) if floor > tail.end else None
        return floor if held is None else max(floor, int(held[1].table["last_offset"][0]) + 1)

    def _views(self, topic: str) -> list[LogView]:
        logs = self._source.partitions().values()
        views = [each.view_or_none() for each in logs if each.topic_partition.topic == topic]
        return [each for each in views if each is not None]

    @cached_property
    def _floors(self) -> Mapping[TopicPartition, Offset]:
        return committed(self._views(CONSUMER_OFFSETS), self.time)

    @cached_property
    def _decisions(self) -> Decisions:
        tails: dict[PartitionLog, Tail] = {}
        floors: dict[PartitionLog, Offset] = {}
        for log in self._source.partitions().values():
            if log.topic_partition != METADATA and log.view_or_none() is not None:
                tails[log] = self._tail(log)
                floors[log] = self._floor(log, tails[log])
        return Decisions(tails, floors, prepared(self._views(TRANSACTION_STATE), self.time))

    def facts(self, takes: Callable[[PartitionLog], bool] = lambda _: True) -> dict[str, Any]:
        """Return the cut with the evidence of the ends of some logs, as a JSON object.

        Raises OSError, UnsupportedCodecError.
        """
        logs = [
            {
                "topic": log.topic_partition.topic,
                "partition": log.topic_partition.partition,
                "end": end.offset,
                "logEnd": self._tail(log).log_end,
                "evidence": end.evidence,
                "gone": end.gone,
            }
            for log, end in self.ends()
            if takes(log)
        ]
        return {
            "time": self.time,
            "partitions": logs,
            "transactions": [
                {
                    "producerId": each.producer_id,
                    "markerEpoch": each.marker_epoch,
                    "end": "COMMIT" if each.fate is Fate.COMMITTED else "ABORT",
                    "evidence": each.evidence,
                }
                for each in self.decided
            ],
            "skewMs": self.skew,
            "hasMetadata": self._folders.has_metadata,
        }


def _gone(log: PartitionLog, end: Offset) -> str | None:
    """Return what of a log's beginning is not there any more, in words; None for nothing."""
    try:
        start = log.view().log_start_offset
    except (KafkaStorageError, OSError):
        return None
    cleaned = log.checkpoints.cleaner_offset(log.topic_partition)
    if start >= end and start > 0:
        return f"all of it: the log starts at offset {start} now"
    if cleaned is not None and cleaned > end:
        return f"values that keys had then: it is compacted up to offset {cleaned}"
    return f"offsets below {start}, perhaps before that moment" if start > 0 else None
