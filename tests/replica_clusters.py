"""Random clusters of three brokers' disks, and the union of what is left on them, computed from how they were made.

The copies of a partition are made of batches of one history; a copy may end early, begin late, end in a tail that a
newer leader overwrote elsewhere, or roll its segments elsewhere. Then disks are hurt: bytes flip, are zeroed or cut off,
segments vanish. Which batches a hurt takes is known by their place in the file, so that no reader is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests import builders
from tests.builders import Rec

START = 1_700_000_000_000
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAABA"
TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"
OTHER_TOPIC_ID = "6Y0DrLRyRyGEHPlhCN0jIQ"
_PAYLOAD = 61


class Made(NamedTuple):
    """A batch of a history: its offsets [first, next), its epoch, its values by offset, its bytes."""

    first: int
    next: int
    epoch: int
    values: tuple[bytes, ...]
    data: bytes


@dataclass
class MadeCopy:
    """A copy of a partition on a node's disk.

    Attributes:
        node: the node id.
        folder: its folder.
        nominal: the batches that the broker wrote.
        segments: its batches by base offset of their segment.
        alive: those that are still there.
        deleted_to: what its log-start-offset-checkpoint has; None without an entry.
    """

    node: int
    folder: Path
    nominal: list[Made]
    segments: dict[int, list[Made]]
    alive: set[Made] = field(default_factory=set)
    deleted_to: int | None = None
    is_stranger: bool = False

    def path(self, base: int, suffix: str = ".log") -> Path:
        return self.folder / f"{base:020}{suffix}"

    @property
    def end(self) -> int:
        bases = [base for base in self.segments if self.path(base).exists()]
        return max([each.next for each in self.alive] + [bases[-1] if bases else 0])

    @property
    def epoch(self) -> int:
        return max(self.alive, key=lambda each: each.first).epoch if self.alive else -1


@dataclass
class MadePartition:
    """A partition, with its copies in the order in which the log dirs are named."""

    name: str
    copies: list[MadeCopy]

    @property
    def leader(self) -> MadeCopy:
        ours = [each for each in self.copies if not each.is_stranger]
        return max(ours, key=lambda each: (each.epoch, each.end, -ours.index(each)))

    @property
    def batches(self) -> list[Made]:
        """The batches of the union: those of the leader's history that any disk has."""
        return [
            each
            for each in self.leader.nominal
            if any(each in copy.alive for copy in self.copies if not copy.is_stranger)
        ]

    @property
    def start(self) -> int:
        return max(
            (each.deleted_to or 0 for each in self.copies if not each.is_stranger), default=0
        )

    @property
    def records(self) -> dict[int, bytes]:
        """The values of the union by offset."""
        return values_of(self.batches, self.start)

    @property
    def is_whole(self) -> bool:
        """Whether no offset between the first and the last one is lost."""
        known = self.batches
        return all(one.next == two.first for one, two in pairwise(known))


@dataclass
class MadeCluster:
    """The log dirs as an operator names them, and the partitions in them."""

    dirs: list[Path]
    partitions: dict[str, MadePartition]


def values_of(batches: list[Made], start: int = 0) -> dict[int, bytes]:
    found = {each.first + at: value for each in batches for at, value in enumerate(each.values)}
    return {offset: value for offset, value in found.items() if offset >= start}


def make_cluster(root: Path, random: Random, *, hurts: int = 3) -> MadeCluster:
    """Make three nodes' log dirs below a folder, and hurt them."""
    dirs: dict[int, list[Path]] = {}
    for node in (1, 2, 3):
        dirs[node] = [root / f"b{node}"] + ([root / f"b{node}-2"] if random.random() < 0.3 else [])
        for place, each in enumerate(dirs[node]):
            each.mkdir(parents=True)
            (each / "meta.properties").write_text(
                f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node}\n"
                f"directory.id=6Y0DrLRyRyGEHPlhC{node}{place}jIQ\n"
            )
            (each / "replication-offset-checkpoint").write_text("0\n0\n")
    lost = random.choice([1, 2, 3]) if random.random() < 0.2 else None
    named = [node for node in random.sample([1, 2, 3], 3) if node != lost]
    partitions = {}
    for number in range(2):
        name = f"orders-{number}"
        history = _history(name, random, 0, [*range(20 + random.randrange(30))])
        on = [node for node in named if random.random() < 0.9] or named
        deleted_by = random.choice(on) if random.random() < 0.3 else None
        # An epoch has one leader, so only one copy has a tail of it.
        old_leader = random.choice(on)
        copies = []
        for node in on:
            folder = random.choice(dirs[node]) / name
            copy = _copy(node, folder, history, random, may_lose=node == old_leader)
            if node == deleted_by:
                copy.deleted_to = random.randrange(1, max(copy.end, 2))
            copies.append(copy)
        for copy in copies:
            for _ in range(random.randrange(hurts + 1)):
                _hurt(copy, random)
        partitions[name] = MadePartition(name, copies)
    for node in named:
        for each in dirs[node]:
            starts = [
                f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {copy.deleted_to}\n"
                for name, made in partitions.items()
                for copy in made.copies
                if copy.deleted_to is not None and copy.folder.parent == each
            ]
            text = f"0\n{len(starts)}\n{''.join(starts)}"
            (each / "log-start-offset-checkpoint").write_text(text)
    return MadeCluster([each for node in named for each in dirs[node]], partitions)


