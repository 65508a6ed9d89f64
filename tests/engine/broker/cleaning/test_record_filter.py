import pytest

from engine.broker.cleaning.record_filter import (
    BatchRetention,
    BatchRetentionResult,
    FilterResult,
    filter_to,
)
from engine.budgets import Budgets
from engine.coding.compression import CompressionType
from engine.errors import LimitExceededError, StateError
from engine.record.memory_records import MemoryRecords
from tests.builders import Producer, any_batch, batch, end_marker, values

PRODUCER = Producer(id=9, epoch=3)


class Rule:
    """Which offsets go, and what becomes of batches."""

    current_time = 5000
    delete_retention_ms = 1000

    def __init__(
        self, *gone: int, retention=BatchRetention.DELETE_EMPTY, marker_for_empty=False
    ) -> None:
        self.gone = gone
        self.result = BatchRetentionResult(retention, marker_for_empty)

    def check_batch_retention(self, batch):
        return self.result

    def should_retain_record(self, batch, record):
        return record.offset not in self.gone


def run(data: bytes, rule: Rule, **how) -> FilterResult:
    return filter_to(MemoryRecords(data).batches(), rule, **how)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_batch_that_loses_nothing_is_copied_as_it_lies(codec):
    data = batch(values("a", "b"), 5, codec)
    result = run(data, Rule())
    assert result.output == data
    assert (result.messages_retained, result.bytes_retained, result.max_offset) == (2, len(data), 6)


def test_the_marker_of_a_transaction_without_records_gets_a_horizon_once():
    data = end_marker(5, PRODUCER, commit=True)
    first = run(data, Rule(marker_for_empty=True))
    (found,) = MemoryRecords(first.output).batches()
    assert found.delete_horizon_ms == 6000
    assert (found.is_control, found.is_transactional) == (True, True)
    assert (found.producer_id, found.base_sequence) == (9, -1)
    later = Rule(marker_for_empty=True)
    later.current_time = 9000
    assert run(bytes(first.output), later).output == first.output


def test_a_horizon_stays_when_a_batch_loses_records():
    data = batch(values("a", "b", "c"), 5, delete_horizon=1234)
    (found,) = MemoryRecords(run(data, Rule(5)).output).batches()
    assert found.delete_horizon_ms == 1234
    assert [record.timestamp for record in found.records()] == [
        record.timestamp for record in list(MemoryRecords(data).records())[1:]
    ]


def test_offsets_of_a_batch_stay_when_its_first_and_last_record_go():
    data = batch(values("a", "b", "c"), 5, producer=Producer(id=9, epoch=3, sequence=20))
    result = run(data, Rule(5, 7))
    (found,) = MemoryRecords(result.output).batches()
    assert (found.base_offset, found.last_offset, found.last_sequence) == (5, 7, 22)
    assert [(record.offset, record.sequence) for record in found.records()] == [(6, 21)]
    assert result.max_offset == 6


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_of_old_magic_are_not_kept_empty(magic):
    data = any_batch(values("a"), magic=magic)
    with pytest.raises(StateError, match=f"magic {magic}"):
        run(data, Rule(0, retention=BatchRetention.RETAIN_EMPTY))


def test_the_batch_that_passes_the_capacity_is_the_last():
    data = batch(values("a"), 0)
    both = data + batch(values("b"), 1)
    assert run(both, Rule(), capacity=len(both)).bytes_read == len(both)
    assert run(both, Rule(), capacity=len(data)).output == both
    stopped = run(both, Rule(), capacity=len(data) - 1)
    assert (stopped.output, stopped.bytes_read) == (data, len(data))


def test_the_first_batch_with_the_largest_timestamp_counts():
    newest = values("a", timestamp=9)
    data = batch(newest, 0) + batch(values("b", timestamp=8), 1) + batch(newest, 2)
    result = run(data, Rule())
    assert (result.max_timestamp, result.offset_of_max_timestamp, result.max_offset) == (9, 0, 2)


def test_offsets_that_are_not_known_are_refused():
    result = FilterResult()
    with pytest.raises(ValueError, match="largest timestamp 5"):
        result.add(5, -1, 3, 1, 61)
    with pytest.raises(ValueError, match="last offset of a batch is -1"):
        result.add(-1, -1, -1, 1, 61)
    assert result == FilterResult()


def test_budgets_bound_what_is_decoded():
    data = batch(values("a", "b"), 0)
    with pytest.raises(LimitExceededError):
        run(data, Rule(), budgets=Budgets(records_per_batch=1))
