"""What Kafka's LogCleanerParameterizedIntegrationTest asks: a cleaner's thread, all codecs, all formats."""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.cleaning.log_cleaner import CleanerConfig, LogCleaner
from engine.broker.log.unified_log import UnifiedLog
from engine.clock import SYSTEM_CLOCK
from engine.coding.compression import CompressionType
from engine.record.attributes import TimestampType
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import NO_TIMESTAMP, TopicPartition
from engine.writing.log_config import LogConfig
from tests.clocks import MockClock, MockScheduler

CODECS = [
    CompressionType.NONE,
    CompressionType.GZIP,
    CompressionType.SNAPPY,
    CompressionType.LZ4,
    CompressionType.ZSTD,
]
LEGACY_CODECS = CODECS[:-1]
PARTITIONS = [TopicPartition("log", number) for number in range(3)]
PARTITION = PARTITIONS[0]
LARGE_KEY = 20


class Message(NamedTuple):
    key: int
    value: str
    offset: int


def latest_of(messages: Iterable[Message]) -> dict[int, Message]:
    """Of each key the last message."""
    return {message.key: message for message in messages}


def large_message(magic: int, codec: CompressionType) -> tuple[str, MemoryRecords]:
    letters = string.ascii_letters + string.digits
    value = "".join(random.Random(0).choices(letters, k=128))
    record = SimpleRecord(str(LARGE_KEY).encode(), value.encode())
    return value, records_of(record, magic=magic, compression=codec)


