"""Log dirs of many copies of real partitions, each with an unreadable sector of its own, and of the whole ones."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.damage.sectors import Batch, batches, segments
from tests.unreadable import sector

SIZES = (512, 4096, 4096, 8192, 16384)
_START_OFFSETS = "log-start-offset-checkpoint"


@dataclass
class Copy:
    """A copy of a partition, with a sector that cannot be read.

    Attributes:
        topic: its own.
        folder, original: of the copy, and of the partition that is whole.
        path, bad: the file with the sector, and where in it.
        hit: the batches that touch the sector, as they lie in the original.
    """

    topic: str
    folder: Path
    original: Path
    path: Path
    bad: tuple[int, int]
    hit: list[Batch]

    @property
    def place(self) -> str:
        """Where the sector is, for people."""
        kind, name = self.original.parent.parent.name, self.original.name[:40]
        return f"{self.topic} ({kind}/{name}/{self.path.name} {self.bad})"

    @property
    def lost(self) -> set[int]:
        """The offsets of the records on the sector."""
        return {offset for batch in self.hit for offset in batch.offsets}


def make_copies(log_dir: Path, seed: int, count: int) -> list[Copy]:
    """A log dir of so many copies."""
    random, paths = Random(seed), segments()
    made = []
    for number in range(count):
        path = random.choice(paths)
        start, end = sector(random.randrange(path.stat().st_size), random.choice(SIZES))
        folder = log_dir / f"s{number:04}-0"
        copy_partition(path.parent, folder)
        touched = [
            batch
            for batch in batches(path.parent)
            if batch.path == path and batch.start < end and start < batch.end
        ]
        made.append(
            Copy(
                folder.name.removesuffix("-0"),
                folder,
                path.parent,
                folder / path.name,
                (start, end),
                touched,
            )
        )
    write_start_offsets(log_dir, {copy.folder.name: copy.original for copy in made})
    return made


def make_originals(log_dir: Path, folders: set[Path]) -> dict[Path, str]:
    """A log dir of partitions that are whole; their topics by the folders that they come from."""
    topics = {folder: f"w{number:04}" for number, folder in enumerate(sorted(folders))}
    for folder, topic in topics.items():
        copy_partition(folder, log_dir / f"{topic}-0")
    write_start_offsets(log_dir, {f"{topic}-0": folder for folder, topic in topics.items()})
    return topics


def copy_partition(source: Path, target: Path) -> None:
    """Copy a partition without its topic's id, which no two topics have in common."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("partition.metadata"))


def write_start_offsets(log_dir: Path, originals: dict[str, Path]) -> None:
    """Add the log start offsets that the originals have."""
    written = log_dir / _START_OFFSETS
    lines = written.read_text().splitlines(keepends=True)[2:] if written.exists() else []
    for name, folder in originals.items():
        known = folder.parent / _START_OFFSETS
        topic, _, number = folder.name.rpartition("-")
        lines += [
            f"{name.removesuffix('-0')} 0 {line.rpartition(' ')[2]}\n"
            for line in (known.read_text().splitlines()[2:] if known.exists() else ())
            if line.startswith(f"{topic} {number} ")
        ]
    written.write_text("".join(["0\n", f"{len(lines)}\n", *lines]))
