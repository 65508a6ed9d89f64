"""Hostile sources that ask for more memory or time than they are worth: log dirs for `bounds_soak`.

Each is made once; large ones are sparse or compressed, so that none takes much of the disk.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from engine.budgets import MiB
from engine.coding.compression import CompressionType, compress
from engine.coding.varint import encode_varint
from engine.files.file_names import FileKind
from tests.builders import (
    Aborted,
    Producer,
    Rec,
    SnapshotEntry,
    batch,
    end_marker,
    offset_index,
    patched,
    producer_snapshot,
    record_body,
    sized,
    time_index,
    transaction_index,
    write_segment,
)

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
START = 1_700_000_000_000
LARGE_VALUE = 59 * 10**6
"""Bytes of a value that a batch may hold under the default budget for inflated records."""
Make = Callable[[Path, float], None]
SOURCES: dict[str, Make] = {}
"""Makes a log dir in a folder that is there; the number says how large, 1 being the size that is promised."""


def source(make: Make) -> Make:
    """Put a source into the table by the name of its function."""
    SOURCES[make.__name__.replace("_", "-")] = make
    return make


def make_source(name: str, folder: Path, scale: float = 1.0) -> Path:
    """A log dir of that name below a folder; left alone when it is there."""
    path = folder / f"{name}-{scale:g}"
    if not path.exists():
        staged = path.with_name(path.name + ".part")
        staged.mkdir(parents=True)
        SOURCES[name](staged, scale)
        staged.rename(path)
    return path


def _log(folder: Path, base: int = 0, name: str = "t-0") -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    return folder / name / f"{base:020}.log"


def _write(path: Path, batches: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        for data in batches:
            file.write(data)


def _one_value(offset: int, value: bytes, codec: CompressionType = NONE) -> bytes:
    section = compress(codec, sized(record_body(0, 0, None, value)))
    return batch(
        [],
        offset,
        codec,
        section=section,
        record_count=1,
        last_offset_delta=0,
        base_timestamp=START,
        max_timestamp=START,
    )


def _size(scale: float, of: int = LARGE_VALUE) -> int:
    return max(int(of * scale), 1000)


# -- batches and records --------------------------------------------------------------------------


@source
def bombs(folder: Path, scale: float) -> None:
    """Compressed payloads of every codec that claim or make too much."""
    from tests.damage.test_bombs import BOMBS

    made, offset = [], 0
    for data, _ in list(BOMBS.values()) * max(int(10 * scale), 1):
        made.append(patched(data, 0, struct.pack(">q", offset)))
        made.append(batch([Rec(b"good")], offset + 3))
        offset += 4
    _write(_log(folder), made)


@source
def lying_counts(folder: Path, scale: float) -> None:
    """Batches that state more records, or fewer, than they hold, and lengths beyond the file."""
    made, offset = [], 0
    for _ in range(max(int(2000 * scale), 1)):
        for codec in (NONE, GZIP, ZSTD):
            for count in (2**31 - 1, 100_000_000, 0, -1, 2):
                one = batch([Rec(b"v")], offset, codec, record_count=count, last_offset_delta=0)
                made.append(one)
                offset += 1
        made.append(batch([Rec(b"v")], offset, last_offset_delta=2**20))
        offset += 2**20 + 1
    made.append(patched(batch([Rec(b"v")], offset), 8, struct.pack(">i", 2**31 - 1)))
    _write(_log(folder), made)


@source
def huge_batches(folder: Path, scale: float) -> None:
    """Plain batches close to the budget of 256 MiB, one after the other."""
    rng = np.random.default_rng(1)
    value = rng.integers(0, 256, _size(scale, MiB), np.uint8).tobytes()
    section = b"".join(sized(record_body(number, 0, b"k", value)) for number in range(250))
    with _log(folder).open("wb") as file:
        for number in range(3):
            file.write(
                batch(
                    [],
                    number * 250,
                    section=section,
                    record_count=250,
                    last_offset_delta=249,
                    base_timestamp=START,
                    max_timestamp=START,
                )
            )


@source
def huge_plain_values(folder: Path, scale: float) -> None:
    """Plain batches of one value each of nearly 256 MiB: bytes, and control characters."""
    rng = np.random.default_rng(1)
    size = _size(scale, 250 * MiB)
    with _log(folder).open("wb") as file:
        file.write(_one_value(0, rng.integers(0, 256, size, np.uint8).tobytes()))
        file.write(_one_value(1, b"\1" * size))


def _values(folder: Path, value: bytes, count: int = 30) -> None:
    one = _one_value(0, value, ZSTD)
    with _log(folder).open("wb") as file:
        for number in range(count):
            file.write(patched(one, 0, struct.pack(">q", number)))


@source
def huge_values_of_text(folder: Path, scale: float) -> None:
    """30 batches of one value of 59 MB each."""
    _values(folder, ("é kafka " * (_size(scale) // 9)).encode())


@source
def huge_values_of_bytes(folder: Path, scale: float) -> None:
    """30 batches of one value of 59 MB each that are no text."""
    _values(folder, b"\xff\0" * (_size(scale) // 2))


@source
def huge_values_of_controls(folder: Path, scale: float) -> None:
    """As above, of characters that take six bytes each in a record line."""
    _values(folder, b"\1" * _size(scale), 10)


@source
def huge_values_of_json(folder: Path, scale: float) -> None:
    """As above, of one JSON array each."""
    _values(folder, b"[" + b'{"a":1},' * (_size(scale) // 8) + b"0]")


@source
def huge_values_incompressible(folder: Path, scale: float) -> None:
    """30 plain batches of one value of 59 MB each."""
    rng = np.random.default_rng(1)
    value = rng.integers(0, 256, _size(scale), np.uint8).tobytes()
    with _log(folder).open("wb") as file:
        for number in range(10):
            file.write(_one_value(number, value))


@source
def huge_headers(folder: Path, scale: float) -> None:
    """Records with a header of 20 MB, and with 10,000 headers."""
    many = [(b"h%d" % number, b"v") for number in range(10_000)]
    made = [
        batch([Rec(b"v", headers=[(b"n" * 100, b"\1" * _size(scale, 20 * 10**6))])], 2 * n, ZSTD)
        for n in range(5)
    ]
    made.insert(3, batch([Rec(b"v", headers=many)] * 20, 5, ZSTD))
    made[4:] = [patched(data, 0, struct.pack(">q", 100 + n)) for n, data in enumerate(made[4:])]
    _write(_log(folder), made)


def _tiny(count: int, offset: int, codec: CompressionType = ZSTD) -> bytes:
    bodies = (sized(record_body(number, 0, None, None)) for number in range(count))
    return batch(
        [],
        offset,
        codec,
        section=compress(codec, b"".join(bodies)),
        record_count=count,
        last_offset_delta=count - 1,
        base_timestamp=START,
        max_timestamp=START,
    )


@source
def tiny_records(folder: Path, scale: float) -> None:
    """Batches of 800,000 and of 1,000,000 records."""
    counts = [800_000, 1_000_000, 1_000_000, 100_000, 1_000_000]
    made, offset = [], 0
    for count in counts:
        some = max(int(count * scale), 1)
        made.append(_tiny(some, offset))
        offset += some
    _write(_log(folder), made)


@source
def tiny_batches(folder: Path, scale: float) -> None:
    """2,000,000 batches of one record: 140 MB of headers."""
    one = np.frombuffer(batch([Rec(b"")]), np.uint8)
    count = max(int(2_000_000 * scale), 10)
    table = np.tile(one, (count, 1))
    table[:, :8] = np.arange(count, dtype=">i8").view(np.uint8).reshape(-1, 8)
    _log(folder).write_bytes(table.tobytes())


# -- many of them ---------------------------------------------------------------------------------


@source
def many_segments(folder: Path, scale: float) -> None:
    """20,000 segments of one batch."""
    (folder / "t-0").mkdir()
    one = batch([Rec(b"value", b"key", START)])
    for number in range(max(int(20_000 * scale), 10)):
        path = folder / "t-0" / f"{number:020}"
        path.with_suffix(".log").write_bytes(patched(one, 0, struct.pack(">q", number)))
        path.with_suffix(".index").write_bytes(b"")
        path.with_suffix(".timeindex").write_bytes(time_index([(START, number)], number))


@source
def many_partitions(folder: Path, scale: float) -> None:
    """20,000 partitions of one record."""
    one = batch([Rec(b"value", b"key", START)])
    for number in range(max(int(20_000 * scale), 10)):
        (folder / f"topic{number % 100}-{number // 100}").mkdir()
        name = f"topic{number % 100}-{number // 100}"
        _log(folder, name=name).write_bytes(one)


@source
def many_producers(folder: Path, scale: float) -> None:
    """200,000 producers with a batch each, and a snapshot of them."""
    count = max(int(200_000 * scale), 10)
    made = [
        batch([Rec(b"v", None, START)], number, producer=Producer(id=number, sequence=0))
        for number in range(count)
    ]
    entries = [SnapshotEntry(number, 0, 0, number, 0, START) for number in range(count)]
    _write(_log(folder), made)
    _write(_log(folder, count), [batch([Rec(b"v")], count)])
    _log(folder, count).with_suffix(".snapshot").write_bytes(producer_snapshot(entries))


@source
def many_transactions(folder: Path, scale: float) -> None:
    """100,000 aborted transactions, and 50,000 that are open."""
    made: list[bytes] = []
    aborted = []
    for number in range(max(int(100_000 * scale), 10)):
        who = Producer(id=number % 1000, sequence=number // 1000)
        at = 2 * number
        made.append(batch([Rec(b"v", None, START)], at, producer=who, transactional=True))
        made.append(end_marker(at + 1, who, commit=False))
        aborted.append(Aborted(who.id, at, at + 1, at + 2))
    for number in range(max(int(50_000 * scale), 10)):
        who = Producer(id=10_000 + number, sequence=0)
        made.append(batch([Rec(b"v")], len(made), producer=who, transactional=True))
    _write(_log(folder), made)
    _log(folder).with_suffix(".txnindex").write_bytes(transaction_index(aborted))


@source
def many_groups(folder: Path, scale: float) -> None:
    """300,000 groups with a committed offset each."""

    def text(data: bytes) -> bytes:
        return struct.pack(">h", len(data)) + data

    count, made = max(int(300_000 * scale), 10), []
    for first in range(0, count, 1000):
        records = []
        for number in range(first, min(first + 1000, count)):
            key = struct.pack(">h", 1) + text(b"group-%d" % number) + text(b"t") + bytes(4)
            value = struct.pack(">hqi", 3, number, -1) + text(b"") + struct.pack(">q", START)
            records.append(Rec(value, key, START))
        made.append(batch(records, first, LZ4))
    _write(_log(folder, name="__consumer_offsets-0"), made)
    _log(folder).write_bytes(batch([Rec(b"v")]))


# -- files ----------------------------------------------------------------------------------------


def _sparse(path: Path, size: int, data: bytes = b"") -> None:
    """A file that is a hole but for its first bytes; as large as the file system takes."""
    with path.open("wb") as file:
        file.write(data)
        while True:
            try:
                file.truncate(size)
                return
            except OSError:
                size //= 2


def _good_partition(folder: Path, name: str = "t-0", base: int = 0, files: int = 2) -> None:
    for number in range(files):
        first = base + 3 * number
        values = [Rec(b"v%d" % n, b"k", START + n) for n in range(3)]
        write_segment(folder / name, [batch(values, first)], first, index_interval=0)


def _sparse_file(kind: str, size: int, data: bytes = b"") -> None:
    def make(folder: Path, scale: float) -> None:
        _good_partition(folder)
        at = 0 if kind != ".snapshot" else 3
        path = folder / "t-0" / (f"{at:020}{kind}" if kind.startswith(".") else kind)
        old = path.read_bytes() if path.exists() else data
        _sparse(path, max(int(size * scale), len(old) + 4096), old)

    make.__doc__ = f"A sparse {kind} in a partition."
    SOURCES[f"sparse-{kind.strip('.')}"] = make


GiB = 1024 * MiB
_sparse_file(".log", 8192 * GiB)
_sparse_file(".index", 100 * GiB, offset_index([(2, 0)]))
_sparse_file(".timeindex", 100 * GiB)
_sparse_file(".txnindex", 100 * GiB, transaction_index([Aborted(1, 0, 2, 3)]))
_sparse_file(".snapshot", 100 * GiB, producer_snapshot([SnapshotEntry(1)]))
_sparse_file("leader-epoch-checkpoint", 100 * GiB, b"0\n1\n0 0\n")
_sparse_file("partition.metadata", 100 * GiB, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")


def _sparse_top(name: str, data: bytes) -> None:
    def make(folder: Path, scale: float) -> None:
        _good_partition(folder)
        _sparse(folder / name, max(int(100 * GiB * scale), 8192), data)

    make.__doc__ = f"A sparse {name} in the log dir."
    SOURCES[f"sparse-{name.strip('.')}"] = make


_sparse_top("meta.properties", b"version=1\ncluster.id=c\nnode.id=1\n")
_sparse_top("recovery-point-offset-checkpoint", b"0\n1\nt 0 3\n")
_sparse_top("replication-offset-checkpoint", b"0\n1\nt 0 3\n")
_sparse_top("log-start-offset-checkpoint", b"0\n1\nt 0 0\n")
_sparse_top("cleaner-offset-checkpoint", b"0\n1\nt 0 0\n")
_sparse_top(".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":5}')


@source
def sparse_kraft(folder: Path, scale: float) -> None:
    """A metadata log whose log, snapshot and quorum-state are sparse."""
    _good_partition(folder, "__cluster_metadata-0")
    inside = folder / "__cluster_metadata-0"
    size = max(int(100 * GiB * scale), 8192)
    _sparse(inside / f"{3:020}-0000000001.checkpoint", size, batch([Rec(b"v")]))
    _sparse(inside / "quorum-state", size, b'{"leaderId":1}')
    with (inside / f"{3:020}.log").open("r+b") as file:
        file.truncate(size)


@source
def sparse_offsets_topic(folder: Path, scale: float) -> None:
    """Sparse logs of the coordinators' topics."""
    for topic in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
        _good_partition(folder, f"{topic}-0")
        with (folder / f"{topic}-0" / f"{3:020}.log").open("r+b") as file:
            file.truncate(max(int(8192 * GiB * scale), 8192))


