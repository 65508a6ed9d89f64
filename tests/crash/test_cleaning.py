"""Crashes and failing calls while a log is cleaned: the last record of each key is there, and nothing that was not."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from engine.broker.cleaning.cleaner_state import CleanerState
from engine.broker.cleaning.log_cleaner import CleanerConfig, LogCleaner
from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import DISK, Disk
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.record import Record
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from tests.clocks import MockClock, MockScheduler
from tests.conformance.unified_log_steps import AppendOrigin
from tests.crash.failing import FailingDisk, Failures
from tests.crash.judge import quiet
from tests.crash.recording import (
    RecordingDisk,
    State,
    materialize,
    random_plain_state,
    random_state,
)

STATES = int(os.environ.get("KAFKAFS_CLEANING_STATES") or 80)
FAULTS = int(os.environ.get("KAFKAFS_CLEANING_FAULTS") or 40)
PARTITION = TopicPartition("log", 0)
CONFIG = LogConfig(
    segment_size=700,
    index_interval=100,
    compact=True,
    delete=False,
    min_cleanable_ratio=0.0,
    file_delete_delay_ms=500,
)
KEYS = 6
ABORTED, NEW = b"aborted", b"new"


def open_log(root: Path, disk: Disk = DISK, *, recovery_point: int = 0) -> UnifiedLog:
    clock = MockClock()
    return UnifiedLog.create(
        root / "log-0",
        CONFIG,
        MockScheduler(clock),
        clock=clock,
        last_shutdown_clean=False,
        recovery_point=recovery_point,
        disk=disk,
    )


def fill(root: Path) -> None:
    """Several segments in which keys come again and again, an aborted transaction among them."""
    log = open_log(root)
    for number in range(40):
        records = [
            SimpleRecord(b"%d" % (key % KEYS), b"%d" % (number + key), 10**12 + number)
            for key in range(number, number + 2)
        ]
        log.append_as_leader(records_of(*records), 0)
        if number in (5, 20):
            doomed = SimpleRecord(b"%d" % KEYS, ABORTED, 10**12)
            sequence = 0 if number == 5 else 1
            log.append_as_leader(
                records_of(
                    doomed,
                    producer_id=7,
                    producer_epoch=0,
                    base_sequence=sequence,
                    is_transactional=True,
                ),
                0,
            )
            marker = end_transaction_marker(
                EndTransactionMarker(ControlRecordType.ABORT, 0),
                producer_id=7,
                producer_epoch=0,
                timestamp=10**12,
            )
            log.append_as_leader(marker, 0, AppendOrigin.COORDINATOR, transaction_version=0)
    log.flush(force_active_segment=True)
    log.close()


def clean(root: Path, disk: Disk) -> UnifiedLog:
    """Clean, append, clean again, and let the old files go."""
    log = open_log(root, disk)
    log.update_high_watermark(log.log_end_offset)
    config = CleanerConfig(dedupe_buffer_size=24 * 100, io_buffer_size=2048)
    cleaner = LogCleaner([root], {PARTITION: log}, config, clock=log.log_folder.clock, disk=disk)
    for _ in range(2):
        cleaner.clean_once()
        log.append_as_leader(records_of(SimpleRecord(b"0", NEW, 10**12)), 0)
        log.roll()
        log.flush(force_active_segment=True)
        log.update_high_watermark(log.log_end_offset)
        log.log_folder.clock.sleep(600)
    return log


def data_in(log: UnifiedLog) -> dict[int, Record]:
    return {
        record.offset: record
        for segment in log.segments
        for batch in segment.log.batches()
        if not batch.is_control
        for record in batch.records()
    }


def last_of_each_key(records: dict[int, Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records.values() if record.value != ABORTED}


def problems_in(root: Path, before: dict[int, Record]) -> Iterator[str]:
    """What is wrong with a log after a crash or a failure; `before` is what it held when it was flushed."""
    log = open_log(root)
    # And once more when it was cleaned again.
    for again in ("", " after a cleaning"):
        data = data_in(log)
        last = last_of_each_key(data)
        for key, value in last_of_each_key(before).items():
            if last.get(key) not in (value, NEW):
                yield f"key {key!r} is {last.get(key)!r}, not {value!r}{again}"
        for offset, record in data.items():
            known = before.get(offset)
            if record.value == NEW:
                continue
            if known is None or (known.key, known.value) != (record.key, record.value):
                yield f"offset {offset} is {record}{again}"
            if record.value == ABORTED and not log.collect_aborted_transactions(offset, offset + 1):
                yield f"offset {offset} was aborted and counts as committed{again}"
        if log.log_end_offset <= max(before):
            yield f"the log ends at {log.log_end_offset}{again}"
        for path in (root / "log-0").iterdir():
            if path.suffix in (".cleaned", ".swap"):
                yield f"{path.name} is left{again}"
        checkpoint = CleanerState([root], {PARTITION: log}).checkpoints.all().get(PARTITION, 0)
        if checkpoint > log.log_end_offset:
            yield f"the checkpoint is {checkpoint}, the log ends at {log.log_end_offset}{again}"
        log.close_handlers()
        if not again:
            log = clean(root, DISK)


@pytest.fixture
def before(tmp_path: Path) -> dict[int, Record]:
    """What the flushed log in `tmp_path` / made holds."""
    root = tmp_path / "made"
    root.mkdir()
    fill(root)
    log = open_log(root)
    data = data_in(log)
    log.close()
    assert len(log.segments) > 5
    assert sum(record.value == ABORTED for record in data.values()) == 2
    return data


def states(disk: RecordingDisk, random: Random) -> Iterator[State]:
    for number in range(STATES):
        crash = random.randrange(disk.recording.clock + 1)
        if number % 3 == 0:
            yield random_plain_state(disk.recording, crash, random)
        else:
            yield random_state(disk.recording, crash, random, in_order=number % 3 == 1)


def test_no_crash_while_a_log_is_cleaned_loses_the_last_record_of_a_key(
    tmp_path: Path, before: dict[int, Record]
) -> None:
    disk = RecordingDisk(tmp_path / "made")
    with quiet():
        cleaned = clean(tmp_path / "made", disk)
        assert len(data_in(cleaned)) < len(before) / 2
        cleaned.close_handlers()
        failures = []
        for number, state in enumerate(states(disk, Random(5))):
            root = tmp_path / f"crash-{number}"
            materialize(state.tree, root)
            last = disk.recording.calls[max(0, state.crash - 3) : state.crash]
            failures += [
                f"{each} ({state.what}; after {last})" for each in problems_in(root, before)
            ]
    assert not failures, "\n".join(failures)


def test_no_failing_call_while_a_log_is_cleaned_loses_the_last_record_of_a_key(
    tmp_path: Path, before: dict[int, Record]
) -> None:
    random = Random(6)
    made = RecordingDisk(tmp_path / "made")
    with quiet():
        counting = Failures(None, errno.EIO, sticky=False)
        start = random_state(made.recording, 0, random, in_order=True).tree
        materialize(start, tmp_path / "counted")
        clean(tmp_path / "counted", FailingDisk(counting)).close_handlers()
        failures = []
        for number in range(FAULTS):
            root = tmp_path / f"fault-{number}"
            materialize(start, root)
            code = random.choice([errno.EIO, errno.ENOSPC])
            fault = Failures(random.randrange(counting.calls), code, sticky=random.random() < 0.5)
            with suppress(OSError):
                clean(root, FailingDisk(fault)).close_handlers()
            failures += [f"{each} ({fault.struck})" for each in problems_in(root, before)]
    assert not failures, "\n".join(failures)
