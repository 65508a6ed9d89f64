"""What a broker makes of a future log: the copy of a log that is being moved into another log dir.

See LogManager.recoverAbandonedFutureLogs in Kafka: when the cluster assigns the partition to the future log's dir,
the future log becomes the log, and the current one is deleted. Else the move goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from engine.files.file_names import FolderState, folder_name
from engine.plan.log_dir_plan import LogFolder
from engine.replay.cluster import ClusterImage
from engine.units import TopicPartition


class Place(NamedTuple):
    """A log's folder: its log dir's path, and its name."""

    log_dir: str
    folder: str


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A folder of a log dir, with what is needed to tell what comes of a future log.

    Attributes:
        place: where it is.
        log: whose it is, by its name.
        topic_id: as partition.metadata has it; None without a readable one.
        is_stray: whether the broker sets it aside.
    """

    place: Place
    log: LogFolder
    topic_id: str | None
    is_stray: bool = False


class FutureFate(Enum):
    """What becomes of a future log.

    BECOMES_LOG: it takes the place of the current log, if there is one.
    STOPS_BROKER: it would, but the current log's folder is in the same log dir.
    MOVES_ON: the broker goes on with the move.
    FOLLOWS_NEW: there is no current log: the broker makes an empty one, and cuts the future log to it.
    UNKNOWN: the log dirs do not tell which directory the cluster assigns.
    """

    BECOMES_LOG = "becomes-log"
    STOPS_BROKER = "stops-broker"
    MOVES_ON = "moves-on"
    FOLLOWS_NEW = "follows-new"
    UNKNOWN = "unknown"


class FutureLog(NamedTuple):
    """A future log's fate, and the current log of the partition, if there is one."""

    place: Place
    fate: FutureFate
    current: Place | None = None


class FutureLogs:
    """The future logs of a broker's log dirs.

    Args:
        found: all logs.
        cluster: what the metadata log says; None when it is not there, or is not believed.
        node_id: of the broker.
        directory_ids: of the log dirs, by path.
        promotes: whether the release makes a future log the log at the start.
    """

    def __init__(
        self,
        found: Iterable[FoundLog],
        cluster: ClusterImage | None,
        node_id: int | None,
        directory_ids: Mapping[str, str],
        *,
        promotes: bool,
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._directory_ids = directory_ids
        self._promotes = promotes
        live = [each for each in found if not each.is_stray]
        self._current: dict[TopicPartition, FoundLog] = {
            each.log.partition: each for each in live if each.log.state is FolderState.LOG
        }
        self._names = {each.place for each in live}
        self.by_place: dict[Place, FutureLog] = {
            each.place: self._fate_of(each) for each in live if each.log.state is FolderState.FUTURE
        }
        self.replaced_by: dict[Place, FutureLog] = {
            each.current: each
            for each in self.by_place.values()
            if each.fate is FutureFate.BECOMES_LOG and each.current is not None
        }

    def _fate_of(self, future: FoundLog) -> FutureLog:
        partition, place = future.log.partition, future.place
        current = self._current.get(partition)
        at = None if current is None else current.place
        if self._promotes and self._cluster is None:
            return FutureLog(place, FutureFate.UNKNOWN, at)
        if not self._promotes or not self._is_assigned(future):
            return FutureLog(
                place, FutureFate.FOLLOWS_NEW if at is None else FutureFate.MOVES_ON, at
            )
        if Place(place.log_dir, folder_name(partition)) in self._names:
            return FutureLog(place, FutureFate.STOPS_BROKER, at)
        is_same = current is not None and current.topic_id == future.topic_id
        return FutureLog(place, FutureFate.BECOMES_LOG, at if is_same else None)

    def _is_assigned(self, future: FoundLog) -> bool:
        """Whether the cluster assigns the partition to the log dir that the future log is in."""
        directory_id = self._directory_ids.get(future.place.log_dir)
        if self._cluster is None or future.topic_id is None or directory_id is None:
            return False
        item = self._cluster.partitions_of(future.topic_id).get(future.log.partition.partition)
        if item is None:
            return False
        assigned = dict(zip(item.facts["replicas"], item.facts["directories"], strict=False))
        return bool(assigned.get(self._node_id) == directory_id)
