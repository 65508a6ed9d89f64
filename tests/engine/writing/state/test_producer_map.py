"""engine.writing.state.producer_map: producers in the order of Java's HashMap, whose answers the lists below are."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from engine.state.producer_state_entry import BatchMetadata, ProducerStateEntry
from engine.writing.state.producer_map import ProducerMap, ProducerUpdates

FEW = [1000, 17, 1, 33, 4096, 65536, 2 << 32, (1 << 32) + 5, 49]


def filled(producers: Iterable[int]) -> ProducerMap:
    made = ProducerMap()
    for producer in producers:
        made[producer] = ProducerStateEntry(producer)
    return made


def test_buckets_come_in_their_order_and_in_each_the_oldest_first() -> None:
    assert [*filled(FEW)] == [4096, 17, 1, 33, 65536, 49, 2 << 32, (1 << 32) + 5, 1000]


def test_a_producer_that_comes_back_is_the_youngest() -> None:
    known = filled(FEW)
    del known[1]
    known[1] = ProducerStateEntry(1)
    assert [*known] == [4096, 17, 33, 65536, 49, 1, 2 << 32, (1 << 32) + 5, 1000]


def test_another_entry_of_the_same_producer_stays_in_place() -> None:
    known = filled([48, 16, 32, 0])
    known[16] = ProducerStateEntry(16, 5)
    assert [*known] == [48, 16, 32, 0]
    assert known[16].producer_epoch == 5


def test_the_thirteenth_producer_doubles_the_buckets_and_they_stay() -> None:
    known = filled([*FEW, 1600, 1616, 1632])
    assert [*known][:5] == [4096, 1600, 1616, 1632, 17]
    known[1648] = ProducerStateEntry(1648)
    assert [*known] == [
        *(4096, 1600, 1632, 1, 33, 65536, 2 << 32, (1 << 32) + 5, 1000, 1616, 1648, 17, 49)
    ]
    known.clear()
    for producer in (48, 16, 32, 0):
        known[producer] = ProducerStateEntry(producer)
    assert [*known] == [32, 0, 48, 16]
    assert [*filled([48, 16, 32, 0])] == [48, 16, 32, 0]


def test_nine_in_one_bucket_double_the_buckets() -> None:
    chain = [each * 32 for each in range(8, -1, -1)]
    assert [*filled([*chain, 16, 1])] == [*chain, 1, 16]
    assert [*filled([*chain[1:], 16, 1])][-2:] == [1, 16]
    assert [*filled([*chain[2:], 16, 1])][-2:] == [16, 1]


def test_ids_in_buckets_of_their_own_double_nothing() -> None:
    assert [*filled([*range(10), 16])] == [0, 16, *range(1, 10)]


def test_with_64_buckets_a_long_chain_doubles_nothing() -> None:
    chain = [each * 1024 for each in range(1, 12)]  # ten of them make 64 buckets
    order = [*filled([*chain, 64, 1])]
    assert order.index(64) < order.index(1)  # HashMap's whole order is that of a tree


@pytest.mark.parametrize(
    ("producer", "bucket"),
    [
        (2 << 32, 2),
        ((1 << 32) + 1, 0),
        ((1 << 32) + 5, 4),
        (0x10001, 0),
        (0x30005, 6),
        (0x80000000, 0),
        (2**63 - 1, 0),
    ],
)
def test_both_halves_of_an_id_choose_its_bucket(producer: int, bucket: int) -> None:
    around = [bucket + 1, bucket, producer, *([bucket - 1] if bucket else [])]
    assert [*filled(around)] == [*around[3:], bucket, producer, bucket + 1]


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1) | st.integers(0, 40), st.booleans())))
def test_it_holds_what_a_dict_holds(steps: list[tuple[int, bool]]) -> None:
    known, model = ProducerMap(), dict[int, ProducerStateEntry]()
    for producer, is_removed in steps:
        if is_removed:
            assert (known.pop(producer, None) is None) == (model.pop(producer, None) is None)
        else:
            known[producer] = model[producer] = ProducerStateEntry(producer)
    assert dict(known) == model
    assert len(known) == len(model)
    assert sorted(known) == sorted(model)


def test_a_producer_that_is_not_known_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        ProducerMap()[5]


def test_updates_come_by_bucket_and_in_each_the_newest_first() -> None:
    updates: ProducerUpdates[str] = ProducerUpdates()
    for producer in (1, 33, 2, 17, 33):
        updates.of(producer, lambda producer=producer: f"of {producer}")
    assert updates.values() == ["of 17", "of 33", "of 1", "of 2"]


def test_more_buckets_come_with_the_look_after_the_thirteenth_update() -> None:
    updates: ProducerUpdates[int] = ProducerUpdates()
    for producer in (16, 0, *range(1, 12)):
        updates.of(producer, lambda producer=producer: producer)
    assert updates.values() == [0, 16, *range(1, 12)]
    updates.of(16, lambda: -1)
    assert updates.values() == [*range(12), 16]


def test_a_copy_goes_its_own_way() -> None:
    producers = ProducerMap()
    for producer_id in range(13):
        producers[producer_id] = ProducerStateEntry(
            producer_id, batches=[BatchMetadata(0, 5, 0, 1)]
        )
    del producers[12], producers[11]
    copy = producers.copied()
    copy[16] = ProducerStateEntry(16)
    producers[16] = ProducerStateEntry(16)
    assert [*copy] == [*producers]  # the buckets are as many
    copy[3].update(ProducerStateEntry(3, 7, batches=[BatchMetadata(0, 9, 0, 2)]))
    del copy[4]
    assert producers[3] == ProducerStateEntry(3, batches=[BatchMetadata(0, 5, 0, 1)])
    assert 4 in producers
