"""How much a micro-batch takes is the connector's arithmetic."""

from __future__ import annotations

import json

import pytest

from engine.errors import InvalidNameError
from engine.files.file_names import validate_topic
from engine.units import TopicPartition
from kafkafs.spark.errors import OptionError
from kafkafs.spark.streaming.stream_offsets import (
    TOPIC_IDS,
    StreamPlace,
    from_json,
    to_json,
)
from kafkafs.spark.streaming.stream_reader import TriggerDelay, at_most


def offsets(*numbers: int) -> dict[TopicPartition, int]:
    return {TopicPartition("t", place): number for place, number in enumerate(numbers)}


@pytest.mark.parametrize(
    ("limit", "sizes", "taken"),
    [
        (10, (100, 100), (5, 5)),
        (10, (90, 10), (9, 1)),
        (10, (3, 100), (1, 9)),  # 0.29 is not nothing
        (2, (100, 100, 100), (1, 1, 1)),
        (1000, (3, 4), (3, 4)),
        (10, (0, 40), (0, 10)),
        (7, (10, 10, 10), (2, 2, 2)),
        (5, (0, 0), (0, 0)),
    ],
)
def test_a_limit_is_shared_out_by_size(
    limit: int, sizes: tuple[int, ...], taken: tuple[int, ...]
) -> None:
    start = offsets(*[100 * place for place in range(len(sizes))])
    end = {each: start[each] + size for each, size in zip(start, sizes, strict=True)}
    got = at_most(limit, start, end)
    assert tuple(got[each] - start[each] for each in start) == taken


def test_a_partition_that_went_back_keeps_its_end() -> None:
    assert at_most(10, offsets(50, 0), offsets(20, 100)) == offsets(20, 10)


def test_a_trigger_waits_for_enough_or_for_long_enough() -> None:
    clock = [1000.0]
    delay = TriggerDelay(10, 60_000, now=lambda: clock[0])
    assert not delay.must_wait(offsets(0), offsets(1))  # the first one does not
    assert delay.must_wait(offsets(1), offsets(10))
    assert not delay.must_wait(offsets(1), offsets(11))
    clock[0] += 59
    assert delay.must_wait(offsets(11), offsets(12))
    clock[0] += 1
    assert not delay.must_wait(offsets(11), offsets(12))
    assert delay.must_wait(offsets(12), offsets(13))


def test_offsets_are_written_in_one_order_whatever_theirs_was() -> None:
    mixed = {
        TopicPartition("t", 10): 3, TopicPartition("t", 9): 2, TopicPartition("a", 0): 1,
    }  # fmt: skip
    said = to_json(StreamPlace(mixed, {}))
    assert str(said) == "{'a': {'0': 1}, 't': {'9': 2, '10': 3}}"
    assert from_json(said) == StreamPlace(mixed, {})


def test_topic_ids_are_one_more_key_that_no_topic_can_have() -> None:
    offsets = {TopicPartition("t", number): number for number in (3, 2, 1, 0)}
    ids = {TopicPartition("t", number): "new" if number == 1 else "old" for number in (2, 1, 0)}
    said = to_json(StreamPlace(offsets, ids))
    assert json.dumps(said) == (
        '{"t": {"0": 0, "1": 1, "2": 2, "3": 3}, "@topicIds": {"t": {"old": [0, 2], "new": [1]}}}'
    )
    assert from_json(said) == StreamPlace(offsets, ids)
    with pytest.raises(InvalidNameError):
        validate_topic(TOPIC_IDS)


@pytest.mark.parametrize(
    "other",
    [
        {"logOffset": 3}, {"t": {"0": -1}}, {"t": {"0": True}}, {"t": {"x": 1}}, {"t": {"0": "5"}},
        {"t": {"-1": 5}}, [], 7, None, {"@topicIds": 5}, {"@topicIds": {"t": {"id": 5}}},
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_source_is_refused(other: object) -> None:
    with pytest.raises(OptionError, match="the checkpoint is of another source"):
        from_json(other)