@source
def islands_in_a_hole(folder: Path, scale: float) -> None:
    """A log of 1 TiB with a batch every 10 MiB in a stretch of 20 GiB, and nothing else."""
    with _log(folder).open("wb") as file:
        for number in range(max(int(2000 * scale), 2)):
            file.seek(number * 10 * MiB + 3)
            file.write(batch([Rec(b"v")], number))
        file.truncate(1024 * GiB)


def _full(path: Path, size: int, line: bytes) -> None:
    block = line * (MiB // len(line))
    with path.open("wb") as file:
        for _ in range(max(size // len(block), 1)):
            file.write(block)


@source
def large_side_files(folder: Path, scale: float) -> None:
    """Side files of 300 MiB that hold what they should: indexes, snapshots and checkpoints."""
    _good_partition(folder)
    size, inside = int(300 * MiB * scale), folder / "t-0"
    _full(inside / f"{0:020}.index", size, struct.pack(">ii", 1, 0))
    _full(inside / f"{0:020}.timeindex", size, struct.pack(">qi", START, 1))
    _full(inside / f"{0:020}.txnindex", size, struct.pack(">hqqqq", 0, 1, 0, 1, 2))
    _full(inside / "leader-epoch-checkpoint", size, b"5 7\n")
    _full(inside / "partition.metadata", size, b"version: 0\n")
    _full(folder / "recovery-point-offset-checkpoint", size, b"t 0 3\n")
    _full(folder / "meta.properties", size, b"version=1\n")
    count = max(size // 62, 1)
    body = struct.pack(">i", count) + bytes(58) * count
    (inside / f"{3:020}.snapshot").write_bytes(struct.pack(">hI", 1, 0) + body)


@source
def checkpoints_within_budget(folder: Path, scale: float) -> None:
    """Checkpoints just below the budget of 64 MiB, every line of which is right."""
    _good_partition(folder)
    inside = folder / "t-0"
    count = max(int(4_000_000 * scale), 1)
    epochs = "".join(f"{number} {number}\n" for number in range(count))
    (inside / "leader-epoch-checkpoint").write_text(f"0\n{count}\n{epochs}")
    offsets = "".join(f"topic{number} 0 3\n" for number in range(count * 3 // 4))
    text = f"0\n{count * 3 // 4}\n{offsets}"
    for name in ("recovery-point", "replication", "log-start"):
        (folder / f"{name}-offset-checkpoint").write_text(text)
    entries = [SnapshotEntry(number) for number in range(max(int(1_000_000 * scale), 1))]
    (inside / f"{3:020}.snapshot").write_bytes(producer_snapshot(entries))


@source
def deep_names(folder: Path, scale: float) -> None:
    """Folders inside folders, names of 255 bytes, control characters and broken UTF-8."""
    _good_partition(folder)
    deep = folder / "t-0"
    for _ in range(max(int(300 * scale), 1)):
        deep = deep / "d"
        deep.mkdir()
    for number in range(max(int(20_000 * scale), 1)):
        (folder / "t-0" / (f"{number:05}" + "x" * 250)).touch()
    for name in (b"\x1b[31m-0", b"\xff\xfe-0", b"a\nb-0", "‮-0".encode()):
        (Path(str(folder)) / name.decode("utf-8", "surrogateescape")).mkdir()


def all_kinds() -> set[str]:
    """The kinds of files that a sparse source is made of; the tests compare them with FileKind."""
    return {kind.value for kind in FileKind}


__all__ = ["SOURCES", "encode_varint", "make_source"]
