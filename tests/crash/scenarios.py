"""What is done to a log while it is recorded: one thing each, or anything at random."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from engine.coding.compression import CompressionType
from engine.disk.disk import DISK
from engine.files.file_names import offset_index_name, time_index_name
from engine.record.control_records import ControlRecordType
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import MAX_INT32
from engine.writing.segment.segment_files import log_path
from engine.writing.segment.writable_file_records import WritableFileRecords
from tests.crash.driver import PARTITION, Batch, Driver, Promise


def append_flush_roll(driver: Driver) -> None:
    """Segments, flushed and not, in several epochs."""
    driver.open()
    for number in range(12):
        driver.append(1 + number % 3)
        if number % 4 == 3:
            driver.flush()
        if number == 6:
            driver.roll()
        if number % 5 == 4:
            driver.lead()
            driver.checkpoint()


def truncate(driver: Driver) -> None:
    """Off the end: within a segment, over several, to a segment's start, and on from there."""
    driver.open()
    for number in range(14):
        driver.append(2)
        if number % 6 == 5:
            driver.lead()
    driver.flush()
    driver.checkpoint()
    for cut in (2, 9, 4):
        driver.truncate(driver.current[-cut].base_offset)
        driver.append(2)
        driver.append(1)
        driver.flush()
    driver.truncate(driver.log.segments[-1].base_offset)
    driver.append(2)


def retain(driver: Driver) -> None:
    """Old segments go by size, and by the log start."""
    driver.open()
    for number in range(16):
        driver.append(2, producer=number % 3)
    driver.flush()
    driver.checkpoint()
    driver.retain(1400)
    driver.append()
    driver.sleep(2000)
    driver.retain(700)
    driver.checkpoint()
    driver.append()


def delete_records(driver: Driver) -> None:
    """The log start moves within a segment and over segments."""
    driver.open()
    for number in range(12):
        driver.append(2, producer=number % 2)
    driver.flush()
    for at in (1, 5, 9):
        driver.delete_records(driver.current[at].base_offset + 1)
        driver.checkpoint()
        driver.retain()
        driver.sleep(600)
        driver.append()


def checkpoints(driver: Driver) -> None:
    """The log dir's checkpoints are written again and again."""
    driver.open()
    for _ in range(6):
        driver.append()
        driver.flush()
        driver.checkpoint()


def clean_close(driver: Driver) -> None:
    """Closed properly and loaded again."""
    driver.open()
    for _ in range(2):
        driver.append()
        driver.append(producer=1)
        driver.append(3, CompressionType.GZIP)
        driver.reopen()
    driver.close()


def transactions(driver: Driver) -> None:
    """Open, committed and aborted ones over several segments."""
    driver.open()
    driver.begin(1)
    driver.begin(2)
    for number in range(4):
        driver.append(2, producer=1)
        driver.append(1, producer=2)
        driver.append(1)
        if number == 1:
            driver.end(1, ControlRecordType.ABORT)
            driver.flush()
            driver.begin(1)
    driver.end(2, ControlRecordType.COMMIT)
    driver.flush()
    driver.checkpoint()
    driver.begin(2)
    driver.append(2, producer=2)
    driver.end(1, ControlRecordType.ABORT)
    driver.append(1)


def replace(driver: Driver) -> None:
    """Segments are put in the place of others, as compaction does."""
    driver.open()
    driver.begin(1)
    for number in range(16):
        driver.append(2, producer=1)
        if number == 4:
            driver.end(1, ControlRecordType.ABORT)
    driver.flush()
    driver.checkpoint()
    driver.replace(3)
    driver.append()
    driver.sleep(2000)
    driver.replace(2)
    driver.append()


def split(driver: Driver) -> None:
    """A segment whose offsets are too far apart is split while it is loaded."""
    driver.open()
    driver.append()
    driver.close()
    driver.open()


def write_overflowed(driver: Driver) -> None:
    """A log with an overflowed segment, as brokers before 1.1 could leave it."""
    folder = driver.root / str(PARTITION)
    DISK.make_folder(folder)
    base = 0
    for step in (1, 5, 1):
        with WritableFileRecords.open(log_path(folder, base)) as records:
            offset = base
            for number in range(2 * step):
                record = SimpleRecord(b"k", b"value %d" % offset, 10**12 + number)
                built = records_of(record, record, base_offset=offset, partition_leader_epoch=0)
                records.append(built)
                driver.current.extend(map(Batch.of, built.batches()))
                offset += MAX_INT32 // 2 if step > 1 else 2
        for name in (offset_index_name(base), time_index_name(base)):
            DISK.open(folder / name, create=True).close()
        base = offset
    driver.promise = Promise(driver.current[-1].last_offset + 1, 0, (driver.current,))


SCENARIOS: dict[str, Callable[[Driver], None]] = {
    each.__name__: each
    for each in (
        append_flush_roll, truncate, retain, delete_records, checkpoints, clean_close, transactions, replace, split,
    )
}  # fmt: skip


def walk(driver: Driver, random: Random, steps: int) -> None:
    """Anything, in any order."""
    driver.open()
    for _ in range(steps):
        step(driver, random)


def step(driver: Driver, random: Random) -> None:
    """One operation."""
    names, weights = list(STEPS), [weight for _, weight in STEPS.values()]
    STEPS[random.choices(names, weights)[0]][0](driver, random)


def _codec(random: Random) -> CompressionType:
    return random.choice((CompressionType.NONE, CompressionType.NONE, CompressionType.GZIP))


def _append(driver: Driver, random: Random) -> None:
    producer = random.choice((-1, random.randrange(3)))
    driver.append(random.randrange(1, 5), _codec(random), producer)


def _begin(driver: Driver, random: Random) -> None:
    producer = random.randrange(3)
    driver.begin(producer)
    driver.append(1, _codec(random), producer)


def _end(driver: Driver, random: Random) -> None:
    known = driver.log.producer_state.active_producers
    begun = [
        producer
        for producer in sorted(driver.in_transaction)
        if producer in known and known[producer].current_txn_first_offset is not None
    ]
    if begun:
        kind = random.choice((ControlRecordType.ABORT, ControlRecordType.COMMIT))
        driver.end(random.choice(begun), kind)


def _truncate(driver: Driver, random: Random) -> None:
    start = driver.log.log_start_offset
    able = [each.base_offset for each in driver.current if each.base_offset >= start]
    if able:
        driver.truncate(random.choice(able[-6:]))


def _delete_records(driver: Driver, random: Random) -> None:
    first, end = driver.log.log_start_offset, driver.log.log_end_offset
    if end > first:
        driver.delete_records(random.randrange(first, min(first + 12, end)))


STEPS: dict[str, tuple[Callable[[Driver, Random], None], int]] = {
    "append": (_append, 16),
    "begin": (_begin, 4),
    "end": (_end, 4),
    "flush": (lambda driver, _: driver.flush(), 4),
    "roll": (lambda driver, _: driver.roll(), 2),
    "lead": (lambda driver, _: driver.lead(), 2),
    "checkpoint": (lambda driver, _: driver.checkpoint(), 2),
    "truncate": (_truncate, 2),
    "delete records": (_delete_records, 2),
    "retain": (lambda driver, random: driver.retain(random.choice((-1, -1, 1500))), 2),
    "sleep": (lambda driver, random: driver.sleep(random.choice((10, 700, 2000))), 2),
    "replace": (lambda driver, random: driver.replace(random.randrange(1, 4)), 2),
    "reopen": (lambda driver, _: driver.reopen(), 1),
}
