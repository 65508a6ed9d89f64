"""Random log dirs of two brokers, of which the records of some keys are erased, and what is left of them by hand.

Logs go from magic 0 to 2, in all codecs, with transactions that commit, abort and stay open, gaps as compaction leaves
them, and several segments. Copies end early; folders and files are set aside. What is left is read by the objects of single
batches, and not by what an erase reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np

from engine.coding.compression import CompressionType
from engine.disk.disk import Disk
from engine.erase.choice import ChosenRecords
from engine.erase.erasing import Erased, erase
from engine.erase.found_files import FoundFile
from engine.log.segment.scan import BatchRun
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from tests import builders
from tests.builders import Aborted, Producer, Rec

START = 1_700_000_000_000
CODECS = {
    0: (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY),
    1: (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4),
    2: tuple(CompressionType),
}


class ChosenKeys:
    """Chooses the records with some keys."""

    undecided = 0

    def __init__(self, keys: set[bytes]) -> None:
        self._keys = keys

    def takes(self, file: FoundFile) -> bool:
        return True

    def of(self, file: FoundFile, run: BatchRun) -> Iterator[ChosenRecords]:
        for columns in run.columns():
            hits = [each for each in range(len(columns)) if columns.key(each) in self._keys]
            yield ChosenRecords(run.table, columns, np.array(hits, np.intp))


@dataclass
class MadeSegment:
    """A segment: its base offset, its batches, and its aborted transactions."""

    base: int
    batches: list[bytes]
    aborted: list[Aborted]


class RandomCluster:
    """Log dirs of two brokers below a folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._draw = Random(seed)
        self._offset = self._clock = 0
        self.people = [f"person-{seed:06}-{each}".encode() for each in range(6)]
        self.chosen = set(self._draw.sample(self.people, self._draw.choice((1, 1, 2, 5))))
        self.log_dirs = [folder / f"broker-{node}" for node in (1, 2)]
        for node, log_dir in enumerate(self.log_dirs, 1):
            log_dir.mkdir(parents=True)
            (log_dir / "meta.properties").write_text(
                f"version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAABA\nnode.id={node}\n"
            )
        for number in range(self._draw.choice((1, 2))):
            self._make_partition(f"clicks-{number}")

    def _make_partition(self, name: str) -> None:
        self._offset = 0
        segments = [self._segment() for _ in range(self._draw.choice((1, 2, 3)))]
        for log_dir in self.log_dirs:
            copy = [replace(each, batches=list(each.batches)) for each in segments]
            if self._draw.random() < 0.3:
                del copy[-1].batches[self._draw.randrange(1, len(copy[-1].batches) + 1) :]
            self._write(log_dir / name, copy)
            if self._draw.random() < 0.3:
                self._set_aside(log_dir / name, segments[0])
            if self._draw.random() < 0.3:
                self._write(log_dir / f"{name}.0123456789abcdef0123456789abcdef-stray", segments)

    def _write(self, folder: Path, segments: list[MadeSegment]) -> None:
        for each in segments:
            builders.write_segment(folder, each.batches, each.base, aborted=each.aborted)

    def _set_aside(self, folder: Path, segment: MadeSegment) -> None:
        ending = self._draw.choice((".deleted", ".cleaned", ".swap"))
        for name, data in builders.segment_files(segment.batches, segment.base).items():
            (folder / f"{name}{ending}").write_bytes(data)

    def _segment(self) -> MadeSegment:
        made = MadeSegment(self._offset, [], [])
        oldest = self._draw.choice((0, 1, 2, 2, 2)) if not made.base else 2
        for magic in range(oldest, 3):
            for _ in range(self._draw.randrange(1, 8)):
                if magic == 2 and self._draw.random() < 0.4:
                    self._transaction(made)
                else:
                    self._batch(made, magic)
        return made

    def _records(self, most: int) -> list[Rec]:
        """Records at ascending offsets, with gaps as of a compacted topic."""
        found = []
        for _ in range(self._draw.randrange(1, most)):
            self._offset += self._draw.choice((0, 0, 0, 1, 3)) if found else 0
            self._clock += self._draw.randrange(-2, 10)
            key = self._draw.choice([*self.people, None, b""])
            unique = b'{"at":%d,"time":%d}' % (self._offset, self._clock)
            value = self._draw.choice([unique * self._draw.choice((1, 50)), b"", None])
            headers = self._draw.choice([(), ((b"trace", b"%d" % self._clock), (b"h", None))])
            found.append(Rec(value, key, START + self._clock, headers, offset=self._offset))
            self._offset += 1
        return found

    def _batch(self, made: MadeSegment, magic: int) -> None:
        base = self._offset
        records = self._records(8)
        codec = self._draw.choice(CODECS[magic])
        if magic == 2:
            owner = self._draw.choice(
                (builders.NO_PRODUCER, Producer(id=9, epoch=1, sequence=base))
            )
            made.batches.append(
                builders.batch(
                    records, base, codec, producer=owner, leader_epoch=base // 40,
                    delete_horizon=self._draw.choice((None, None, START + 10**9)),
                )
            )  # fmt: skip
            return
        data = builders.message_set(
            [each._replace(headers=()) for each in records], base, codec, magic=magic
        )
        made.batches += [bytes(each.raw) for each in batches_in(data)]

    def _transaction(self, made: MadeSegment) -> None:
        first, number = self._offset, 100 + self._offset
        for _ in range(self._draw.randrange(1, 3)):
            base = self._offset
            made.batches.append(
                builders.batch(
                    self._records(5), base, self._draw.choice(CODECS[2]), transactional=True,
                    producer=Producer(id=number, epoch=0, sequence=base - first), leader_epoch=base // 40,
                )
            )  # fmt: skip
        commits = self._draw.random() < 0.5
        made.batches.append(
            builders.end_marker(
                self._offset, Producer(id=number, epoch=0, sequence=-1), commit=commits,
                leader_epoch=self._offset // 40, timestamp=START + self._clock,
            )
        )  # fmt: skip
        if not commits:
            made.aborted.append(Aborted(number, first, self._offset, self._offset + 1))
        self._offset += 1

    def erased(self, target: Path | None) -> Erased:
        """Erase the records of the chosen keys."""
        paths = [str(each) for each in self.log_dirs]
        choice, disk = ChosenKeys(self.chosen), Disk().without_syncs()
        return erase(paths, None if target is None else str(target), choice, disk=disk)

    def problems(self, target: Path) -> list[str]:
        """Return what is wrong with a target, in words."""
        found = []
        for log_dir in self.log_dirs:
            for path in sorted(log_dir.rglob("*")):
                copy = target / log_dir.name / path.relative_to(log_dir)
                if path.is_file() and not copy.is_file():
                    found.append(f"{copy} is missing")
                elif path.is_file() and ".log" in path.name:
                    found += self._differences(path, copy)
                elif path.is_file() and "index" not in path.name:
                    found += [] if path.read_bytes() == copy.read_bytes() else [f"{copy} differs"]
        files = (each for each in target.rglob("*") if each.is_file())
        found += [f"a chosen key is in {path}" for path in files if self._is_in(path)]
        return found

    def _is_in(self, path: Path) -> bool:
        """Whether a chosen key is in the bytes of a file, or in what its batches inflate to."""
        data = path.read_bytes()
        parts = [data]
        if ".log" in path.name:
            parts += [repr(facts_of(batch)).encode() for batch in batches_in(data)]
        return any(key in part for key in self.chosen for part in parts)

    def _differences(self, path: Path, copy: Path) -> Iterator[str]:
        source, made = batches_in(path.read_bytes()), batches_in(copy.read_bytes())
        kept = [each for batch in source for each in facts_of(batch) if each[1] not in self.chosen]
        found = [each for batch in made for each in facts_of(batch)]
        if kept != found:
            yield f"{copy} has other records"
        untouched = {
            bytes(batch.raw)
            for batch in source
            if not any(each[1] in self.chosen for each in facts_of(batch))
        }
        if not untouched <= {bytes(batch.raw) for batch in made}:
            yield f"{copy} lacks an untouched batch"
        if (source[0].base_offset, source[-1].last_offset) != (
            made[0].base_offset,
            made[-1].last_offset,
        ):
            yield f"{copy} begins or ends elsewhere"
        old = [each for each in source if each.magic == 2]
        new = [each for each in made if each.magic == 2 and _is_of(each, old)]
        if list(map(_owner, old)) != list(map(_owner, new)):
            yield f"{copy} has batches of other producers or epochs"


def batches_in(data: bytes) -> list[RecordBatch]:
    """Return the batches of a records file."""
    return list(MemoryRecords(data).batches())


def facts_of(batch: RecordBatch) -> list[tuple[object, ...]]:
    """Return what a consumer gets of a batch's records, and of their batch."""
    return [
        (
            *(each.offset, each.key, each.value, each.headers, each.timestamp, each.sequence),
            *(batch.magic, batch.compression, batch.is_control, batch.is_transactional),
        )
        for each in batch.records()
    ]


def _owner(batch: RecordBatch) -> tuple[object, ...]:
    return (
        *(batch.base_offset, batch.last_offset, batch.leader_epoch, batch.producer_id),
        *(batch.producer_epoch, batch.base_sequence, batch.is_transactional),
    )


def _is_of(batch: RecordBatch, old: list[RecordBatch]) -> bool:
    """Whether a batch stands for one of magic 2, not for the offsets of older messages."""
    return any(each.base_offset == batch.base_offset for each in old)
