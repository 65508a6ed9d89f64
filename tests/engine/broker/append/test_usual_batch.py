"""A usual batch gets its offsets at once exactly as `LogValidator` assigns them, and no other batch does."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, strategies as st

from engine import kernel
from engine.broker.append import usual_batch
from engine.broker.append.append_analysis import AppendTerms
from engine.broker.append.log_validator import LogValidator
from engine.broker.append.usual_batch import StampedBatch
from engine.broker.append.validation_result import OffsetCounter, ValidationResult
from engine.clock import SystemClock
from engine.coding.checksums import crc32c
from engine.coding.compression import Compression, CompressionType
from engine.errors import KafkaStorageError
from engine.record.attributes import TimestampType
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.state.append_origin import AppendOrigin

NOW = 1_700_000_000_000
OFFSET = 1000
PARTITION = TopicPartition("t", 0)
TERMS = AppendTerms(AppendOrigin.CLIENT, 7, assigns_offsets=True)
WINDOW = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)


class FixedClock(SystemClock):
    """A clock that stands."""

    def now_ms(self) -> int:
        return NOW


def produced(
    stamps: list[int] | None = None,
    *,
    codec: CompressionType = CompressionType.NONE,
    key: bytes | None = b"k",
    **about: int,
) -> bytes:
    """A batch as a producer sends it."""
    inside = (SimpleRecord(key, b"value", stamp) for stamp in stamps or [NOW, NOW + 1])
    return bytes(records_of(*inside, compression=codec, **about).buffer)


def changed(batch: bytes, place: int, value: bytes) -> bytes:
    """The batch with other bytes, and the right checksum."""
    data = bytearray(batch)
    data[place : place + len(value)] = value
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


def stamped(
    batch: bytes, config: LogConfig = WINDOW, terms: AppendTerms = TERMS
) -> StampedBatch | None:
    facts = kernel.batch_facts(batch)
    assert facts is not None
    return usual_batch.stamp(MemoryRecords(batch), facts, terms, config, OFFSET, NOW)


def validated(
    batch: bytes, config: LogConfig = WINDOW, terms: AppendTerms = TERMS
) -> tuple[ValidationResult, int]:
    records = MemoryRecords(batch)
    source = next(records.batches()).compression
    counter = OffsetCounter(OFFSET)
    validator = LogValidator(
        records,
        PARTITION,
        FixedClock(),
        source,
        Compression(*(config.compression or (source, None))),
        config.compact,
        terms.to_magic,
        config.message_timestamp_type,
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
        terms.leader_epoch,
        terms.origin,
    )
    return validator.validate(counter), counter.value - 1


batches = st.builds(
    produced,
    st.lists(
        st.sampled_from([-1, NOW - 1001, NOW - 1000, NOW, NOW + 1000, NOW + 1001]), max_size=4
    ),
    codec=st.sampled_from(CompressionType),
    key=st.sampled_from([None, b"k", b"k"]),
    producer_id=st.sampled_from([-1, 5]),
    producer_epoch=st.just(0),
    base_sequence=st.sampled_from([0, 9]),
)
changes = st.sampled_from(
    [(22, bytes([bits])) for bits in (0, 1, 3, 8, 16, 32, 64, 128)]
    + [(23, bytes(4)), (26, b"\x02"), (42, b"\x01"), (53, b"\xff\xff\xff\xff"), (60, b"\x01")]
)
configs = st.builds(
    lambda codec, compact, kind: dataclasses.replace(
        WINDOW, compression_type=codec, compact=compact, message_timestamp_type=kind
    ),
    st.sampled_from(["producer", "producer", "uncompressed", "lz4", "gzip"]),
    st.booleans(),
    st.sampled_from([TimestampType.CREATE_TIME] * 2 + [TimestampType.LOG_APPEND_TIME]),
)


@given(batches, st.none() | changes, configs)
def test_what_is_stamped_at_once_is_what_the_validator_makes(
    batch: bytes, change: tuple[int, bytes] | None, config: LogConfig
) -> None:
    if change is not None:
        batch = changed(batch, *change)
    if kernel.batch_facts(batch) is None:
        return
    found = stamped(batch, config)
    if found is None:
        return
    result, last_offset = validated(batch, config)
    assert bytes(found.records.buffer) == bytes(result.records.buffer)
    assert found.last_offset == last_offset
    assert found.stats == result.conversion_stats
    assert not result.message_size_maybe_changed
    [(last, newest, size)] = found.run.heads
    assert (last, newest, size) == (last_offset, result.max_timestamp_ms, len(batch))
    assert found.run == usual_batch.AppendedRun(
        found.run.heads, [(7, OFFSET)], batch[43:51] == b"\0" * 7 + b"\5"
    )


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize(
    "producer", [{}, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 3}]
)
def test_a_batch_as_producers_send_it_is_stamped_at_once(
    codec: CompressionType, producer: dict[str, int]
) -> None:
    assert stamped(produced(codec=codec, **producer)) is not None


UNUSUAL = {
    "early": produced([NOW - 1001]),
    "late": produced([NOW + 1001]),
    "no timestamp": produced([-1, NOW]),
    "a producer's append time": changed(produced(), 22, b"\x08"),
    "control": changed(produced(), 22, b"\x20"),
    "another count": changed(produced(), 60, b"\x01"),
    "another last offset": changed(produced(), 26, b"\x05"),
    "another largest timestamp": changed(produced(), 42, b"\x00"),
    "a negative sequence": changed(
        produced(producer_id=5, producer_epoch=0, base_sequence=0), 53, b"\xff\xff\xff\xff"
    ),
    "another base offset": bytes(7) + b"\1" + produced()[8:],
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_batch_is_left_to_the_validator(name: str) -> None:
    assert stamped(UNUSUAL[name]) is None


def test_a_log_that_rewrites_batches_leaves_them_to_the_validator() -> None:
    assert stamped(produced(), dataclasses.replace(WINDOW, compression_type="lz4")) is None
    append_time = TimestampType.LOG_APPEND_TIME
    assert (
        stamped(produced(), dataclasses.replace(WINDOW, message_timestamp_type=append_time)) is None
    )
    assert stamped(produced(), terms=TERMS._replace(to_magic=1)) is None
    assert stamped(produced(key=None), dataclasses.replace(WINDOW, compact=True)) is None
    with pytest.raises(KafkaStorageError):
        validated(produced(key=None), dataclasses.replace(WINDOW, compact=True))
