import pytest
from hypothesis import given, strategies as st

from engine.budgets import Budgets
from engine.coding.compression import CompressionType
from engine.errors import DecompressionError, LimitExceededError
from engine.record.default_records import DefaultRecordBatch
from engine.record.encoding.batch_rewrite import rewrite_batch
from engine.record.encoding.records_builder import RecordsBuilder
from tests.builders import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    Producer,
    Rec,
    batch,
    patched,
    resealed,
    values,
)

RECORDS = st.lists(
    st.builds(
        Rec,
        st.none() | st.binary(max_size=100),
        st.none() | st.binary(max_size=3),
        st.integers(-1, 9) | st.integers(0, 2**62),
        st.just(()) | st.just([(b"h", None)]),
        st.none(),
    ),
    min_size=1,
    max_size=8,
)


def rebuilt(old: DefaultRecordBatch, stays: list[bool], horizon: int | None) -> bytes:
    """The slow way: take all records apart and build them again."""
    builder = RecordsBuilder(
        compression=old.compression,
        timestamp_type=old.timestamp_type,
        base_offset=old.base_offset,
        log_append_time=old.max_timestamp,
        partition_leader_epoch=old.leader_epoch,
        producer_id=old.producer_id,
        producer_epoch=old.producer_epoch,
        base_sequence=old.base_sequence,
        is_transactional=old.is_transactional,
        is_control_batch=old.is_control,
        delete_horizon_ms=horizon,
    )
    for record, stay in zip(old.records(), stays, strict=True):
        if stay:
            builder.append_record(record)
    builder.override_last_offset(old.last_offset)
    return bytes(builder.build().buffer)


@given(
    records=RECORDS,
    data=st.data(),
    kind=st.sampled_from([CREATE_TIME, LOG_APPEND_TIME]),
    old_horizon=st.none() | st.integers(0, 2**62),
    horizon=st.none() | st.integers(0, 2**62),
    codec=st.sampled_from([CompressionType.NONE, CompressionType.LZ4]),
)
def test_copied_records_make_the_batch_that_building_them_again_makes(
    records, data, kind, old_horizon, horizon, codec
):
    size = len(records)
    stays = data.draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
    old = DefaultRecordBatch(
        batch(
            records,
            7,
            codec,
            producer=Producer(id=9, epoch=3, sequence=5),
            timestamp_type=kind,
            log_append_time=77,
            delete_horizon=old_horizon,
        )
    )
    made, newest = rewrite_batch(old, stays, horizon)
    assert made == rebuilt(old, stays, horizon)
    assert newest == DefaultRecordBatch(made).max_timestamp


def test_the_unused_byte_of_a_record_becomes_zero():
    data = batch(values("a", "b"))
    old = DefaultRecordBatch(resealed(patched(data, 62, b"\x07")))
    assert rewrite_batch(old, [True, True], None).data == data


def test_offsets_that_do_not_ascend_are_refused():
    records = [Rec(b"a", offset=1), Rec(b"b", offset=1)]
    old = DefaultRecordBatch(batch(records))
    with pytest.raises(ValueError, match="1 behind the batch's base follows 1"):
        rewrite_batch(old, [True, True], None)
    made = DefaultRecordBatch(rewrite_batch(old, [False, True], None).data)
    assert [record.value for record in made.records()] == [b"b"]


def test_negative_timestamps_are_refused():
    with pytest.raises(ValueError, match="at -2"):
        rewrite_batch(DefaultRecordBatch(batch([Rec(b"a", timestamp=-2)])), [True], None)


@pytest.mark.parametrize(
    ("producer", "transactional", "what"),
    [
        (Producer(id=-1, epoch=3), True, "producer id"),
        (Producer(id=9, epoch=-1), False, "epoch"),
        (Producer(id=9, epoch=3), False, "base sequence -1"),
    ],
)
def test_a_producers_state_that_no_builder_takes_is_refused(producer, transactional, what):
    data = batch(values("a"), producer=producer, transactional=transactional)
    with pytest.raises(ValueError, match=what):
        rewrite_batch(DefaultRecordBatch(data), [True], None)


def test_damage_and_budgets_are_told():
    data = batch(values("a" * 1000), codec=CompressionType.GZIP)
    old = DefaultRecordBatch(data)
    with pytest.raises(LimitExceededError):
        rewrite_batch(old, [True], None, Budgets(inflated_bytes=100))
    with pytest.raises(DecompressionError):
        rewrite_batch(DefaultRecordBatch(patched(data, 75, b"\xff\xff\xff")), [True], None)
