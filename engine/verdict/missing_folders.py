"""Partitions that the cluster's metadata or a checkpoint names and no folder holds: what became of each.

Decided here for everybody. A broker writes each partition of a log dir into the log dir's checkpoints. A name there without
a folder is a partition that was deleted, moved to another log dir or broker, or lost: the cluster's metadata decides. At
its next start a broker makes the folder of a lost partition anew, empty, and gives offset 0 to the next record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from engine.checkpoint.base64_uuid import RESERVED_DIRECTORY_IDS, UNASSIGNED_DIRECTORY_ID
from engine.files.file_names import folder_name
from engine.log.segment.damage import Elsewhere
from engine.replay.cluster import ClusterImage
from engine.units import Offset, TopicPartition
from engine.verdict.elsewhere import replicas, set_aside
from engine.verdict.loss import Loss, LossKind

_CHECKPOINTS_MS = 10_000
"""Twice the time between two writes of the high watermarks: a partition older than that is in the checkpoint."""

HasFolder: TypeAlias = Callable[[TopicPartition, "str | None"], bool]
"""Returns whether a folder holds a partition; the second argument is the path of the assigned log dir, if known."""


class Absence(Enum):
    """Why a partition has no folder."""

    LOST = "lost"
    """The metadata assigns it to this node."""
    NEW = "new"
    """It was created too late for a checkpoint to name it."""
    EMPTY = "empty"
    """It held no record when the node stopped."""
    MOVED = "moved"
    """The metadata assigns it to other nodes."""
    DELETED = "deleted"
    """The metadata does not have it."""
    UNKNOWN = "unknown"
    """There is no whole metadata."""


class StatedOffsets(NamedTuple):
    """What the checkpoints of a log dir state.

    Attributes:
        log_dir: path of the log dir.
        directory_id: its id in the cluster's metadata; None if unknown.
        was_clean: whether it was closed cleanly, so that the checkpoints state the last ends.
        log_starts: log starts by partition.
        ends: offsets that partitions have reached, by the checkpoint's name. That of the cleaner is none of them: a
            broker never takes deleted partitions out of it.
    """

    log_dir: str
    directory_id: str | None
    was_clean: bool
    log_starts: Mapping[TopicPartition, Offset]
    ends: Mapping[str, Mapping[TopicPartition, Offset]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFolder:
    """A partition without a folder.

    Attributes:
        partition: the partition.
        absence: why.
        node_id: the node that has the log dirs; None if unknown.
        topic_id: topic id in the metadata; None if that does not have it.
        named_in: path of the first log dir whose checkpoints name it; None if none does.
        log_dir: path of the log dir that the metadata assigns; None if none of these.
        directory_id: directory id that the metadata assigns; None if it has none.
        is_unassigned: whether the metadata leaves the choice of a log dir to the node.
        other_replicas: the other nodes that the metadata assigns it to.
        start, end: offsets that it held, as far as checkpoints state them; `end` None if none does.
        proofs: what states the end, in words.
        beside: folders of the partition that a broker set aside.
    """

    partition: TopicPartition
    absence: Absence
    node_id: int | None = None
    topic_id: str | None = None
    named_in: str | None = None
    log_dir: str | None = None
    directory_id: str | None = None
    is_unassigned: bool = False
    other_replicas: tuple[int, ...] = ()
    start: Offset = 0
    end: Offset | None = None
    proofs: tuple[str, ...] = ()
    beside: tuple[Elsewhere, ...] = ()

    @property
    def name(self) -> str:
        """Name of the folder that is missing, and of the partition in a source."""
        return folder_name(self.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition, so that a choice of partitions takes this."""
        return self.partition

    @property
    def lost_offsets(self) -> int:
        """Number of offsets that it is known to have held."""
        return 0 if self.end is None else max(0, self.end - self.start)

    @property
    def is_harmless(self) -> bool:
        """Whether nothing was lost with the folder."""
        return self.absence not in (Absence.LOST, Absence.UNKNOWN)

    @property
    def is_certain(self) -> bool:
        """Whether it is surely lost: its log dir is one of these, and held it before."""
        is_here = self.log_dir is not None or self.directory_id is None
        return self.absence is Absence.LOST and self.end is not None and is_here

    @property
    def reason(self) -> str:
        """What became of it, with the evidence, in a sentence."""
        name = self.name
        if self.absence is Absence.DELETED:
            return f"{name} was deleted: the metadata does not have it"
        if self.absence is Absence.MOVED:
            nodes = ", ".join(map(str, self.other_replicas))
            return f"{name} was moved: the metadata assigns it to {nodes}, and this is node {self.node_id}"
        says = "no metadata here tells whether it was deleted"
        if self.absence is not Absence.UNKNOWN:
            says = f"the metadata assigns it to node {self.node_id}"
            if self.directory_id is not None and self.log_dir is None:
                says += f" and the log dir with the directory.id {self.directory_id}, which is none of these"
        if self.named_in is None:
            return f"there is no folder of {name}: {says}, and no checkpoint names it; {self.held}"
        gone = f"the folder of {name} is gone from {self.named_in}: its checkpoints name it, {says}; {self.held}"
        is_made = self.absence is not Absence.UNKNOWN
        return f"{gone}, and a broker that starts here makes it anew, empty" if is_made else gone

    @property
    def held(self) -> str:
        """What it held, as far as checkpoints state that, in words."""
        if self.end is None:
            created = "in the last seconds before the metadata ends"
            return (
                f"it was created {created}"
                if self.absence is Absence.NEW
                else "no checkpoint states which offsets it held"
            )
        if self.end <= self.start:
            return "it held no record that a checkpoint names"
        return f"it held offsets up to {self.end - 1}"

    def loss(self) -> Loss:
        """Return the partition as a loss."""
        return Loss(
            partition=self.name,
            kind=LossKind.PARTITION,
            first_offset=None if self.end is None else self.start,
            next_offset=None if self.end is None else max(self.end, self.start),
            file="",
            reason=self.reason,
            is_certain=self.is_certain,
            elsewhere=(*self.beside, *replicas(self.other_replicas)),
        )


