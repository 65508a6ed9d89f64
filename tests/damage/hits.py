"""Single random hits on the files of a partition, and what each must cost.

A hit knows which batches it changed and where their remains lie. A batch is broken when bytes changed that its
checksum covers, or its frame; a batch whose offset or leader epoch alone changed reads as another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

OFFSET, LENGTH, EPOCH, MAGIC = range(8), range(8, 12), range(12, 16), 16


class Batch(NamedTuple):
    """A batch of a clean segment: its place, its kind and the lines of its records."""

    start: int
    end: int
    magic: int
    is_control: bool
    lines: tuple[bytes, ...]


class Region(NamedTuple):
    """Bytes [start, end) of a changed file that an error line has to touch."""

    start: int
    end: int


@dataclass
class Hit:
    """A changed file.

    Attributes:
        what: what was done, for a report.
        data: the file's new bytes; None: the file is gone.
        lost: batches, by number, whose lines must not be shown any more.
        altered: batches whose lines may be others now.
        extra: batches whose lines may be shown twice, or no more.
        errors: where error lines must be.
        keeps_order: whether the other lines come in the same order.
    """

    what: str
    data: bytes | None
    lost: set[int] = field(default_factory=set)
    altered: set[int] = field(default_factory=set)
    extra: set[int] = field(default_factory=set)
    errors: list[Region] = field(default_factory=list)
    keeps_order: bool = True

    @property
    def touched(self) -> set[int]:
        """All batches that are not as they were."""
        return self.lost | self.altered | self.extra


def overwritten(data: bytes, batches: list[Batch], at: int, new: bytes, what: str) -> Hit:
    """The hit of some bytes written over others."""
    new = new[: len(data) - at]
    changed = data[:at] + new + data[at + len(new) :]
    hit = Hit(f"{what} at {at}, {len(new)} bytes", changed)
    for number, batch in enumerate(batches):
        if batch.end <= at or batch.start >= at + len(new):
            continue
        old, now = data[batch.start : batch.end], changed[batch.start : batch.end]
        places = {place for place in range(len(old)) if old[place] != now[place]}
        outside = {*OFFSET, *EPOCH} if batch.magic == 2 else {*OFFSET}
        if not places:
            continue
        if places <= outside:
            hit.altered.add(number)
            continue
        hit.lost.add(number)
        if any(changed[batch.start :]):  # zeros up to the end of a file are room, not damage
            hit.errors.append(Region(batch.start, batch.end))
    return hit


def flip(data: bytes, batches: list[Batch], random: Random) -> Hit:
    """One bit; a third of them in a header."""
    at = random.randrange(len(data))
    if random.random() < 0.33:
        batch = random.choice(batches)
        at = batch.start + random.randrange(min(61, batch.end - batch.start))
    return overwritten(data, batches, at, bytes([data[at] ^ 1 << random.randrange(8)]), "flip")


def burst(data: bytes, batches: list[Batch], random: Random) -> Hit:
    """Some bytes of noise."""
    size = random.choice([1, 2, 4, 8, 64, 512])
    return overwritten(data, batches, random.randrange(len(data)), random.randbytes(size), "burst")


def zeros(data: bytes, batches: list[Batch], random: Random) -> Hit:
    """A run of zeros, often of whole sectors."""
    size = random.choice([1, 16, 61, 200, 512, 4096])
    at = random.randrange(len(data))
    if size >= 512 and random.random() < 0.5:
        at -= at % 512
    return overwritten(data, batches, at, bytes(size), "zeros")


def shifted(what: str, data: bytes, batches: list[Batch], changed: bytes) -> Hit:
    """The hit of bytes that came or went: batches that are still there whole cost nothing.

    What lies between two of these has to have an error line, but for zeros up to the end: that is room.
    """
    hit = Hit(what, changed)
    end = 0
    for number, batch in enumerate(batches):
        at = changed.find(data[batch.start : batch.end], end)
        if at < 0:
            hit.lost.add(number)
            continue
        if at > end:
            hit.errors.append(Region(end, at))
        end = at + batch.end - batch.start
    if any(changed[end:]):
        hit.errors.append(Region(end, len(changed)))
    return hit


def cut(data: bytes, batches: list[Batch], random: Random) -> Hit:
    """The end of the file is gone."""
    at = random.choice([random.randrange(len(data)), random.choice(batches).start])
    return shifted(f"cut at {at}", data, batches, data[:at])


def removed_bytes(data: bytes, batches: list[Batch], random: Random) -> Hit:
    """Bytes in the middle are gone and what follows has moved."""
    at, size = random.randrange(len(data)), random.choice([1, 7, 61, 300])
    changed = data[:at] + data[at + size :]
    return shifted(f"{size} bytes removed at {at}", data, batches, changed)


def inserted_bytes(data: bytes, batches: list[Batch], random: Random) -> Hit:
    """Noise in between, at a border or in the middle of a batch."""
    at = random.choice([random.randrange(len(data)), random.choice(batches).start])
    noise = random.randbytes(random.choice([1, 12, 61, 700]))
    changed = data[:at] + noise + data[at:]
    return shifted(f"{len(noise)} bytes inserted at {at}", data, batches, changed)


def some_batches(batches: list[Batch], random: Random) -> tuple[int, int]:
    """Up to three batches in a row."""
    first = random.randrange(len(batches))
    return first, min(first + random.randint(1, 3), len(batches))


def removed_batches(data: bytes, batches: list[Batch], random: Random) -> Hit:
    """Whole batches are gone: as after compaction, nothing tells."""
    first, last = some_batches(batches, random)
    kept = data[: batches[first].start] + data[batches[last - 1].end :]
    return Hit(f"batches {first} to {last} removed", kept, lost=set(range(first, last)))


def doubled_batches(data: bytes, batches: list[Batch], random: Random) -> Hit:
    """Whole batches come twice in a row."""
    first, last = some_batches(batches, random)
    start, end = batches[first].start, batches[last - 1].end
    hit = Hit(f"batches {first} to {last} doubled", data[:end] + data[start:end] + data[end:])
    hit.extra = set(range(first, last))
    hit.errors = [Region(end, end + end - start)]
    return hit


def swapped_batches(data: bytes, batches: list[Batch], random: Random) -> Hit:
    """Two batches have changed places."""
    if len(batches) < 2:
        return flip(data, batches, random)
    one, other = sorted(random.sample(range(len(batches)), 2))
    first, second = batches[one], batches[other]
    changed = (
        data[: first.start]
        + data[second.start : second.end]
        + data[first.end : second.start]
        + data[first.start : first.end]
        + data[second.end :]
    )
    hit = Hit(f"batches {one} and {other} swapped", changed, keeps_order=False)
    hit.extra = set(
        range(one, other + 1)
    )  # each contradicts another one; those with most records count
    hit.errors = [Region(first.start, second.end)]
    return hit


LOG_HITS = (
    *(flip, flip, flip, flip, burst, zeros, cut, removed_bytes, inserted_bytes),
    *(removed_batches, doubled_batches, swapped_batches),
)


def side_hit(data: bytes, other: bytes, random: Random) -> Hit:
    """Damage to a file beside the records; it costs no record."""
    kind = random.randrange(8)
    at = random.randrange(max(len(data), 1))
    if kind == 0:
        return Hit("gone", None)
    if kind == 1:
        return Hit(f"cut at {at}", data[:at])
    if kind == 2:
        return Hit("zeros", bytes(len(data)))
    if kind == 3:
        return Hit("zeros behind", data + bytes(random.choice([1, 8, 5000])))
    if kind == 4:
        return Hit("noise", random.randbytes(random.choice([1, 8, 12, 34, 4096])))
    if kind == 5:
        return Hit("of another segment", other)
    if kind == 6 or not data:
        return Hit("noise behind", data + random.randbytes(random.choice([1, 8, 12, 34])))
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 20])):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return Hit("flipped", bytes(changed))
