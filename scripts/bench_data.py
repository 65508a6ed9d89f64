"""The data that is measured: partitions written by Kafka's own classes, kept between runs."""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from bench_jvm import generate

from tests.kafka import jars

FIRST_LOG = "00000000000000000000.log"
KIB = 1024
LINKS = 50_000  # of one file; ext4 allows 65,000


@dataclass(frozen=True, slots=True)
class DataSet:
    """How one partition is written; `batch` is the producer's batch.size, 0 for one record a batch."""

    name: str
    codec: str
    batch: int
    value: int
    kind: str = "TEXT"
    share: float = 1.0
    """Of the size that was asked for: slow ones are smaller."""


SETS = (
    DataSet("plain-100b", "none", 16 * KIB, 100),
    DataSet("plain-1kb", "none", 16 * KIB, 1024),
    DataSet("lz4-16k", "lz4", 16 * KIB, 100),
    DataSet("lz4-128k", "lz4", 128 * KIB, 100),
    DataSet("snappy-16k", "snappy", 16 * KIB, 100),
    DataSet("snappy-128k", "snappy", 128 * KIB, 100),
    DataSet("zstd-16k", "zstd", 16 * KIB, 100),
    DataSet("zstd-128k", "zstd", 128 * KIB, 100),
    DataSet("gzip-16k", "gzip", 16 * KIB, 100),
    DataSet("gzip-128k", "gzip", 128 * KIB, 100),
    DataSet("tiny-plain", "none", 0, 100, share=0.3),
    DataSet("tiny-zstd", "zstd", 0, 100, share=0.05),
    DataSet("tiny-lz4", "lz4", 0, 100, share=0.3),
    DataSet("json-200b", "none", 16 * KIB, 200, "JSON"),
)
BY_NAME = {data.name: data for data in SETS}


def cache() -> Path:
    """The folder of the generated data, outside the repository."""
    folder = jars.cache_folder().parent / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def our_environment() -> dict[str, str]:
    """For processes of ours: with compiled modules, as an installed program has them, whatever this process does."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache() / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def log_dir(megabytes: int) -> Path:
    """A log dir for data of that size."""
    folder = cache() / f"log-dir-{megabytes}"
    folder.mkdir(exist_ok=True)
    return folder


def partition(name: str, megabytes: int) -> Path:
    """The folder of a data set's partition; generated the first time."""
    data = BY_NAME[name]
    folder = log_dir(megabytes) / f"{name}-0"
    if not folder.is_dir():
        print(f"generating {folder.name} ...", flush=True)
        size = max(1, int(megabytes * data.share))
        generate(folder, data.codec, data.batch, data.value, size, data.kind)
    return folder


def log_file(name: str, megabytes: int) -> Path:
    """The data set's only segment."""
    return partition(name, megabytes) / FIRST_LOG


def many_segments(codec: str, count: int) -> tuple[Path, int]:
    """A partition of `count` segments, each a copy with other offsets: its folder, records a segment.

    Base offsets are not covered by a batch's checksum and indexes hold relative offsets, so a copy is
    as good as a segment that a broker rolled.
    """
    template = log_dir(1) / f"template-{codec}-0"
    if not template.is_dir():
        generate(template, codec, 16 * KIB, 100, 1, "TEXT")
    batches = _first_batches((template / FIRST_LOG).read_bytes(), 2)
    step = batches[-1][0] + batches[-1][1]
    folder = cache() / f"segments-{count}" / f"{codec}-0"
    done = folder / "leader-epoch-checkpoint"
    if not done.exists():
        print(f"generating {count:,} segments of {codec} ...", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            _write_segment(folder, number * step, batches)
        done.write_text("0\n1\n0 0\n", encoding="ascii")
    return folder, step


def _first_batches(log: bytes, count: int) -> list[tuple[int, int, bytes]]:
    """Of the first batches: relative base offset, records, bytes."""
    found, at = [], 0
    for _ in range(count):
        base, length = struct.unpack_from(">qi", log, at)
        last = struct.unpack_from(">i", log, at + 23)[0]
        found.append((base, last + 1, log[at : at + 12 + length]))
        at += 12 + length
    return found


def _write_segment(folder: Path, base: int, batches: list[tuple[int, int, bytes]]) -> None:
    log, index, times, at = [], [], b"", 0
    for relative, records, data in batches:
        log.append(struct.pack(">q", base + relative) + data[8:])
        if at:  # as Kafka: an entry for each batch but the first, at its last offset
            index.append(struct.pack(">ii", relative + records - 1, at))
        at += len(data)
        times = struct.pack(">qi", struct.unpack_from(">q", data, 35)[0], relative + records - 1)
    stem = folder / f"{base:020d}"
    for suffix, content in (("log", log), ("index", index), ("timeindex", [times])):
        with open(f"{stem}.{suffix}", "wb") as file:
            file.write(b"".join(content))


def many_names(count: int) -> Path:
    """A partition's folder with about that many files, three a segment; the indexes are links to a few."""
    segments = -(-count // 3)
    folder = cache() / f"names-{count}" / "names-0"
    done = folder / "leader-epoch-checkpoint"
    if not done.exists():
        print(f"generating {count:,} files ...", flush=True)
        template, step = many_segments("none", 10)
        batch = _first_batches((template / FIRST_LOG).read_bytes(), 1)[0][2]
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(segments):
            _write_named(folder, number, step, batch)
        done.write_text("0\n1\n0 0\n", encoding="ascii")
    return folder


def _write_named(folder: Path, number: int, step: int, batch: bytes) -> None:
    stem = f"{folder}/{number * step:020d}"
    with open(f"{stem}.log", "wb") as file:
        file.write(struct.pack(">q", number * step) + batch[8:])
    first = f"{folder}/{number // LINKS * LINKS * step:020d}"
    for suffix in ("index", "timeindex"):
        if number % LINKS == 0:
            Path(f"{stem}.{suffix}").touch()
        else:
            os.link(f"{first}.{suffix}", f"{stem}.{suffix}")


def many_partitions(count: int, segments: int = 10) -> Path:
    """A log dir of that many small partitions; their files are links to those of a few."""
    folder = cache() / (
        f"partitions-{count}" if segments == 10 else f"partitions-{count}-{segments}"
    )
    if not folder.is_dir():
        print(f"generating {count:,} partitions ...", flush=True)
        template, _ = many_segments("none", segments)
        made = folder.with_name(f"making-{os.getpid()}")
        for number in range(count):
            own = made / f"topic-{number // 100}-{number % 100}"
            own.mkdir(parents=True)
            first = number // LINKS * LINKS
            linked = made / f"topic-{first // 100}-{first % 100}"
            for file in template.iterdir():
                if number == first:
                    shutil.copyfile(file, own / file.name)
                else:
                    os.link(linked / file.name, own / file.name)
        made.rename(folder)
    return folder
