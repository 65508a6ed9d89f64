"""What happens to a node's log dir, and the truth about it: which batches are left anywhere in the log.

A kind of damage changes the files of one partition, or of the whole node, and says in a word what else it did. A batch
is lost if its bytes are in no file of the log any more.
"""

from __future__ import annotations

import random
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.record.attributes import CONTROL_MASK
from tests.fixtures_data import DATA, log_dir
from tests.hurt_nodes import link

METADATA = "__cluster_metadata-0"
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
MARKER = ".kafka_cleanshutdown"
LARGER = {"orders-0": 1000, "txn-0": 661}
"""Logs of more segments, which take the place of those of the node, with their ends."""


class Batch(NamedTuple):
    """A batch of the sound log: its bytes, the offsets of its records, and whether they are control records."""

    data: bytes
    offsets: frozenset[int]
    is_control: bool


@dataclass
class SoundNode:
    """A log dir that a broker stopped cleanly.

    Attributes:
        path: the log dir.
        batches: by partition.
        ends: the log ends.
    """

    path: Path
    batches: dict[str, list[Batch]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)


def sound_node(folder: Path) -> SoundNode:
    """Make the log dir of a combined node of 4.4.0 out of the test data, with some larger logs."""
    with tarfile.open(DATA / "kafka-4.4" / "clean.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    path = folder / "data"
    for name, end in LARGER.items():
        _take_larger(path / name, end)
    for index in path.glob("*/*index"):  # those of the metadata log are preallocated
        data = index.read_bytes().rstrip(b"\0")
        entry = 12 if index.suffix == ".timeindex" else 8
        if index.stat().st_size > 1 << 20:
            index.write_bytes(data + bytes(-len(data) % entry))
    node = SoundNode(path)
    with closing(open_source(str(path))) as source:
        for name, log in source.partitions().items():
            view = log.view()
            node.ends[name] = view.log_end_offset
            node.batches[name] = list(_batches(view))
    return node


def _take_larger(folder: Path, end: int) -> None:
    for old in folder.iterdir():
        if old.name not in ("partition.metadata", "leader-epoch-checkpoint"):
            old.unlink()
    for new in (log_dir("current") / folder.name).iterdir():
        if not (folder / new.name).exists():
            shutil.copy(new, folder)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n2 {end}\n")
    topic, _, number = folder.name.rpartition("-")
    for checkpoint in CHECKPOINTS[:2]:
        path = folder.parent / checkpoint
        lines = path.read_text().splitlines()
        place = next(i for i, line in enumerate(lines) if line.startswith(f"{topic} {number} "))
        lines[place] = f"{topic} {number} {end}"
        path.write_text("\n".join([*lines, ""]))


def _batches(view: Any) -> Iterator[Batch]:
    for segment, run in view.runs():
        if not isinstance(run, BatchRun):
            continue
        data = segment.file.read_at(run.start_position, run.end_position - run.start_position)
        offsets = {int(each) for each in segment_offsets(view, run)}
        for row in run.table:
            start = int(row["position"]) - run.start_position
            covers = range(int(row["base_offset"]), int(row["last_offset"]) + 1)
            is_control = bool(int(row["attributes"]) & CONTROL_MASK)
            whole = bytes(data[start : start + int(row["size"])])
            yield Batch(whole, frozenset(offsets.intersection(covers)), is_control)


def segment_offsets(view: Any, run: BatchRun) -> Any:
    """The offsets of the records in a run."""
    from engine import kernel

    return kernel.decode(
        run.buffer, run.table, 0, len(run.table), start_position=run.start_position
    ).offset


@dataclass
class Damaged:
    """A damaged log dir, and what is true of it.

    Attributes:
        path: the log dir.
        sound: what it was.
        did: the kinds of damage.
        gone: partitions whose folders are gone.
        linked: partitions that are symbolic links.
        spoiled: files beside the logs that are not what they were.
        unproven: partitions of which nothing on disk can tell all that they lost.
        moved: partitions with a whole batch that states wrong offsets, between good ones: a rebuild puts it right.
        room: a folder for what commands write; by default the one around the log dir.
    """

    path: Path
    sound: SoundNode
    did: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    linked: set[str] = field(default_factory=set)
    spoiled: set[str] = field(default_factory=set)
    unproven: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    room: Path | None = None

    @property
    def unsure(self) -> set[str]:
        """The partitions of which nothing on disk can tell all, also of those whose gap only a policy proves to be a loss."""
        if METADATA not in self.unproven | self.gone | self.linked:
            return self.unproven
        without_trace = (removed_batch.__name__, lost_segment.__name__)
        hurt = (each.partition(" ") for each in self.did)
        return self.unproven | {name for name, _, kind in hurt if kind in without_trace}

    def partitions(self) -> list[str]:
        """The partitions that are folders."""
        return sorted(set(self.sound.batches) - self.gone - self.linked)

    def folder(self, name: str) -> Path:
        """The folder of a partition."""
        return self.path / name

    def lost(self, name: str, *, of_rebuild: bool = False) -> set[int]:
        """The offsets of a partition whose records are gone; those of compacted records are not.

        A start deletes a .swap file from the first .cleaned one on: the replacement was not complete (KAFKA-6264). A
        rebuild takes its records for those that are missing, and does not need the offsets that a batch states.
        """
        folder = self.folder(name)
        unfinished = min((path.name[:20] for path in folder.glob("*.log.cleaned")), default="~")
        swapped = [
            path for path in folder.glob("*.log.swap") if of_rebuild or path.name[:20] < unfinished
        ]
        left = b"".join(path.read_bytes() for path in [*folder.glob("*.log"), *swapped])
        found: set[int] = set()
        known_from = 8 if of_rebuild and name in self.moved else 0
        for batch in self.sound.batches[name]:
            if batch.data[known_from:] not in left:
                found |= batch.offsets
        return found

    def held(self, name: str) -> set[int]:
        """The offsets of all records that a partition had."""
        return {each for batch in self.sound.batches[name] for each in batch.offsets}

    def controls(self, name: str) -> set[int]:
        """The offsets of the control records that are left, which not every reader shows."""
        found = (batch.offsets for batch in self.sound.batches[name] if batch.is_control)
        return set().union(*found) - self.lost(name)

    def truth(self, *, of_rebuild: bool = False) -> dict[str, set[int]]:
        """What each partition that is a folder lost."""
        losses = ((name, self.lost(name, of_rebuild=of_rebuild)) for name in self.partitions())
        return {name: lost for name, lost in losses if lost}


# -- kinds of damage to one log

LogKind = Callable[[Path, random.Random], None]


def _overwrite(path: Path, start: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[start : start + len(data)] = data[: max(len(whole) - start, 0)]
    path.write_bytes(whole)


def segments(folder: Path) -> list[Path]:
    """The records files of a log."""
    return sorted(folder.glob("*.log"))


def _unlink_all(path: Path) -> None:
    for each in path.parent.glob(f"{path.stem}.*"):
        each.unlink()


def zeroed_segment(folder: Path, pick: random.Random) -> None:
    path = pick.choice(segments(folder))
    path.write_bytes(bytes(path.stat().st_size))


def emptied_segment(folder: Path, pick: random.Random) -> None:
    pick.choice(segments(folder)).write_bytes(b"")


def lost_segment(folder: Path, pick: random.Random) -> None:
    _unlink_all(pick.choice(segments(folder)))


def lost_records_file(folder: Path, pick: random.Random) -> None:
    pick.choice(segments(folder)).unlink()


def all_segments_lost(folder: Path, pick: random.Random) -> None:
    for path in segments(folder):
        _unlink_all(path)


def all_segments_emptied(folder: Path, pick: random.Random) -> None:
    for path in segments(folder):
        path.write_bytes(b"")


def cut_segment(folder: Path, pick: random.Random) -> None:
    path = pick.choice(segments(folder))
    at = pick.randrange(1, path.stat().st_size)
    with open(path, "r+b") as file:
        file.truncate(at)


def zeroed_block(folder: Path, pick: random.Random) -> None:
    path = pick.choice(segments(folder))
    at = pick.randrange(0, path.stat().st_size // 4096 + 1) * 4096
    _overwrite(path, at, bytes(4096))


def random_bytes(folder: Path, pick: random.Random) -> None:
    path = pick.choice(segments(folder))
    at = pick.randrange(max(path.stat().st_size - 100, 1))
    _overwrite(path, at, pick.randbytes(100))


def flipped_bit(folder: Path, pick: random.Random) -> None:
    """One bit that the checksum covers."""
    path = pick.choice(segments(folder))
    data = path.read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")  # of the first batch
    at = pick.randrange(21, max(min(size, len(data)), 22)) if size < len(data) else 21
    _overwrite(path, at, bytes([data[at] ^ 1 << pick.randrange(8)]))


def removed_batch(folder: Path, pick: random.Random) -> None:
    """A batch between others is gone without a trace but its offsets."""
    path = pick.choice(segments(folder))
    data = path.read_bytes()
    starts = [0]
    while starts[-1] + 12 <= len(data):
        size = 12 + int.from_bytes(data[starts[-1] + 8 :][:4], "big")
        if size <= 12 or starts[-1] + size > len(data):
            break
        starts.append(starts[-1] + size)
    if len(starts) > 3:  # batches before and behind it
        place = pick.randrange(1, len(starts) - 2)
        path.write_bytes(data[: starts[place]] + data[starts[place + 1] :])


LOG_KINDS: tuple[LogKind, ...] = (
    zeroed_segment,
    emptied_segment,
    lost_segment,
    lost_records_file,
    all_segments_lost,
    all_segments_emptied,
    cut_segment,
    zeroed_block,
    random_bytes,
    flipped_bit,
    removed_batch,
)


# -- kinds of damage to a node

NodeKind = Callable[[Damaged, random.Random], None]


def log_damage(node: Damaged, pick: random.Random) -> None:
    """One to three kinds of damage to one log."""
    name = pick.choice(node.partitions())
    folder = node.folder(name)
    for kind in pick.choices(LOG_KINDS, k=pick.choice((1, 1, 2, 3))):
        if min((path.stat().st_size for path in segments(folder)), default=0) > 200:
            kind(folder, pick)
            node.did.append(f"{name} {kind.__name__}")
    if name == METADATA or name.startswith("compacted") or _is_silent(node, name):
        node.unproven.add(name)


def offsets_damage(node: Damaged, pick: random.Random) -> None:
    """Damage to the committed offsets of groups."""
    names = [name for name in node.partitions() if name.startswith("__consumer_offsets")]
    kind = pick.choice(LOG_KINDS)
    for name in names[: pick.choice((1, 2))]:
        if min((path.stat().st_size for path in segments(node.folder(name))), default=0) > 200:
            kind(node.folder(name), pick)
            node.did.append(f"{name} {kind.__name__}")
            if _is_silent(node, name):
                node.unproven.add(name)


def _is_silent(node: Damaged, name: str) -> bool:
    """Whether compaction may have taken a batch that is gone from a log."""
    return name.startswith("__") and f"{name} {removed_batch.__name__}" in node.did


def lost_folder(node: Damaged, pick: random.Random) -> None:
    name = pick.choice([each for each in node.partitions() if each != METADATA] or [""])
    if name:
        shutil.rmtree(node.folder(name))
        node.gone.add(name)
        node.did.append(f"{name} gone")


def lost_metadata(node: Damaged, pick: random.Random) -> None:
    if METADATA in node.partitions():
        shutil.rmtree(node.folder(METADATA))
        node.gone.add(METADATA)
        node.did.append(f"{METADATA} gone")


def linked_folder(node: Damaged, pick: random.Random) -> None:
    name = pick.choice([each for each in node.partitions() if each != METADATA] or [""])
    if name:
        link(node.folder(name))
        node.linked.add(name)
        node.did.append(f"{name} is a link")


def spoiled_side_file(node: Damaged, pick: random.Random) -> None:
    """A file beside the logs is full of NUL, or empty."""
    found = [node.path / each for each in (*CHECKPOINTS, "meta.properties")]
    found += sorted(node.path.glob("*/quorum-state")) + sorted(node.path.glob("*/*.checkpoint"))
    found += sorted(node.path.glob("*/leader-epoch-checkpoint"))
    path = pick.choice([each for each in found if each.is_file()])
    is_empty = pick.random() < 0.5
    path.write_bytes(b"" if is_empty else bytes(path.stat().st_size))
    name = path.relative_to(node.path).as_posix()
    node.spoiled.add(name)
    node.did.append(f"{name} {'emptied' if is_empty else 'zeroed'}")
    if "/" in name:
        node.unproven.add(path.parent.name)


def batch_starts(data: bytes) -> list[int]:
    """The positions of the batches of a sound file."""
    starts, at = [], 0
    while at + 12 <= len(data):
        starts.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return starts


def wrong_offset(
    node: Damaged, name: str, stated: Callable[[int], int], pick: random.Random
) -> None:
    """A batch states another base offset, which no checksum covers; a good batch follows it in its segment."""
    path = pick.choice([each for each in segments(node.folder(name)) if each.stat().st_size])
    data = path.read_bytes()
    at = pick.choice(batch_starts(data)[:-1])
    base = stated(int.from_bytes(data[at : at + 8], "big"))
    _overwrite(path, at, base.to_bytes(8, "big"))
    if base < 1 << 63:  # a negative one is damage to a rebuild, too
        node.moved.add(name)
    node.did.append(f"{path.parent.name}/{path.name}, byte {at}: base offset {base}")


def interrupted_swap(node: Damaged, pick: random.Random) -> None:
    """A crash before the last renaming of a compaction: the new segment is complete, and named .swap."""
    found = [
        path
        for name in node.partitions()
        for path in segments(node.folder(name))
        if path.stat().st_size and not name.startswith("__cluster")
        if not list(path.parent.glob("*.swap"))  # a loader takes all between two for replaced
    ]
    if found:
        path = pick.choice(found)
        for each in path.parent.glob(f"{path.stem}.*"):
            if each.suffix in (".log", ".index", ".timeindex", ".txnindex"):
                each.rename(each.with_name(f"{each.name}.swap"))
        node.did.append(f"{path.parent.name}/{path.name} is .swap")


def leftovers(node: Damaged, pick: random.Random) -> None:
    """Files and folders that a broker sets aside."""
    found = [
        path
        for name in node.partitions()
        for path in segments(node.folder(name))
        if path.stat().st_size
    ]
    if not found:
        return
    path = pick.choice(found)
    ending = pick.choice(("deleted", "cleaned", "stray", "delete"))
    if ending in ("deleted", "cleaned"):
        shutil.copy(path, path.with_name(f"{path.name}.{ending}"))
    else:
        folder = path.parent
        shutil.copytree(
            folder, folder.with_name(f"{folder.name}.{'0' * 32}-{ending}"), dirs_exist_ok=True
        )
    node.did.append(f"{path.parent.name}/{path.name} left as -{ending}")


def killed(node: Damaged, pick: random.Random) -> None:
    """The broker did not stop cleanly."""
    (node.path / MARKER).unlink(missing_ok=True)
    node.did.append("killed")


NODE_KINDS: tuple[NodeKind, ...] = (
    log_damage,
    offsets_damage,
    lost_folder,
    lost_metadata,
    linked_folder,
    spoiled_side_file,
    interrupted_swap,
    leftovers,
    killed,
)


def damaged_node(
    sound: SoundNode, folder: Path, seed: int, kinds: tuple[NodeKind, ...] = ()
) -> Damaged:
    """Damage a copy of a log dir, in one to four ways by the seed or in those given."""
    pick = random.Random(seed)
    path = folder / "data"
    shutil.copytree(sound.path, path)
    node = Damaged(path, sound)
    for kind in kinds or pick.choices((*NODE_KINDS, log_damage, log_damage), k=pick.randint(1, 4)):
        kind(node, pick)
    return node
