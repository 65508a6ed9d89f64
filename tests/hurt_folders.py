"""Partition folders that something happened to: damage of every kind to files of every kind, by a seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

from tests.builders import Producer, Rec, batch, patched, resealed, values

_NOISE = (
    "5.log",
    "+7.log",
    "foo.log",
    "x.index",
    "12.snapshot",
    "notes.txt",
    "bar.snapshot",
    "9.swap",
    "a.cleaned",
)
_PLAIN_NOISE = ("5.log", "+7.log", "12.snapshot", "notes.txt")
"""Names that a broker reads or passes over; those besides end its start."""
_SWAPPABLE = (".log", ".index", ".timeindex", ".txnindex")


class Hurt:
    """Damages a folder in one to four ways.

    Args:
        seed: the same does the same.
        folder: is changed.
        mild: whether to leave out what ends a start more often than not.
    """

    def __init__(self, seed: int, folder: Path, *, mild: bool = False) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.mild = mild

    def hurt(self) -> list[str]:
        """Do it; what was done."""
        acts: list[Callable[[], object]] = [
            *[self._flip_in_log] * 4,
            *[self._flip_in_header] * 4,
            *[self._cut_log] * 3,
            self._zero_run,
            self._zero_tail,
            self._noise_tail,
            self._duplicate_batch,
            self._swap_batches,
            self._remove_batch,
            self._raise_base,
            self._lower_base,
            self._lie_about_length,
            self._other_magic,
            self._other_epoch,
            self._odd_control_batch,
            self._unknown_codec,
            *[self._odd_producer] * 2,
            self._last_of_all_offsets,
            *[self._remove_index] * 2,
            *[self._cut_index] * 2,
            self._noise_in_index,
            self._zeros_in_index,
            self._spoil_txn_index,
            *[self._spoil_snapshot] * 2,
            self._remove_snapshot,
            *[self._spoil_epochs] * 3,
            self._spoil_topic_id,
            *[self._leave_leftovers] * 3,
            *[self._odd_name] * 2,
            self._remove_log,
            self._move_log,
            self._orphan_index,
            self._leave_temporary,
            self._empty_log,
        ]
        if self.mild:
            rough = (self._odd_control_batch, self._last_of_all_offsets, self._move_log)
            acts = [act for act in acts if act not in rough]
        chosen = [
            self.random.choice(acts) for _ in range(self.random.choice([1, 1, 1, 2, 2, 3, 4]))
        ]
        for act in chosen:
            act()
        return [act.__name__ for act in chosen]

    # Records files

    def _logs(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    def _log(self) -> Path | None:
        found = self._logs()
        return self.random.choice([*found, *found[-1:]]) if found else None

    def _batches(self, data: bytes) -> list[tuple[int, int]]:
        found, position = [], 0
        while position + 17 <= len(data):
            size = 12 + struct.unpack_from(">i", data, position + 8)[0]
            if size < 26 or position + size > len(data):
                break
            found.append((position, size))
            position += size
        return found

    def _edit(self, change: Callable[[bytes, int, int], bytes]) -> None:
        """Change one batch of one file."""
        log = self._log()
        data = log.read_bytes() if log else b""
        found = self._batches(data)
        if log and found:
            log.write_bytes(change(data, *self.random.choice(found)))

    def _flip_in_log(self) -> None:
        log = self._log()
        data = bytearray(log.read_bytes()) if log else bytearray()
        if log and data:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
            log.write_bytes(data)

    def _flip_in_header(self) -> None:
        def change(data: bytes, at: int, size: int) -> bytes:
            at += self.random.randrange(min(61, size))
            return patched(data, at, bytes([data[at] ^ (1 << self.random.randrange(8))]))

        self._edit(change)

    def _cut_log(self) -> None:
        if log := self._log():
            data = log.read_bytes()
            log.write_bytes(data[: self.random.randrange(len(data) + 1)])

    def _zero_run(self) -> None:
        if log := self._log():
            data = bytearray(log.read_bytes())
            at = self.random.randrange(len(data) + 1)
            end = min(len(data), at + self.random.choice([1, 20, 500, 5000]))
            data[at:end] = bytes(end - at)
            log.write_bytes(data)

    def _zero_tail(self) -> None:
        if log := self._log():
            log.write_bytes(log.read_bytes() + bytes(self.random.choice([3, 17, 18, 61, 4000])))

    def _noise_tail(self) -> None:
        if log := self._log():
            noise = self.random.randbytes(self.random.choice([3, 17, 18, 61, 600]))
            log.write_bytes(log.read_bytes() + noise)

    def _duplicate_batch(self) -> None:
        self._edit(
            lambda data, at, size: data[: at + size] + data[at : at + size] + data[at + size :]
        )

    def _remove_batch(self) -> None:
        self._edit(lambda data, at, size: data[:at] + data[at + size :])

    def _swap_batches(self) -> None:
        log = self._log()
        data = log.read_bytes() if log else b""
        found = self._batches(data)
        if log and len(found) > 1:
            (at, size), (other, length) = sorted(self.random.sample(found, 2))
            first, second = data[at : at + size], data[other : other + length]
            log.write_bytes(
                data[:at] + second + data[at + size : other] + first + data[other + length :]
            )

    def _shift_base(self, by: int) -> None:
        def change(data: bytes, at: int, _: int) -> bytes:
            base = struct.unpack_from(">q", data, at)[0]
            return patched(data, at, struct.pack(">q", max(-(2**63), min(base + by, 2**63 - 1))))

        self._edit(change)

    def _raise_base(self) -> None:
        self._shift_base(self.random.choice([1, 3, 100, 2**31, 2**40]))

    def _lower_base(self) -> None:
        self._shift_base(-self.random.choice([1, 2, 5, 100, 2**40]))

    def _lie_about_length(self) -> None:
        length = self.random.choice([-5, 0, 13, 14, 30, 48, 49, 70, 10_000, 2**31 - 1])
        self._edit(lambda data, at, _: patched(data, at + 8, struct.pack(">i", length)))

    def _other_magic(self) -> None:
        magic = self.random.choice([0, 1, 3, 7, 127, 255])
        self._edit(lambda data, at, _: patched(data, at + 16, bytes([magic])))

    def _other_epoch(self) -> None:
        epoch = self.random.choice([-1, 0, 1, 999, 2**31 - 1])
        self._edit(lambda data, at, _: patched(data, at + 12, struct.pack(">i", epoch)))

    def _insert(self, made: bytes) -> None:
        """A batch that is right by its checksum, at the end of a file, with the offset that is due there."""
        log = self._log()
        if log is None:
            return
        data = log.read_bytes()
        found = self._batches(data)
        base = int(log.stem) if log.stem.isdigit() else 0
        if found:
            at, _ = found[-1]
            (base,) = struct.unpack_from(">q", data, at)
            if data[at + 16] == 2:
                base += struct.unpack_from(">i", data, at + 23)[0]
            base += 1
        log.write_bytes(data + patched(made, 0, struct.pack(">q", min(max(base, 0), 2**63 - 1))))

    def _odd_control_batch(self) -> None:
        keys = (
            None,
            b"",
            b"\0",
            b"\0\0\0\0",
            b"\0\0\0\1",
            b"\0\0\0\2",
            b"\0\0\0\x09",
            b"\xff\xff\0\0",
            b"\0\7\0\1",
        )
        payloads = (
            None,
            b"",
            b"\0",
            b"\0\0\0\0\0\3",
            b"\xff\xff\0\0\0\3",
            b"\0\x09\0\0\0\1",
            b"\0\0\0",
        )
        record = Rec(self.random.choice(payloads), self.random.choice(keys))
        producer = Producer(id=self.random.choice([-1, 1, 2, 3]))
        self._insert(batch([record], producer=producer, transactional=True, control=True))

    def _odd_producer(self) -> None:
        """A batch of a producer id that Kafka takes for none, or of the largest there is."""
        chance = self.random
        producer = Producer(
            id=chance.choice([-2, -3, -(2**63), 2**63 - 1]), epoch=chance.choice([0, 1])
        )
        made = batch([Rec(b"odd", b"k")], producer=producer, transactional=chance.random() < 0.5)
        if chance.random() < 0.3:
            marker = Rec(b"\0\0\0\0\0\3", b"\0\0\0\1")
            made = batch([marker], producer=producer, transactional=True, control=True)
        self._insert(made)

    def _last_of_all_offsets(self) -> None:
        """The last batch, or one more, ends at the last offset that there is, or just below."""
        last = 2**63 - self.random.choice([1, 1, 2, 3])

        def change(data: bytes, at: int, _: int) -> bytes:
            delta = struct.unpack_from(">i", data, at + 23)[0] if data[at + 16] == 2 else 0
            return patched(data, at, struct.pack(">q", last - max(delta, 0)))

        self._edit(change)

    def _unknown_codec(self) -> None:
        producer = Producer(id=self.random.choice([-1, 5]))
        made = bytearray(batch(values("odd"), producer=producer, transactional=producer.id >= 0))
        made[22] |= self.random.choice([5, 6, 7, 0x25])
        self._insert(resealed(bytes(made)))

    def _empty_log(self) -> None:
        if log := self._log():
            log.write_bytes(b"")

    def _remove_log(self) -> None:
        if log := self._log():
            log.unlink()

    def _move_log(self) -> None:
        if log := self._log():
            log.rename(
                log.with_name(
                    f"{self.random.choice([0, 3, 17, 50, 2**40, 2**63 - 1, 2**63 - 2]):020}.log"
                )
            )

    # Side files

    def _one(self, *endings: str) -> Path | None:
        found = [path for path in sorted(self.folder.iterdir()) if path.suffix in endings]
        return self.random.choice(found) if found else None

    def _remove_index(self) -> None:
        if found := self._one(".index", ".timeindex", ".txnindex"):
            found.unlink()

    def _cut_index(self) -> None:
        if found := self._one(".index", ".timeindex", ".txnindex"):
            data = found.read_bytes()[:2000]
            found.write_bytes(data[: self.random.randrange(len(data) + 1)])

    def _noise_in_index(self) -> None:
        if found := self._one(".index", ".timeindex"):
            found.write_bytes(self.random.randbytes(self.random.choice([4, 8, 24, 120])))

    def _zeros_in_index(self) -> None:
        if found := self._one(".index", ".timeindex"):
            found.write_bytes(
                found.read_bytes()[:800] + bytes(self.random.choice([8, 12, 24, 480]))
            )

    def _spoil_txn_index(self) -> None:
        log = self._log()
        if log is not None:
            version = self.random.choice([0, 0, 1, -1])
            first = self.random.choice([0, 5, 1000])
            entry = struct.pack(
                ">hqqqq", version, 7, first, first + self.random.choice([0, 9]), first
            )
            index = log.with_suffix(".txnindex")
            index.write_bytes(entry + self.random.randbytes(self.random.choice([0, 0, 5])))

    def _spoil_snapshot(self) -> None:
        if found := self._one(".snapshot"):
            data = bytearray(found.read_bytes())
            if data and self.random.random() < 0.7:
                data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
            else:
                data = data[: self.random.randrange(len(data) + 1)]
            found.write_bytes(data)

    def _remove_snapshot(self) -> None:
        if found := self._one(".snapshot"):
            found.unlink()

    def _spoil_epochs(self) -> None:
        texts = (
            "", "0", "0\n", "0\n0\n", "0\n1\n0 0\n", "0\n1\n3 7", "0\n2\n0 0\n", "0\n1\n0 0 0\n", "1\n0\n",
            "x\n", "0\n1\nx 0\n", "0\n1\n-1 0\n", "0\n1\n0 -5\n", "0\n-1\n", "0\n2\n5 0\n3 9\n", "0\n2\n0 0\n1 0\n",
            "0\n3\n0 0\n4 2\n9 100000\n", "0\n1\n 0 0\n", "0\r\n1\r\n2 2\r\n", "0\n1\n99999999999 0\n", "\xff",
        )  # fmt: skip
        if self.mild:
            texts = (
                "", "0\n0\n", "0\n1\n0 0\n", "0\n1\n3 7", "0\n2\n5 0\n3 9\n", "0\n2\n0 0\n1 0\n",
                "0\n3\n0 0\n4 2\n9 100000\n", "0\r\n1\r\n2 2\r\n",
            )  # fmt: skip
        text = self.random.choice(texts)
        (self.folder / "leader-epoch-checkpoint").write_bytes(text.encode("latin-1"))

    def _spoil_topic_id(self) -> None:
        texts = (
            "", "version: 0", "version: 0\ntopic_id: ", "version: x\ntopic_id: cmVjb3JkcyBvZiBsb2dzIQ",
            "version: 0\ntopic_id: cmVjb3JkcyBvZiBsb2dzIQ\n", "version: 5\ntopic_id: cmVjb3JkcyBvZiBsb2dzIQ",
            "version: -1\ntopic_id: cmVjb3JkcyBvZiBsb2dzIQ", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
            "version: 0\ntopic_id: short", "version: 0\ntopic_id: cmVjb3JkcyBvZiBsb2dzIQ==", "version:0\n", "\xff",
        )  # fmt: skip
        if self.mild:
            texts = texts[4:5] + texts[9:10]
        text = self.random.choice(texts)
        (self.folder / "partition.metadata").write_bytes(text.encode("latin-1"))

    def _leave_temporary(self) -> None:
        name = self.random.choice(["leader-epoch-checkpoint.tmp", "partition.metadata.tmp"])
        (self.folder / name).write_bytes(self.random.randbytes(self.random.choice([0, 8])))

    # Names

    def _leave_leftovers(self) -> None:
        log = self._log()
        if log is None or not log.stem.isdigit():
            return
        ending = self.random.choice([".cleaned", ".swap", ".deleted", ".swap", ".swap"])
        moved = self.random.random() < 0.3
        for suffix in _SWAPPABLE:
            source = log.with_suffix(suffix)
            if not source.exists() or self.random.random() < 0.2:
                continue
            target = source.with_name(source.name + ending)
            target.write_bytes(source.read_bytes()[: 1 << 16])
            if moved:
                source.unlink()

    def _odd_name(self) -> None:
        names = _PLAIN_NOISE if self.mild else _NOISE
        (self.folder / self.random.choice(names)).write_bytes(
            self.random.randbytes(self.random.choice([0, 30]))
        )

    def _orphan_index(self) -> None:
        for ending in self.random.sample([".index", ".timeindex", ".txnindex"], 2):
            (self.folder / f"{self.random.randrange(5, 999):020}{ending}").write_bytes(bytes(24))
