"""A log of the engine's own in a log dir as a broker leaves it, and changes to the files beside its batches."""

from __future__ import annotations

import atexit
import shutil
import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from engine.broker.log.unified_log import UnifiedLog
from engine.check.rules.finding import Finding
from engine.record.memory_records import MemoryRecords
from engine.writing.log_config import LogConfig
from tests.builders import Producer, Rec, batch, end_marker
from tests.clocks import MockClock, MockScheduler
from tests.engine.check.logs import bad, found

START = 1_700_000_000_000
TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"
MARKERS = {7: 150, 8: 120}
"""Batches by number that end what a producer has written."""

Edit = Callable[[bytearray], object]


def log_dir(folder: Path, *, clean: bool = True) -> Path:
    """Three leader epochs, an aborted transaction of producer 7 and a committed one of 8, several segments."""
    shutil.copytree(_made(), folder)
    if not clean:
        (folder / ".kafka_cleanshutdown").unlink()
    return folder


@cache
def _made() -> Path:
    """The log dir that others are copies of."""
    folder = Path(tempfile.mkdtemp()) / "dir"
    atexit.register(shutil.rmtree, folder.parent)
    folder.mkdir()
    config = LogConfig.from_properties(
        {"internal.segment.bytes": "9000", "index.interval.bytes": "400", "retention.ms": "-1"}
    )
    clock = MockClock(START)
    scheduler = MockScheduler(clock)
    with UnifiedLog.create(
        folder / "side-0", config, scheduler, clock=clock, topic_id=TOPIC_ID
    ) as log:
        for number, data in enumerate(_batches()):
            log.append_as_follower(MemoryRecords(data), epoch_of(number))
        end = log.log_end_offset
    scheduler.shutdown()
    write_checkpoint(folder, "recovery-point", f"side 0 {end}")
    write_checkpoint(folder, "replication", f"side 0 {end}")
    write_checkpoint(folder, "log-start")
    text = "#\nnode.id=1\nversion=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAg\n"
    (folder / "meta.properties").write_text(text + "directory.id=sgf5MsZgRTuEMv68ZXKJbg\n")
    (folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":10}')
    return folder


def epoch_of(number: int) -> int:
    """The leader epoch of a batch, by its number."""
    return 0 if number < 60 else 1 if number < 130 else 4


def _batches() -> list[bytes]:
    made: list[bytes] = []
    offset = 0
    sequences = {7: 0, 8: 0}
    for number in range(200):
        time, epoch = START + 1000 * number, epoch_of(number)
        ended = next((each for each, at in MARKERS.items() if at == number), None)
        if ended is not None:
            who = Producer(id=ended)
            made.append(
                end_marker(offset, who, commit=ended == 8, leader_epoch=epoch, timestamp=time)
            )
            offset += 1
            continue
        records = [Rec(b"value %05d" % (offset + at), b"k", time + at) for at in range(4)]
        producer = {3: 7, 5: 8}.get(number % 10) if number >= 100 else None
        if producer is not None and number < MARKERS[producer]:
            who = Producer(id=producer, sequence=sequences[producer])
            sequences[producer] += len(records)
            data = batch(records, offset, producer=who, transactional=True, leader_epoch=epoch)
        else:
            data = batch(records, offset, leader_epoch=epoch)
        made.append(data)
        offset += len(records)
    return made


def write_checkpoint(folder: Path, what: str, *lines: str) -> None:
    """One of a log dir's offset checkpoints."""
    name = {"recovery-point": "recovery-point-offset-checkpoint"}.get(
        what, f"{what}-offset-checkpoint"
    )
    (folder / name).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")


def files(folder: Path, suffix: str, name: str = "side-0") -> list[Path]:
    """A partition's files of some ending that hold anything, by offset."""
    return sorted(path for path in (folder / name).glob(f"*{suffix}") if path.stat().st_size)


def rules(folder: Path) -> set[str]:
    """The rules of all that is found and is no note."""
    return {finding.rule for finding in bad(found(folder))}


def of(folder: Path, rule: str) -> Finding:
    """The one finding of a rule."""
    (finding,) = [each for each in found(folder) if each.rule == rule]
    return finding


def put(form: str, at: int, *values: int) -> Edit:
    """An edit that writes numbers."""
    return lambda data: struct.pack_into(form, data, at, *values)
