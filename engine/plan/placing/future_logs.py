"""The fate of future logs: copies of logs that are being moved to another log dir.

See LogManager.recoverAbandonedFutureLogs in Kafka: when the cluster assigns the partition to the future log's log
dir, the future log becomes the log, and the current one is deleted. Otherwise the move continues.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from engine.files.file_names import FolderState, folder_name
from engine.plan.log_dir_plan import LogFolder
from engine.plan.placing.assignments import Assignments
from engine.units import TopicPartition


class Place(NamedTuple):
    """A log's folder: the path of its log dir, and its name."""

    log_dir: str
    folder: str


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log's folder, and the facts that decide the fate of a future log.

    Attributes:
        place: log dir and folder.
        log: partition and state by the folder's name.
        topic_id: topic id in partition.metadata; None without a readable one.
        is_stray: whether the broker sets the log aside as stray.
    """

    place: Place
    log: LogFolder
    topic_id: str | None
    is_stray: bool = False


class FutureFate(Enum):
    """Fate of a future log.

    BECOMES_LOG: it replaces the current log, if there is one.
    STOPS_BROKER: it would replace the current log, but that is in the same log dir.
    MOVES_ON: the broker continues the move.
    FOLLOWS_NEW: there is no current log: the broker creates an empty one, and truncates the future log to it.
    UNKNOWN: the log dirs do not show the assigned directory.
    """

    BECOMES_LOG = "becomes-log"
    STOPS_BROKER = "stops-broker"
    MOVES_ON = "moves-on"
    FOLLOWS_NEW = "follows-new"
    UNKNOWN = "unknown"


class FutureLog(NamedTuple):
    """Fate of a future log, and the current log of its partition; None if there is none."""

    place: Place
    fate: FutureFate
    current: Place | None = None


class FutureLogs:
    """Future logs in a broker's log dirs.

    Args:
        found: all logs.
        assignments: the cluster's assignments.

    Attributes:
        by_place: future logs by their folders.
        replaced_by: future logs that replace the current log, by its folder.
    """

    def __init__(self, found: Iterable[FoundLog], assignments: Assignments) -> None:
        self._assignments = assignments
        live = [each for each in found if not each.is_stray]
        self._current: dict[TopicPartition, FoundLog] = {
            each.log.partition: each for each in live if each.log.state is FolderState.LOG
        }
        self._places = {each.place for each in live}
        self.by_place: dict[Place, FutureLog] = {
            each.place: self._fate_of(each) for each in live if each.log.state is FolderState.FUTURE
        }
        self.replaced_by: dict[Place, FutureLog] = {
            each.current: each
            for each in self.by_place.values()
            if each.fate is FutureFate.BECOMES_LOG and each.current is not None
        }

    def _fate_of(self, future: FoundLog) -> FutureLog:
        assignments, partition, place = self._assignments, future.log.partition, future.place
        current = self._current.get(partition)
        at = None if current is None else current.place
        if assignments.are_enforced and assignments.cluster is None:
            return FutureLog(place, FutureFate.UNKNOWN, at)
        if not assignments.are_enforced or not assignments.include(
            place.log_dir, future.topic_id, partition
        ):
            fate = FutureFate.FOLLOWS_NEW if at is None else FutureFate.MOVES_ON
            return FutureLog(place, fate, at)
        if Place(place.log_dir, folder_name(partition)) in self._places:
            return FutureLog(place, FutureFate.STOPS_BROKER, at)
        is_same = current is not None and current.topic_id == future.topic_id
        return FutureLog(place, FutureFate.BECOMES_LOG, at if is_same else None)
