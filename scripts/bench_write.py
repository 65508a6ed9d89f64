"""Appending as follower and as leader, and recovery: our writing classes beside Kafka's in a JVM."""

from __future__ import annotations

import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import bench_data
from bench_jvm import Peer
from bench_report import Report, Sample, timed

from engine.broker.log.unified_log import UnifiedLog
from engine.clock import SYSTEM_CLOCK
from engine.record.memory_records import MemoryRecords
from engine.units import TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from engine.writing.log_config import LogConfig
from engine.writing.scheduler import ThreadScheduler
from engine.writing.segment import segment_recovery
from engine.writing.segment.batch_heads import batch_heads
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager

CONFIG = LogConfig()
PARTITION = TopicPartition("written", 0)
LARGEST = 100  # megabytes
ONE_BATCH = 1
MEBIBYTE = 1 << 20
APPENDS = (
    ("segment", "plain-100b", ONE_BATCH),
    ("follower", "plain-100b", ONE_BATCH),
    ("follower", "plain-100b", MEBIBYTE),
    ("follower", "lz4-16k", ONE_BATCH),
    ("leader", "plain-100b", ONE_BATCH),
    ("leader", "lz4-16k", ONE_BATCH),
)
APPEND_TARGETS = {ONE_BATCH: "wall 0.7", MEBIBYTE: "wall 1"}
"""One write of the records, and one of each index: with small calls Kafka, which maps its indexes, makes a third of these.

One batch a call is bounded by Python: 49 calls of functions as follower, 58 as leader (tests/engine/writing/log/
test_append_calls.py), three system calls. 1 MiB a call is bounded by the system's copy of the bytes.
"""
RECOVERIES = ("plain-100b", "lz4-16k", "tiny-plain")
RECOVER_TARGET = "wall 0.33"
"""Within three times of the JVM."""


def requests(file: Path, most: int, *, produced: bool) -> list[MemoryRecords]:
    """The file's batches, up to so many bytes of whole batches at a time.

    With `produced`, each has offsets from 0 on, as a producer sends it.
    """
    buffer = bytearray(file.read_bytes())
    data = memoryview(buffer)
    found, start, at = [], 0, 0
    while at < len(data):
        following = at + 12 + int(struct.unpack_from(">i", data, at + 8)[0])
        if at > start and following - start > most:
            found.append(MemoryRecords(data[start:at]))
            start = at
        if produced:
            buffer[at : at + 8] = bytes(8)
        at = following
    found.append(MemoryRecords(data[start:at]))
    return found


def append_to_segment(batches: list[MemoryRecords], folder: Path) -> Sample:
    """Appends, with nothing above the segment."""
    folder.mkdir()
    segment = WritableSegment.open(folder, 0, CONFIG, SYSTEM_CLOCK)

    def run() -> None:
        for records in batches:
            last = 0
            for head in batch_heads(records):
                last = head[0]
            segment.append(last, records)

    sample = timed(run)
    segment.close_handlers()
    return sample


def append_to_log(batches: list[MemoryRecords], folder: Path, *, leads: bool) -> Sample:
    """Appends as a broker does."""
    with ThreadScheduler() as scheduler:
        log = UnifiedLog.create(folder, CONFIG, scheduler)

        def run() -> None:
            append = log.append_as_leader if leads else log.append_as_follower
            for records in batches:
                append(records, 0)

        sample = timed(run)
        log.close_handlers()
    return sample


def recover(folder: Path) -> Sample:
    """Recovers the segment that lies in a folder."""
    segment = WritableSegment.open(folder, 0, CONFIG, SYSTEM_CLOCK, file_already_exists=True)
    producers = ProducerStateManager(PARTITION, folder, 300_000)
    checkpoint = LeaderEpochCheckpointFile(folder / "leader-epoch-checkpoint")
    epochs = LeaderEpochFileCache(PARTITION, checkpoint)

    def run() -> None:
        truncated = segment_recovery.recover(segment, producers, epochs)
        assert truncated == 0, truncated

    sample = timed(run)
    segment.close_handlers()
    return sample


def run_append(report: Report, megabytes: int) -> None:
    """Rows of the group `append`: megabytes of batches a second."""
    megabytes = min(megabytes, LARGEST)
    with (
        Peer("WriterPeer.java") as peer,
        tempfile.TemporaryDirectory(dir=bench_data.cache()) as made,
    ):
        folder = Path(made, "written-0")

        def fresh(action: Callable[[], Sample]) -> Sample:
            shutil.rmtree(folder, ignore_errors=True)
            sample = action()
            shutil.rmtree(folder, ignore_errors=True)
            return sample

        for how, name, most in APPENDS:
            file = bench_data.log_file(name, megabytes)
            batches = requests(file, most, produced=how == "leader")

            def ours(how: str = how, batches: list[MemoryRecords] = batches) -> Sample:
                if how == "segment":
                    return fresh(lambda: append_to_segment(batches, folder))
                return fresh(lambda: append_to_log(batches, folder, leads=how == "leader"))

            def theirs(how: str = how, file: Path = file, most: int = most) -> Sample:
                return fresh(lambda: peer.run(how, file, folder, most).sample)

            size = file.stat().st_size
            label = f"{how}, {name}, {'a batch' if most == ONE_BATCH else '1 MiB'} a call"
            row = report.compare(
                "append",
                label,
                size / 1e6,
                "MB/s",
                ours,
                theirs,
                target=APPEND_TARGETS[most],
                warm=3,
            )
            row.note = f"{size / 1e6 / row.ours / len(batches) * 1e6:.0f} us a call"
            print(f"  {row.note}", file=sys.stderr)


def run_recover(report: Report, megabytes: int) -> None:
    """Rows of the group `recover`: megabytes of records file a second."""
    megabytes = min(megabytes, LARGEST)
    with (
        Peer("WriterPeer.java") as peer,
        tempfile.TemporaryDirectory(dir=bench_data.cache()) as made,
    ):
        for name in RECOVERIES:
            file = bench_data.log_file(name, megabytes)
            folder = Path(made, f"{name}-0")
            folder.mkdir()
            os.link(file, folder / file.name)
            report.compare(
                "recover",
                name,
                file.stat().st_size / 1e6,
                "MB/s",
                lambda folder=folder: recover(folder),
                lambda folder=folder: peer.run("recover", folder).sample,
                target=RECOVER_TARGET,
                warm=3,
            )
