"""Columns and single records lead to the same answer, with both kernels."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, strategies as st

from engine import kernel
from engine.broker.append.record_rules import RecordRules
from engine.broker.append.validation_result import ValidationMetrics
from engine.coding.compression import CompressionType
from engine.errors import InvalidRecordError, KafkaStorageError, RecordValidationError
from engine.record.attributes import TimestampType
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from engine.units import MAX_INT64, TopicPartition
from tests.builders import LOG_APPEND_TIME, Rec, batch, resealed

NOW = 1_700_000_000_000
EDGES = [-(2**63), -2, -1, 0, NOW - 1001, NOW - 1000, NOW, NOW + 1000, NOW + 1001, MAX_INT64]


def rules(**changed) -> RecordRules:
    usual = {
        "topic_partition": TopicPartition("topic", 0),
        "now": NOW,
        "timestamp_type": TimestampType.CREATE_TIME,
        "before_max_ms": 1000,
        "after_max_ms": 1000,
        "compact": False,
        "metrics": ValidationMetrics(),
    }
    return RecordRules(**(usual | changed))


def only_batch(data: bytes) -> RecordBatch:
    (found,) = MemoryRecords(data).batches()
    return found


def answer(checking: RecordRules, data: bytes, *, by_columns: bool) -> object:
    found = only_batch(data)
    try:
        checked = checking.check(found) if by_columns else checking.check_one_by_one(found)
    except KafkaStorageError as error:
        errors = getattr(error, "batch_index_errors", None)
        return type(error), errors, checking.metrics
    facts = checked.count, checked.max_timestamp, checked.bytes, checked.counts_from_zero
    return facts, list(checked.entries()), checking.metrics


records = st.builds(
    Rec,
    value=st.none() | st.binary(max_size=3),
    key=st.none() | st.binary(max_size=3),
    timestamp=st.sampled_from(EDGES) | st.integers(NOW - 1000, NOW + 1000),
    headers=st.just(()) | st.just(((b"name", None),)),
    offset=st.none(),
)


@given(
    inside=st.lists(records, max_size=4),
    base_offset=st.sampled_from([0, 5]),
    codec=st.sampled_from(CompressionType),
    batch_type=st.sampled_from([TimestampType.CREATE_TIME, LOG_APPEND_TIME]),
    log_type=st.sampled_from([TimestampType.CREATE_TIME, LOG_APPEND_TIME]),
    append_time=st.sampled_from(EDGES),
    compact=st.booleans(),
    before=st.sampled_from([0, 1000, MAX_INT64]),
    which=st.sampled_from(["compiled", "python"]),
)
def test_columns_and_records_give_the_same_answer(
    inside, base_offset, codec, batch_type, log_type, append_time, compact, before, which
):
    data = batch(inside, base_offset, codec, timestamp_type=batch_type, log_append_time=append_time)
    asked = {"timestamp_type": log_type, "compact": compact, "before_max_ms": before}
    kernel.use(which)
    try:
        fast = answer(rules(**asked), data, by_columns=True)
    finally:
        kernel.use("compiled")
    slow = answer(rules(**asked), data, by_columns=False)
    assert fast == slow


@pytest.mark.parametrize("codec", CompressionType)
def test_good_batches_of_magic_2_are_not_looked_at_record_by_record(codec):
    found = only_batch(batch([Rec(b"v", b"k", NOW), Rec(b"w", b"l", NOW + 1)], 0, codec))
    checked = rules(compact=True).check_at_once(found)
    assert checked is not None
    assert (checked.count, checked.max_timestamp, checked.counts_from_zero) == (2, NOW + 1, True)


def test_records_without_a_timestamp_do_not_spoil_the_quick_look():
    found = only_batch(batch([Rec(timestamp=-1), Rec(timestamp=NOW), Rec(timestamp=-1)]))
    checked = rules().check_at_once(found)
    assert checked is not None
    assert (checked.count, checked.max_timestamp) == (3, NOW)


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_number_of_records_is_an_error_of_the_format(count):
    data = bytearray(batch([Rec(b"a"), Rec(b"b")]))
    struct.pack_into(">i", data, 57, count)
    with pytest.raises(InvalidRecordError):
        rules().check(only_batch(resealed(bytes(data))))


def test_the_message_shows_three_errors_and_the_error_has_all():
    found = only_batch(batch([Rec(b"v", None, NOW)] * 5))
    with pytest.raises(RecordValidationError) as caught:
        rules(compact=True).check(found)
    assert str(caught.value).count("without a key") == 3
    assert [index for index, _ in caught.value.batch_index_errors] == [0, 1, 2, 3, 4]
