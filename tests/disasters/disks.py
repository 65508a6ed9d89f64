"""The disks of a modelled cluster after a disaster: what is left of them, and their log dirs."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine.checkpoint.leader_epoch_checkpoint import render
from engine.checkpoint.offset_checkpoint import render_offset_checkpoint
from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import EpochEntry, TopicPartition
from tests.disasters.model import METADATA_EPOCH, Model, OldFolder, uuid_of
from tests.disasters.replication import Entry, Replica


@dataclass
class NodeDisk:
    """The disk of a node.

    Attributes:
        node: its id.
        replicas: by partition, with the id of the topic.
        removed: replicas that were moved elsewhere, in folders that are to be deleted.
        old: replicas of topics that were deleted.
        metadata: batches of its metadata log.
        dirs: number of its log dirs.
        tails: bytes behind the last whole batch of a log.
        flipped: batches with a changed byte, and their bytes now.
        has_epochs: whether the files of leader epochs are there.
    """

    node: int
    replicas: dict[TopicPartition, tuple[str, Replica]]
    removed: dict[TopicPartition, tuple[str, Replica]]
    old: list[OldFolder]
    metadata: list[bytes]
    dirs: int = 1
    tails: dict[TopicPartition, bytes] = field(default_factory=dict)
    flipped: dict[bytes, bytes] = field(default_factory=dict)
    has_epochs: bool = True

    def live(self) -> Iterator[tuple[TopicPartition, str, Replica]]:
        """Yield the replicas in folders of their own names: partition, topic id, log."""
        for partition, (topic_id, replica) in self.replicas.items():
            yield partition, topic_id, replica
        for each in self._old_live().values():
            yield each.partition, each.topic_id, each.replica

    def gone(self) -> Iterator[tuple[TopicPartition, str, Replica]]:
        """Yield the replicas in folders that are to be deleted."""
        for partition, (topic_id, replica) in self.removed.items():
            yield partition, topic_id, replica
        live = self._old_live()
        for each in self.old:
            if live.get(each.partition) is not each:
                yield each.partition, each.topic_id, each.replica

    def _old_live(self) -> dict[TopicPartition, OldFolder]:
        live = [each for each in self.old if each.is_live and each.partition not in self.replicas]
        return {each.partition: each for each in live}


def image(model: Model, node: int, behind: int = 0) -> NodeDisk:
    """Return a disk as it is now; its metadata log may be some records behind."""
    parts = model.partitions.items()
    return NodeDisk(
        node,
        {n: (p.topic_id, p.replicas[node].copied()) for n, p in parts if node in p.replicas},
        {n: (p.topic_id, p.removed[node].copied()) for n, p in parts if node in p.removed},
        list(model.old_folders[node]),
        model.metadata[: len(model.metadata) - behind],
    )


def held(disks: Iterable[NodeDisk]) -> set[bytes]:
    """Return the whole batches that the disks hold of partitions that are theirs."""
    return {
        entry.data
        for disk in disks
        for _, replica in disk.replicas.values()
        for entry in replica.entries
        if entry.data not in disk.flipped
    }


def cut(disk: NodeDisk, chooser: random.Random, *, below: bool) -> None:
    """Cut the tails of a disk's files, as a power failure does; the checkpoints stay.

    Args:
        disk: the disk.
        chooser: chooses what is cut.
        below: also cut below the recovery points, as a disk does that lies about its flushes.
    """
    is_short = chooser.random() < 0.5
    for partition, (_, replica) in disk.replicas.items():
        if chooser.random() >= 0.7 or not replica.entries:
            continue
        low = 0 if below else bisect_right([e.offset for e in replica.entries], replica.flushed - 1)
        if is_short:
            low = max(low, len(replica.entries) - 4)
        at = chooser.randint(min(low, len(replica.entries)), len(replica.entries))
        gone = replica.entries[at:]
        del replica.entries[at:]
        if gone:
            replica.end = gone[0].offset
            replica.rolls = [r for r in replica.rolls if r <= replica.end] or replica.rolls[:1]
            part = gone[0].data[: chooser.randrange(len(gone[0].data))]
            disk.tails[partition] = chooser.choice((b"", part, bytes(len(part))))
    if chooser.random() < 0.5:
        del disk.metadata[len(disk.metadata) - chooser.randrange(1, 5) :]


def flip(disk: NodeDisk, chooser: random.Random) -> None:
    """Change a byte of some batches of a disk."""
    for _, replica in disk.replicas.values():
        for entry in chooser.sample(replica.entries, min(len(replica.entries), 2)):
            data = bytearray(entry.data)
            data[chooser.randrange(len(data))] ^= 1 << chooser.randrange(8)
            disk.flipped[entry.data] = bytes(data)


def write(disks: Iterable[NodeDisk], folder: Path, *, metadata: bool = True) -> list[str]:
    """Write the log dirs of some disks into a folder, with or without their metadata logs; return their paths."""
    return [path for disk in disks for path in _write_node(disk, folder, metadata=metadata)]


def _write_node(disk: NodeDisk, folder: Path, *, metadata: bool) -> list[str]:
    paths = [folder / f"node-{disk.node}-{number}" for number in range(disk.dirs)]
    marks: list[dict[str, dict[TopicPartition, int]]] = [{} for _ in paths]
    for number, path in enumerate(paths):
        path.mkdir()
        identity = uuid_of(1000 + 10 * disk.node + number)
        text = f"version=1\ncluster.id=c\nnode.id={disk.node}\ndirectory.id={identity}\n"
        (path / "meta.properties").write_text(text)
    for partition, topic_id, replica in disk.live():
        at = sum(map(ord, str(partition))) % disk.dirs
        _write_replica(disk, paths[at] / str(partition), partition, topic_id, replica)
        found = {
            "replication-offset-checkpoint": replica.checkpointed,
            "recovery-point-offset-checkpoint": replica.flushed,
        }
        if replica.started:
            found["log-start-offset-checkpoint"] = replica.started
        if replica.cleaned:
            found["cleaner-offset-checkpoint"] = replica.cleaned
        for name, value in found.items():
            marks[at].setdefault(name, {})[partition] = value
    for name, each in ((name, each) for place in marks for name, each in place.items()):
        at = next(i for i, place in enumerate(marks) if place.get(name) is each)
        (paths[at] / name).write_bytes(render_offset_checkpoint(each))
    for number, (partition, topic_id, replica) in enumerate(disk.gone()):
        path = paths[0] / f"{partition}.{number:032x}-delete"
        _write_replica(disk, path, partition, topic_id, replica)
    if metadata and disk.metadata:
        _write_metadata(disk, paths[0] / f"{CLUSTER_METADATA}-0")
    return [str(path) for path in paths]


def _write_replica(
    disk: NodeDisk, folder: Path, partition: TopicPartition, topic_id: str, replica: Replica
) -> None:
    folder.mkdir()
    files: dict[int, list[Entry]] = {base: [] for base in replica.rolls}
    for entry in replica.entries:
        at = bisect_right(replica.rolls, entry.offset) - 1
        files[replica.rolls[max(at, 0)]].append(entry)
    for base, entries in files.items():
        data = b"".join(disk.flipped.get(each.data, each.data) for each in entries)
        if base == replica.rolls[-1]:
            data += disk.tails.get(partition, b"")
        (folder / f"{base:020}.log").write_bytes(data)
    if disk.has_epochs:
        (folder / "leader-epoch-checkpoint").write_bytes(render(replica.epochs))
    identity = PartitionMetadata(0, topic_id)
    (folder / "partition.metadata").write_bytes(render_partition_metadata(identity))


def _write_metadata(disk: NodeDisk, folder: Path) -> None:
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(disk.metadata))
    (folder / "leader-epoch-checkpoint").write_bytes(render([EpochEntry(METADATA_EPOCH, 0)]))
