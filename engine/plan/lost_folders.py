"""Find the partitions that the cluster assigns to a broker and no folder holds: it makes them anew, from offset 0 on.

See Partition.createLogInAssignedDirectoryId and LogManager.getOrCreateLog in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.checkpoint.base64_uuid import RESERVED_DIRECTORY_IDS
from engine.files.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FolderState,
    folder_name,
)
from engine.plan.assignments import Assignments
from engine.plan.future_logs import FoundLog, FutureFate, FutureLog, Place
from engine.plan.log_dir_plan import LogDirPlan
from engine.replay.cluster_tables import Item
from engine.units import Offset, TopicPartition
from engine.verdict.loss import Loss, LossKind

_CHECKPOINTS_MS = 10_000
"""Twice the time between two writes of the high watermarks: a partition older than that is in the checkpoint."""


@dataclass(frozen=True, slots=True)
class LostFolder:
    """A partition that the cluster assigns to this broker, and no folder of the log dirs holds.

    Attributes:
        partition, topic_id: the partition.
        log_dir: the log dir that the cluster assigns; None if none of them has that directory id.
        directory_id: directory id that the cluster assigns; None if it has none.
        other_replicas: the other brokers that the cluster assigns it to.
        start, end: offsets that it held before, as far as checkpoints state them; None if none does.
        proofs: what states the end, in words.
        stray: name of the folder that is set aside as stray; None if there is no folder.
        is_new: whether it may have been created too late for a checkpoint to name it.
        was_clean: whether the log dir was closed cleanly, so that its checkpoints state the last end.
    """

    partition: TopicPartition
    topic_id: str
    log_dir: str | None
    directory_id: str | None
    other_replicas: tuple[int, ...] = ()
    start: Offset = 0
    end: Offset | None = None
    proofs: tuple[str, ...] = ()
    stray: str | None = None
    is_new: bool = False
    was_clean: bool = False

    @property
    def name(self) -> str:
        """Name of the folder that is missing."""
        return folder_name(self.partition)

    @property
    def lost_offsets(self) -> int:
        """Number of offsets that it is known to have held."""
        return 0 if self.end is None else max(0, self.end - self.start)

    @property
    def is_harmless(self) -> bool:
        """Whether the partition had no records, as far as a log dir shows that."""
        if self.end is None:
            return self.is_new
        return self.end == self.start and self.was_clean

    def loss(self) -> Loss:
        """Return the partition as a loss."""
        return Loss(
            partition=self.name,
            kind=LossKind.PARTITION,
            first_offset=None if self.end is None else self.start,
            next_offset=self.end,
            file="",
            reason="; ".join(self.sentences()),
            is_certain=self.end is not None and not self.other_replicas,
        )

    def sentences(self) -> Iterator[str]:
        """Yield what becomes of the partition, and what it held."""
        where = self.log_dir or "one of the log dirs"
        gone = "there is no folder of it" if self.stray is None else f"{self.stray} becomes stray"
        yield f"{gone}, and the broker makes an empty one in {where}"
        if self.log_dir is None and self.directory_id is not None:
            yield (
                f"the cluster assigns it to the log dir with the directory.id {self.directory_id}, which is none of"
                " these: if there is such a log dir, name it, too"
            )
        if self.end is not None:
            yield f"it held offsets {self.start} to {self.end} ({', '.join(self.proofs)})"
        elif self.is_new:
            yield "it was created in the last seconds before the metadata log ends, and no checkpoint names it"
        else:
            yield "no checkpoint here states which offsets it held"
        if self.other_replicas:
            nodes = ", ".join(map(str, self.other_replicas))
            yield (
                f"if another replica ({nodes}) leads it, this broker fetches it again; if this broker does, it gives"
                " offset 0 again and the others cut their logs"
            )
        else:
            yield "there is no other replica: the broker gives offset 0 again"


class _Stated:
    """What the checkpoints of all log dirs state of partitions."""

    def __init__(self, log_dirs: Sequence[LogDirPlan]) -> None:
        self._log_dirs = log_dirs

    def start(self, partition: TopicPartition) -> Offset:
        return max((each.log_starts.get(partition, 0) for each in self._log_dirs), default=0)

    def ends(self, partition: TopicPartition) -> Iterator[tuple[Offset, str]]:
        """Yield the stated ends."""
        for each in self._log_dirs:
            for offsets, name in (
                (each.high_watermarks, REPLICATION_OFFSET_CHECKPOINT),
                (each.recovery_points, RECOVERY_POINT_CHECKPOINT),
                (each.cleaned, CLEANER_OFFSET_CHECKPOINT),
            ):
                if partition in offsets:
                    yield offsets[partition], f"{name} says {offsets[partition]}"


def lost_folders(
    log_dirs: Sequence[LogDirPlan],
    assignments: Assignments,
    found: Iterable[FoundLog],
    futures: Mapping[Place, FutureLog],
) -> Iterator[LostFolder]:
    """Yield the partitions without a folder, by topic and number.

    Args:
        log_dirs: all log dirs of the broker.
        assignments: the cluster's assignments.
        found: all logs in the log dirs.
        futures: fates of the future logs.
    """
    cluster, node_id = assignments.cluster, assignments.node_id
    if cluster is None or node_id is None:
        return
    strays: dict[TopicPartition, str] = {}
    there: set[tuple[TopicPartition, str | None]] = set()
    for each in found:
        future = futures.get(each.place)
        becomes_log = future is not None and future.fate is FutureFate.BECOMES_LOG
        if each.is_stray and each.log.state is FolderState.LOG:
            strays[each.log.partition] = each.place.folder
        elif each.log.state is FolderState.LOG or becomes_log:
            there.add((each.log.partition, each.topic_id))
    links = {name for each in log_dirs for name in each.links}
    paths = {directory: path for path, directory in assignments.directory_ids.items()}
    is_down = any(each.is_abandoned for each in log_dirs)
    for name, topic in cluster.topics.items():
        topic_id = topic.facts["topicId"]
        rows = cluster.partitions_of(topic_id)
        for number in sorted(rows):
            partition = TopicPartition(name, number)
            replicas = rows[number].facts["replicas"]
            if node_id not in replicas or (partition, topic_id) in there:
                continue
            if folder_name(partition) in links:
                continue
            lost = _lost(partition, topic_id, rows[number], node_id, log_dirs, paths)
            if lost.log_dir is None and is_down:
                continue  # it may be in the log dir that is offline, and the broker does not make it anew
            age = cluster.timestamp - rows[number].timestamp
            yield replace(
                lost,
                stray=strays.get(partition),
                is_new=lost.end is None
                and rows[number].facts["partitionEpoch"] == 0
                and age < _CHECKPOINTS_MS,
            )


def _lost(
    partition: TopicPartition,
    topic_id: str,
    row: Item,
    node_id: int,
    log_dirs: Sequence[LogDirPlan],
    paths: Mapping[str, str],
) -> LostFolder:
    replicas, directories = row.facts["replicas"], row.facts["directories"]
    assigned = dict(zip(replicas, directories, strict=False)).get(node_id)
    directory = None if assigned in RESERVED_DIRECTORY_IDS else assigned
    stated = _Stated(log_dirs)
    ends = sorted(set(stated.ends(partition)), reverse=True)
    return LostFolder(
        partition,
        topic_id,
        None if directory is None else paths.get(directory),
        directory,
        tuple(each for each in replicas if each != node_id),
        stated.start(partition),
        ends[0][0] if ends else None,
        tuple(says for _, says in ends),
        was_clean=all(each.has_marker for each in log_dirs),
    )