def _history(
    name: str, random: Random, first: int, numbers: list[int], *, epoch: int = 0, what: str = "main"
) -> list[Made]:
    made = []
    for number in numbers:
        if number and random.random() < 0.08 and what == "main":
            epoch += random.choice([1, 1, 2])
        count = random.randrange(1, 6)
        values = tuple(
            f"{name} {what} {first + at} {'x' * random.randrange(60)}".encode()
            for at in range(count)
        )
        records = [Rec(value, timestamp=START + (first + at)) for at, value in enumerate(values)]
        data = builders.batch(records, first, random.choice(builders.CODECS), leader_epoch=epoch)
        made.append(Made(first, first + count, epoch, values, data))
        first += count
    return made


def _copy(
    node: int, folder: Path, history: list[Made], random: Random, *, may_lose: bool
) -> MadeCopy:
    nominal, kind = history, random.random()
    changes = [at for at in range(1, len(history)) if history[at].epoch > history[at - 1].epoch]
    if kind < 0.3:
        nominal = history[: random.randrange(1, len(history))]
    elif kind < 0.7 and changes and may_lose:
        at = random.choice(changes)
        epoch, first = history[at].epoch - 1, history[at].first
        tail = _history(
            folder.name,
            random,
            first,
            [*range(random.randrange(1, 12))],
            epoch=epoch,
            what=f"tail of {node}",
        )
        nominal = [*history[:at], *tail]
    rolls = {0, *(at for at in range(7, len(nominal), 7 if random.random() < 0.7 else 5))}
    segments: dict[int, list[Made]] = {}
    for at, batch in enumerate(nominal):
        if at in rolls:
            base = batch.first
        segments.setdefault(base, []).append(batch)
    if random.random() < 0.2 and len(segments) > 2:  # retention
        segments.pop(next(iter(segments)))
    for base, batches in segments.items():
        builders.write_segment(folder, [each.data for each in batches], base, index_interval=256)
    epochs: dict[int, int] = {}
    for batch in nominal:
        epochs.setdefault(batch.epoch, batch.first)
    lines = "".join(f"{epoch} {at}\n" for epoch, at in epochs.items())
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    alive = {each for batches in segments.values() for each in batches}
    return MadeCopy(node, folder, nominal, segments, alive)


def _hurt(copy: MadeCopy, random: Random) -> None:
    bases = [base for base in copy.segments if copy.path(base).exists()]
    if not bases:
        return
    base = random.choice(bases)
    path, kind = copy.path(base), random.random()
    data = bytearray(path.read_bytes())
    if kind < 0.25 and len(bases) > 1:
        path.unlink()
        if random.random() < 0.6:
            for suffix in (".index", ".timeindex"):
                copy.path(base, suffix).unlink()
        copy.alive -= set(copy.segments[base])
        return
    if len(data) < 2 * _PAYLOAD:
        return
    at = random.randrange(len(data))
    if kind < 0.5:
        del data[at:]
        hit = range(at, 1 << 30)
    elif kind < 0.7:
        stop = min(at + random.randrange(1, 600), len(data))
        data[at:stop] = bytes(stop - at)
        hit = range(at, stop)
    else:
        position = 0
        for batch in copy.segments[base]:
            if position <= at < position + len(batch.data):
                at = max(at, position + 30)
            position += len(batch.data)
        if at >= len(data):
            return
        data[at] ^= 0x55
        hit = range(at, at + 1)
    before = path.read_bytes()
    path.write_bytes(data)
    position = 0
    for batch in copy.segments[base]:
        place = range(position, position + len(batch.data))
        is_hit = hit.start < place.stop and place.start < hit.stop
        if is_hit and bytes(data[place.start : place.stop]) != before[place.start : place.stop]:
            copy.alive.discard(batch)
        position = place.stop
