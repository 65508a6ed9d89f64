"""Logs whose every batch is known, hits on them, and what a rebuilt log dir holds."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.record.fate import Fate
from engine.record.record_batch import make_batch
from tests import builders
from tests.builders import CODECS, Producer, Rec

START = 1_700_000_000_000
TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"


class Fact(NamedTuple):
    """All that a reader is told of a record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    epoch: int
    fate: str


@dataclass
class MadeLog:
    """A partition's folder in a log dir.

    Attributes:
        batches: (segment's base offset, position, bytes) of each, in order.
        epochs: as its checkpoint has them.
    """

    log_dir: Path
    name: str = "orders-0"
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    next_offset: int = 0

    @property
    def folder(self) -> Path:
        return self.log_dir / self.name

    def path(self, base_offset: int) -> Path:
        return self.folder / f"{base_offset:020}.log"

    @property
    def bases(self) -> list[int]:
        return sorted({base for base, _, _ in self.batches})

    def copied_to(self, log_dir: Path) -> MadeLog:
        shutil.copytree(self.log_dir, log_dir)
        return MadeLog(log_dir, self.name, list(self.batches), dict(self.epochs), self.next_offset)


def offsets_of(batch: bytes) -> range:
    """The offsets that a batch's header states."""
    base = int.from_bytes(batch[:8], "big")
    return range(base, builders.last_offset(batch) + 1)