class IntegrationBench:
    """A log dir with compacted logs and a cleaner whose threads run until the test ends."""

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self.clock = MockClock(SYSTEM_CLOCK.now_ms())
        self.scheduler = MockScheduler(self.clock)
        self.count = 0
        self.cleaners: list[LogCleaner] = []

    def config(self, **config: object) -> LogConfig:
        small = {
            "max_message_size": 128,
            "segment_size": 2048,
            "max_index_size": 100 * 1024,
            "file_delete_delay_ms": 1000,
            "compact": True,
            "delete": False,
            "min_cleanable_ratio": 0.0,
        }
        return LogConfig(**{**small, **config})  # type: ignore[arg-type]

    def cleaner(self, partitions: list[TopicPartition], config: LogConfig) -> LogCleaner:
        logs = {
            partition: UnifiedLog.create(
                self.log_dir / f"{partition.topic}-{partition.partition}",
                config,
                self.scheduler,
                clock=self.clock,
                max_transaction_timeout_ms=5 * 60 * 1000,
            )
            for partition in partitions
        }
        buffer = max(2, config.max_message_size // 2)
        how = CleanerConfig(
            dedupe_buffer_size=4 * 1024 * 1024, io_buffer_size=buffer, backoff_ms=250
        )
        cleaner = LogCleaner([self.log_dir], logs, how, clock=self.clock)
        self.cleaners.append(cleaner)
        return cleaner

    def write_dups(
        self,
        log: UnifiedLog,
        keys: int,
        dups: int,
        codec: CompressionType,
        *,
        start_key: int = 0,
        magic: int = 2,
    ) -> list[Message]:
        """Append each key some times, a record a batch."""
        written = []
        for _ in range(dups):
            for key in range(start_key, start_key + keys):
                record = SimpleRecord(str(key).encode(), str(self.count).encode())
                records = records_of(record, magic=magic, compression=codec)
                info = log.append_as_leader(records, 0, to_magic=magic)
                log.update_high_watermark(log.log_end_offset)
                written.append(Message(key, str(self.count), info.first_offset))
                self.count += 1
        return written

    def write_dups_at_once(
        self,
        log: UnifiedLog,
        keys: int,
        dups: int,
        codec: CompressionType,
        *,
        start_key: int = 0,
        magic: int,
    ) -> list[Message]:
        """Append each key some times, all in one call."""
        named = [key for _ in range(dups) for key in range(start_key, start_key + keys)]
        values = range(self.count, self.count + len(named))
        self.count += len(named)
        now = SYSTEM_CLOCK.now_ms()
        records = records_of(
            *(
                SimpleRecord(str(key).encode(), str(value).encode(), now)
                for key, value in zip(named, values, strict=True)
            ),
            magic=magic,
            compression=codec,
        )
        info = log.append_as_leader(records, 0, to_magic=magic)
        log.update_high_watermark(log.log_end_offset)
        offsets = range(info.first_offset, info.last_offset + 1)
        return [
            Message(key, str(value), offset)
            for key, value, offset in zip(named, values, offsets, strict=True)
        ]


@pytest.fixture
def bench(tmp_path) -> Iterator[IntegrationBench]:
    made = IntegrationBench(tmp_path)
    yield made
    for cleaner in made.cleaners:
        cleaner.shutdown()
        for log in cleaner.logs.values():
            log.close()


def read(log: UnifiedLog) -> list[Message]:
    return [
        Message(int(record.key or b""), (record.value or b"").decode(), record.offset)
        for segment in log.segments
        for record in segment.log.records()
    ]


def assert_cleaned_up_to(cleaner: LogCleaner, offset: int) -> None:
    assert cleaner.await_cleaned(PARTITION, offset, 60_000)


def assert_holds(log: UnifiedLog, written: list[Message], size_before: int) -> None:
    assert latest_of(read(log)) == latest_of(written)
    assert log.size < size_before


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.conformance("LogCleanerParameterizedIntegrationTest.cleanerTest")
def test_cleaner(bench, codec):
    large_value, large = large_message(2, codec)
    cleaner = bench.cleaner(PARTITIONS, bench.config(max_message_size=large.size))
    log = cleaner.logs[PARTITION]
    written = bench.write_dups(log, 100, 3, codec)
    size = log.size
    cleaner.start()
    assert_cleaned_up_to(cleaner, log.active_segment.base_offset)
    assert_holds(log, written, size)
    info = log.append_as_leader(large, 0)
    log.update_high_watermark(log.log_end_offset)
    written.append(Message(LARGE_KEY, large_value, info.first_offset))
    written += bench.write_dups(log, 100, 3, codec, start_key=LARGE_KEY + 1)
    assert_cleaned_up_to(cleaner, log.active_segment.base_offset)
    assert_holds(log, written, size)
    # A partition that is gone is taken out of the checkpoint.
    cleaner.shutdown()
    cleaner.logs.pop(PARTITION).close()
    cleaner.state.checkpoints.update(bench.log_dir, remove=PARTITION)
    checkpoint = OffsetCheckpointFile(bench.log_dir / "cleaner-offset-checkpoint")
    assert PARTITION not in checkpoint.read()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.conformance(
    "LogCleanerParameterizedIntegrationTest.testCleansCombinedCompactAndDeleteTopic"
)
def test_cleans_combined_compact_and_delete_topic(bench, codec):
    retention = 100_000
    config = bench.config(retention_ms=retention, delete=True)

    def run_and_check(keys: int) -> tuple[LogCleaner, UnifiedLog, list[Message]]:
        cleaner = bench.cleaner([PARTITION], config)
        log = cleaner.logs[PARTITION]
        written = bench.write_dups(log, keys, 3, codec)
        size = log.size
        log.update_high_watermark(log.log_end_offset)
        first_dirty = log.active_segment.base_offset
        cleaner.start()
        assert_cleaned_up_to(cleaner, first_dirty)
        assert log.size < size
        return cleaner, log, written

    cleaner, log, _ = run_and_check(100)
    end = log.log_end_offset
    for segment in log.segments:
        segment.files.set_last_modified(bench.clock.ms - 2 * retention)
    for _ in range(1000):
        if log.log_start_offset == end and len(log.segments) == 1:
            break
        SYSTEM_CLOCK.sleep(10)
    assert log.log_start_offset == end
    assert len(log.segments) == 1
    cleaner.shutdown()
    log.close()
    cleaner, log, written = run_and_check(20)
    assert latest_of(read(log)) == latest_of(written)


def assert_converted_to_v2(
    log: UnifiedLog, codec: CompressionType, timestamp_type: TimestampType, only_v0: set[int]
) -> None:
    """All batches are of magic 2; keys that were written in magic 0 only have no timestamps."""
    for segment in log.segments:
        for batch in segment.log.batches():
            assert batch.magic == 2
            records = list(batch.records())
            if codec is CompressionType.NONE:
                assert len(records) == 1
            assert records
            if int(records[0].key or b"") in only_v0:
                assert batch.timestamp_type is TimestampType.CREATE_TIME
            else:
                assert batch.timestamp_type is timestamp_type
            for record in records:
                has_time = record.timestamp != NO_TIMESTAMP
                assert has_time == (int(record.key or b"") not in only_v0)


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.conformance(
    "LogCleanerParameterizedIntegrationTest.testCleanerWithMessageFormatV0V1V2"
)
def test_cleaner_with_message_format_v0_v1_v2(bench, codec):
    large_value, large = large_message(0, codec)
    # Offsets that the leader gives can compress less well than those of the producer.
    spare = 0 if codec is CompressionType.NONE else 6
    config = bench.config(max_message_size=large.size + spare)
    cleaner = bench.cleaner(PARTITIONS, config)
    log = cleaner.logs[PARTITION]
    append_time = TimestampType.LOG_APPEND_TIME
    log.update_config(
        bench.config(max_message_size=large.size + spare, message_timestamp_type=append_time)
    )
    written = bench.write_dups(log, 100, 3, codec, magic=0)
    size = log.size
    cleaner.start()
    assert_cleaned_up_to(cleaner, log.active_segment.base_offset)
    assert_holds(log, written, size)
    only_v0 = {message.key for message in written}
    written += bench.write_dups(log, 40, 3, codec, magic=0)
    info = log.append_as_leader(large, 0, to_magic=0)
    log.update_high_watermark(log.log_end_offset)
    written.append(Message(LARGE_KEY, large_value, info.first_offset))
    newer = bench.write_dups(log, 40, 3, codec, start_key=30, magic=1)
    newer += bench.write_dups(log, 5, 3, codec, start_key=15, magic=2)
    only_v0 -= {message.key for message in newer}
    log.roll()
    assert_cleaned_up_to(cleaner, log.active_segment.base_offset)
    assert_holds(log, written + newer, size)
    assert_converted_to_v2(log, codec, append_time, only_v0)


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.conformance(
    "LogCleanerParameterizedIntegrationTest.testCleaningNestedMessagesWithV0V1"
)
def test_cleaning_nested_messages_with_v0_v1(bench, codec):
    config = bench.config(max_message_size=192, segment_size=256)
    cleaner = bench.cleaner(PARTITIONS, config)
    log = cleaner.logs[PARTITION]
    v0 = bench.write_dups_at_once(log, 2, 3, codec, magic=0)
    v0 += bench.write_dups_at_once(log, 2, 2, codec, start_key=3, magic=0)
    v1 = bench.write_dups_at_once(log, 2, 2, codec, start_key=4, magic=1)
    v1 += bench.write_dups_at_once(log, 2, 2, codec, start_key=4, magic=1)
    v1 += bench.write_dups_at_once(log, 2, 2, codec, start_key=6, magic=1)
    only_v0 = {message.key for message in v0} - {message.key for message in v1}
    log.roll()
    size = log.size
    cleaner.start()
    first_dirty = log.active_segment.base_offset
    assert first_dirty >= len(v0 + v1)
    assert_cleaned_up_to(cleaner, first_dirty)
    assert_holds(log, v0 + v1, size)
    assert_converted_to_v2(log, codec, TimestampType.CREATE_TIME, only_v0)
