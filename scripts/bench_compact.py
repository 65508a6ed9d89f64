"""Compaction: our Cleaner beside Kafka's, over the same logs with the same memory for keys."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import bench_data
from bench_jvm import Peer
from bench_report import Report, Sample, timed

from engine.broker.cleaning.cleaner import Cleaner
from engine.broker.cleaning.log_to_clean import LogToClean
from engine.broker.cleaning.throttler import Throttler
from engine.broker.log.unified_log import UnifiedLog
from engine.clock import SYSTEM_CLOCK
from engine.coding.compression import CompressionType
from engine.index.offset_map import HashedOffsetMap
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT64
from engine.writing.log_config import LogConfig
from engine.writing.scheduler import ThreadScheduler

SEGMENT = 16 << 20
CONFIG = LogConfig(segment_size=SEGMENT, compact=True, delete=False)
MAP_BYTES = 32 << 20
IO_BUFFER = 256 << 10
LOAD_FACTOR = 0.9
LARGEST = 60  # megabytes
RECORDS_A_BATCH = 140
START = 1_700_000_000_000


class Data(NamedTuple):
    """A log to compact: which codec, and which part of its records has the key of a later one."""

    name: str
    codec: CompressionType
    superseded: float


SETS = (
    Data("plain, half of it stays", CompressionType.NONE, 0.5),
    Data("plain, all of it stays", CompressionType.NONE, 0.0),
    Data("plain, a hundredth stays", CompressionType.NONE, 0.99),
    Data("lz4, half of it stays", CompressionType.LZ4, 0.5),
)


def batches(data: Data, megabytes: int) -> Iterator[MemoryRecords]:
    """Batches of 16 KiB and records of 100 bytes with keys in any order."""
    rng = random.Random(data.name)
    count = megabytes * 10_000
    keys = [*range(max(1, round(count * (1 - data.superseded))))]
    keys += rng.choices(keys, k=count - len(keys))
    rng.shuffle(keys)
    words = [rng.randbytes(rng.randrange(2, 10)).hex().encode() for _ in range(1000)]
    for first in range(0, count, RECORDS_A_BATCH):
        yield records_of(
            *(
                SimpleRecord(b"key-%012d" % key, b" ".join(rng.choices(words, k=7)), START + first)
                for key in keys[first : first + RECORDS_A_BATCH]
            ),
            base_offset=first,
            compression=data.codec,
            partition_leader_epoch=0,
        )


def folder_of(data: Data, megabytes: int) -> Path:
    """The log's folder; written the first time. Its last segment is empty, so that all others can be cleaned."""
    name = data.name.replace(", ", "-").replace(" ", "-")
    folder = bench_data.log_dir(megabytes) / f"compacted-{name}-0"
    if not folder.is_dir():
        print(f"generating {folder.name} ...", flush=True)
        making = folder.with_name(f"making-{name}-0")
        shutil.rmtree(making, ignore_errors=True)
        with ThreadScheduler() as scheduler, UnifiedLog.create(making, CONFIG, scheduler) as log:
            for records in batches(data, megabytes):
                log.append_as_follower(records, 0)
            log.roll()
            log.flush(force_active_segment=True)
        making.rename(folder)
    return folder


def compact(folder: Path) -> Sample:
    """Cleans all but the active segment of the log in a folder."""
    with ThreadScheduler() as scheduler:
        log = UnifiedLog.create(folder, CONFIG, scheduler, recovery_point=MAX_INT64)
        cleaner = Cleaner(
            HashedOffsetMap(MAP_BYTES),
            SYSTEM_CLOCK,
            io_buffer_size=IO_BUFFER,
            load_factor=LOAD_FACTOR,
            throttler=Throttler(float("inf"), SYSTEM_CLOCK),
            check_done=lambda partition: None,
        )
        dirty = LogToClean.of(log, 0, log.active_segment.base_offset)
        sample = timed(lambda: cleaner.clean(dirty))
        log.close_handlers()
    return sample


def run(report: Report, megabytes: int) -> None:
    """Rows of the group `compact`: megabytes of records files a second."""
    megabytes = min(megabytes, LARGEST)
    with (
        Peer("WriterPeer.java") as peer,
        tempfile.TemporaryDirectory(dir=bench_data.cache()) as made,
    ):
        for data in SETS:
            source = folder_of(data, megabytes)
            copy = Path(made, source.name)

            def fresh(source: Path = source, copy: Path = copy) -> Path:
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(source, copy)
                os.sync()
                return copy

            def theirs(fresh: Callable[[], Path] = fresh) -> Sample:
                return peer.run("compact", fresh(), SEGMENT, MAP_BYTES, IO_BUFFER).sample

            size = sum(path.stat().st_size for path in source.glob("*.log"))
            report.compare(
                "compact",
                data.name,
                size / 1e6,
                "MB/s",
                lambda fresh=fresh: compact(fresh()),
                theirs,
                target="cpu 1.5",
                warm=2,
            )