def make_log(
    log_dir: Path,
    random: Random,
    *,
    name: str = "orders-0",
    batches: int = 40,
    segments: int = 3,
    first: int = 0,
    leaders: int = 3,
    transactions: bool = True,
) -> MadeLog:
    """A log as a broker leaves it: codecs, producers, transactions, leader epochs."""
    made = MadeLog(log_dir, name, next_offset=first)
    made.folder.mkdir(parents=True, exist_ok=True)
    changes = {0, *(random.randrange(1, batches) for _ in range(leaders - 1))}
    rolls = {0, *(random.randrange(1, batches) for _ in range(segments - 1))}
    epoch, base, data = -1, first, bytearray()
    open_producers: dict[int, bool] = {}
    for number in range(batches):
        if number in changes:
            epoch += random.choice([1, 1, 2])
            made.epochs[epoch] = made.next_offset
        if number in rolls:
            base, data = made.next_offset, bytearray()
        batch = _random_batch(made.next_offset, random, epoch, open_producers, transactions)
        made.batches.append((base, len(data), batch))
        data += batch
        made.path(base).write_bytes(data)
        made.next_offset = builders.last_offset(batch) + 1
    lines = "".join(f"{each} {at}\n" for each, at in made.epochs.items())
    (made.folder / "leader-epoch-checkpoint").write_text(f"0\n{len(made.epochs)}\n{lines}")
    (made.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    (log_dir / "meta.properties").write_text(
        "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAABA\nnode.id=1\ndirectory.id=6Y0DrLRyRyGEHPlhCN0jIQ\n"
    )
    return made


def _random_batch(
    offset: int, random: Random, epoch: int, open_producers: dict[int, bool], transactions: bool
) -> bytes:
    producer = random.choice([0, 7, 8]) if transactions else 0
    if producer and open_producers.get(producer) and random.random() < 0.4:
        open_producers[producer] = False
        return builders.end_marker(
            offset, Producer(id=producer), commit=random.random() < 0.5, leader_epoch=epoch
        )
    records = [
        Rec(
            random.randbytes(random.choice([0, 5, 60])) if random.random() < 0.9 else None,
            f"k{offset + at}".encode() if random.random() < 0.9 else None,
            START + (offset + at) * 1000 + random.randrange(900),
            [(b"h", None), (b"h", b"x")][: random.randrange(3)],
        )
        for at in range(random.randrange(1, 7))
    ]
    if not producer:
        return builders.batch(records, offset, random.choice(CODECS), leader_epoch=epoch)
    open_producers[producer] = True
    return builders.batch(
        records,
        offset,
        random.choice(CODECS),
        producer=Producer(id=producer, sequence=offset),
        transactional=True,
        leader_epoch=epoch,
    )


def facts_of(log_dir: Path, name: str = "orders-0", *, below: bool = False) -> dict[int, Fact]:
    """Every record that a reader of a log dir is shown, by offset; none may come twice."""
    found: dict[int, Fact] = {}
    source = open_source(str(log_dir))
    try:
        view = source.partitions()[name].view()
        start = 0 if below else view.log_start_offset
        for segment, item in view.runs(start):
            assert isinstance(item, BatchRun), item
            fates = view.fates(segment, item)
            for row, each in enumerate(item.table):
                at = int(each["position"]) - item.start_position
                data = item.buffer[at : at + int(each["size"])]
                fate = "NONE" if fates is None else Fate(int(fates[row])).name
                for record in make_batch(data, file_position=0, path=None).records():
                    if start <= record.offset < view.log_end_offset:
                        assert record.offset not in found
                        found[record.offset] = fact(record, fate)
    finally:
        source.close()
    return found


def holes(report: dict[str, Any]) -> list[tuple[int, int]]:
    """The missing offsets of a partition's report."""
    return [(each["firstOffset"], each["nextOffset"]) for each in report["losses"]]


def fact(record: Any, fate: str) -> Fact:
    headers = tuple((header.key, header.value) for header in record.headers)
    return Fact(
        *(record.offset, record.timestamp, record.key, record.value),
        *(headers, record.leader_epoch, fate),
    )


def state_of(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Everything below a folder: bytes, times, modes; to be the same later."""
    found: dict[str, tuple[Any, ...]] = {}
    for at, folders, files in os.walk(folder):
        for name in [*folders, *files, "."]:
            path = os.path.join(at, name)
            status = os.lstat(path)
            facts = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)
            content = Path(path).read_bytes() if os.path.isfile(path) else b""
            found[path] = (*facts, hashlib.sha256(content).digest())
    return found


Hit = Callable[[MadeLog, Random], tuple[set[int], bool]]
"""Damages a log; the numbers of the batches that are not as they were, and whether every other is still there."""


def _overwrite(made: MadeLog, random: Random, new: Callable[[bytes], bytes]) -> set[int]:
    """Write bytes over others; only those that the checksum or the frame hold to account count."""
    base = random.choice(made.bases)
    old = made.path(base).read_bytes()
    at = random.randrange(len(old))
    changed = new(old[at : at + random.choice([1, 1, 4, 64, 500])])
    data = old[:at] + changed + old[at + len(changed) :]
    made.path(base).write_bytes(data)
    return {
        number
        for number, (of, position, batch) in enumerate(made.batches)
        if of == base and data[position : position + len(batch)] != batch
    }


def flipped(made: MadeLog, random: Random) -> tuple[set[int], bool]:
    def flip(data: bytes) -> bytes:
        return bytes([data[0] ^ 1 << random.randrange(8)])

    return _overwrite(made, random, flip), True


def noise(made: MadeLog, random: Random) -> tuple[set[int], bool]:
    return _overwrite(made, random, lambda data: random.randbytes(len(data))), True


def zeroed(made: MadeLog, random: Random) -> tuple[set[int], bool]:
    return _overwrite(made, random, lambda data: bytes(len(data))), True


def cut_short(made: MadeLog, random: Random) -> tuple[set[int], bool]:
    base = random.choice(made.bases)
    data = made.path(base).read_bytes()
    size = random.randrange(len(data))
    made.path(base).write_bytes(data[:size])
    return {
        number
        for number, (of, position, batch) in enumerate(made.batches)
        if of == base and position + len(batch) > size
    }, True


def _rearranged(
    made: MadeLog, random: Random, arrange: Callable[[list[bytes], int], set[int]]
) -> set[int]:
    """Put the batches of a segment together anew."""
    base = random.choice(made.bases)
    numbers = [number for number, each in enumerate(made.batches) if each[0] == base]
    batches = [made.batches[number][2] for number in numbers]
    lost = arrange(batches, random.randrange(len(batches)))
    made.path(base).write_bytes(b"".join(batches))
    return {numbers[each] for each in lost}


def removed(made: MadeLog, random: Random) -> tuple[set[int], bool]:
    def remove(batches: list[bytes], at: int) -> set[int]:
        del batches[at]
        return {at}

    return _rearranged(made, random, remove), True


def duplicated(made: MadeLog, random: Random) -> tuple[set[int], bool]:
    def duplicate(batches: list[bytes], at: int) -> set[int]:
        batches.insert(random.randrange(len(batches) + 1), batches[at])
        return set()

    return _rearranged(made, random, duplicate), True


def swapped(made: MadeLog, random: Random) -> tuple[set[int], bool]:
    def swap(batches: list[bytes], at: int) -> set[int]:
        other = max(at - 1, 0)
        batches[at], batches[other] = batches[other], batches[at]
        return set()

    return _rearranged(made, random, swap), True


def inserted(made: MadeLog, random: Random) -> tuple[set[int], bool]:
    def insert(batches: list[bytes], at: int) -> set[int]:
        batches.insert(at, random.choice([bytes(300), random.randbytes(70)]))
        return set()

    return _rearranged(made, random, insert), True


HITS: dict[str, Hit] = {
    hit.__name__: hit
    for hit in (
        *(flipped, noise, zeroed, cut_short),
        *(removed, duplicated, swapped, inserted),
    )
}


def batch_facts(made: MadeLog, numbers: set[int]) -> dict[int, bytes]:
    """The bytes of some batches by the offsets they hold."""
    return {
        offset: made.batches[number][2]
        for number in numbers
        for offset in offsets_of(made.batches[number][2])
    }