def missing_folders(
    image: ClusterImage | None,
    node_id: int | None,
    stated: Sequence[StatedOffsets],
    has_folder: HasFolder,
    beside: Mapping[TopicPartition, Sequence[str]],
) -> Iterator[MissingFolder]:
    """Yield the partitions without a folder: those that the metadata assigns to a node, then those that checkpoints name.

    Args:
        image: the cluster's metadata; None without a whole one.
        node_id: the node that has the log dirs; None if unknown.
        stated: what the checkpoints of its log dirs state.
        has_folder: returns whether a partition has a folder.
        beside: names of the folders that a broker set aside, by partition.
    """
    paths = {each.directory_id: each.log_dir for each in stated if each.directory_id is not None}
    assigned: set[TopicPartition] = set()
    for partition, topic_id, facts, age in _assigned(image, node_id):
        directories = dict(zip(facts["replicas"], facts["directories"], strict=False))
        stated_id = directories.get(node_id)
        directory = None if stated_id in RESERVED_DIRECTORY_IDS else stated_id
        log_dir = None if directory is None else paths.get(directory)
        assigned.add(partition)
        if has_folder(partition, log_dir):
            continue
        held = _held(partition, stated)
        is_new = facts["partitionEpoch"] == 0 and age < _CHECKPOINTS_MS
        yield MissingFolder(
            partition=partition,
            absence=_why_absent(held, is_new=is_new, stated=stated),
            node_id=node_id,
            topic_id=topic_id,
            log_dir=log_dir,
            directory_id=directory,
            is_unassigned=stated_id == UNASSIGNED_DIRECTORY_ID,
            other_replicas=tuple(each for each in facts["replicas"] if each != node_id),
            beside=set_aside(beside.get(partition, ())),
            **held,
        )
    named = {each for log_dir in stated for ends in log_dir.ends.values() for each in ends}
    for partition in sorted(named - assigned):
        if not has_folder(partition, None):
            found = _unassigned(partition, image, node_id, stated)
            yield replace(found, beside=set_aside(beside.get(partition, ())))


def _assigned(
    image: ClusterImage | None, node_id: int | None
) -> Iterator[tuple[TopicPartition, str, Mapping[str, Any], int]]:
    """Yield the partitions of a node by the metadata, with topic id, facts, and age in milliseconds."""
    if image is None or node_id is None:
        return
    for name, topic in image.topics.items():
        topic_id = topic.facts["topicId"]
        rows = image.partitions_of(topic_id)
        for number in sorted(rows):
            if node_id in rows[number].facts["replicas"]:
                age = image.timestamp - rows[number].timestamp
                yield TopicPartition(name, number), topic_id, rows[number].facts, age


def _unassigned(
    partition: TopicPartition,
    image: ClusterImage | None,
    node_id: int | None,
    stated: Sequence[StatedOffsets],
) -> MissingFolder:
    """Return a partition that a checkpoint names, and the metadata does not assign to the node."""
    absence, replicas = Absence.UNKNOWN, ()
    if image is not None:
        item = image.topics.get(partition.topic)
        rows = {} if item is None else image.partitions_of(item.facts["topicId"])
        row = rows.get(partition.partition)
        if row is not None and node_id is not None:
            absence, replicas = Absence.MOVED, tuple(row.facts["replicas"])
        elif row is None and not image.unreadable:
            absence = Absence.DELETED
    return MissingFolder(
        partition=partition,
        absence=absence,
        node_id=node_id,
        other_replicas=replicas,
        **_held(partition, stated),
    )


def _why_absent(
    held: Mapping[str, Any], *, is_new: bool, stated: Iterable[StatedOffsets]
) -> Absence:
    if held["end"] is None:
        return Absence.NEW if is_new else Absence.LOST
    if held["end"] <= held["start"] and all(each.was_clean for each in stated):
        return Absence.EMPTY
    return Absence.LOST


def _held(partition: TopicPartition, stated: Sequence[StatedOffsets]) -> dict[str, Any]:
    """Return what the checkpoints state of a partition, as attributes of a MissingFolder."""
    ends = {
        (ends[partition], f"{name} says {ends[partition]}"): each.log_dir
        for each in stated
        for name, ends in each.ends.items()
        if partition in ends
    }
    largest = sorted(ends, reverse=True)
    return {
        "named_in": next(iter(ends.values()), None),
        "start": max((each.log_starts.get(partition, 0) for each in stated), default=0),
        "end": largest[0][0] if largest else None,
        "proofs": tuple(says for _, says in largest),
    }
