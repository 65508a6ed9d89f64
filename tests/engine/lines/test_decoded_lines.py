"""The lines of internal topics: what they show, and that both kernels and both passes agree on them."""

from __future__ import annotations

import json
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from engine.budgets import DEFAULT_BUDGETS
from engine.columns.batch_table import BatchRows
from engine.kernel import compiled, python as kernel_python
from engine.lines import decoded_lines as lines_in_bulk
from engine.lines.decoded_lines import decoded_lines
from engine.lines.json_text import Values
from engine.lines.record_line import LineOptions
from engine.record.fate import Fate
from engine.topics import internal_topics as topics
from tests import builders
from tests.builders import Rec
from tests.engine.kernel.kernels import each_kernel, table_of
from tests.internal_records import damaged, random_record
from tests.random_logs import PRODUCER, random_log

TOPICS = (
    topics.CONSUMER_OFFSETS,
    topics.TRANSACTION_STATE,
    topics.SHARE_GROUP_STATE,
    topics.CLUSTER_METADATA,
    topics.REMOTE_LOG_METADATA,
)
KEY = b"\0\1\0\1g\0\1t\0\0\0\7"
VALUE = b"\0\0" + bytes(7) + b"\x2a\0\1m" + bytes(8)


def records(topic: str, chance: Random, count: int) -> list[Rec]:
    made = []
    for _ in range(count):
        key, value = random_record(topic, chance)
        if chance.random() < 0.2:
            key = None if key is None else damaged(key, chance)
            value = None if value is None else damaged(value, chance)
        headers = [(b"h", b"\xff")] if chance.random() < 0.1 else []
        timestamp = chance.choice((-1, 0, 999, 1_700_000_000_000, 1_700_000_000_123, 2**61))
        made.append(Rec(value, key, timestamp, headers))
    return made


def log_of(topic: str, chance: Random) -> bytes:
    return random_log(chance, lambda count: records(topic, chance, count))


def shown(topic: str, *made: Rec, kernel: ModuleType = compiled, values: str = "auto") -> list[Any]:
    data = builders.batch(list(made))
    options = LineOptions(topic, 0, values=values)
    result = kernel.lines(data, table_of(data), 0, 1, start_position=0, options=options)
    return [json.loads(line) for line in (result.text or b"").splitlines()]


# -- records in columns ----------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    topic=st.sampled_from(TOPICS),
    chance=st.randoms(use_true_random=False),
    committed=st.booleans(),
    bounds=st.sampled_from([(0, 2**63 - 1), (3, 9), (0, 4), (20, 21), (900, 901)]),
    enough=st.sampled_from([2**62, 0, 1, 700, 5000]),
    most=st.sampled_from([0, 1, 30, 60, 500]),
    first_record=st.integers(0, 40),
    measure=st.booleans(),
    ahead=st.sampled_from([64, 200, 1000, 64 * 1024]),
)
def test_lines_of_many_records_are_those_of_one_after_the_other(
    topic: str,
    chance: Random,
    committed: bool,
    bounds: tuple[int, int],
    enough: int,
    most: int,
    first_record: int,
    measure: bool,
    ahead: int,
) -> None:
    data = log_of(topic, chance)
    table = table_of(data)
    columns = compiled.decode(data, table, 0, len(table), start_position=0)
    options = LineOptions(topic, 3, committed=committed, from_offset=bounds[0], to_offset=bounds[1])
    fates = np.array([chance.choice(list(Fate)) for _ in table], np.uint8)
    asked: dict[str, Any] = {
        "options": options, "enough": enough, "most": most, "measure": measure,
        "first_record": min(first_record, len(columns)),
        **chance.choice(({"fates": fates}, {"fate": int(Fate.ABORTED)}, {})),
    }  # fmt: skip
    expected = kernel_python.column_lines(table, columns, **asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_in_bulk, "_LEAST_AHEAD", ahead)
        patch.setattr(lines_in_bulk, "_MOST_LOOKED_AT", 3)
        for module in (compiled, kernel_python):
            found = lines_in_bulk.decoded_column_lines(module.column_lines, table, columns, **asked)
            assert found._replace(is_plain=False) == expected


# -- agreement -------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    topic=st.sampled_from(TOPICS),
    chance=st.randoms(use_true_random=False),
    committed=st.booleans(),
    bounds=st.sampled_from([(0, 2**63 - 1), (3, 9), (0, 4), (20, 21)]),
    log_start=st.sampled_from([0, 5]),
    enough=st.sampled_from([2**62, 0, 1, 700, 5000]),
    first_record=st.integers(0, 3),
    values=st.sampled_from(["auto", "json"]),
)
def test_both_kernels_and_both_passes_agree(
    topic: str,
    chance: Random,
    committed: bool,
    bounds: tuple[int, int],
    log_start: int,
    enough: int,
    first_record: int,
    values: str,
) -> None:
    data = log_of(topic, chance)
    table = table_of(data)
    options = LineOptions(
        topic, 3, values=values, committed=committed, log_start_offset=log_start,
        from_offset=bounds[0], to_offset=bounds[1],
    )  # fmt: skip
    fates = np.array([chance.choice(list(Fate)) for _ in table], np.uint8)
    asked: dict[str, Any] = {
        "start_position": 0, "options": options, "enough": enough, "first_record": first_record,
        "fates": chance.choice((None, fates)),
    }  # fmt: skip
    result = compiled.lines(data, table, 0, len(table), **asked)
    assert result == kernel_python.lines(data, table, 0, len(table), **asked)
    assert result.text is not None
    assert len(result.text) == result.size
    rows = BatchRows.of(table).data
    assert compiled.lines(data, rows, 0, len(table), **asked) == result
    measured = compiled.lines(data, table, 0, len(table), measure=True, **asked)
    assert measured == result._replace(text=None)
    for line in result.text.splitlines():
        json.loads(line)


@settings(max_examples=15)
@given(chance=st.randoms(use_true_random=False), enough=st.sampled_from([1, 900, 10_000]))
def test_pieces_are_the_whole(chance: Random, enough: int) -> None:
    data = log_of(topics.CONSUMER_OFFSETS, chance)
    table = table_of(data)
    options = LineOptions(topics.CONSUMER_OFFSETS, 0)
    row = record = 0
    pieces = []
    while row < len(table):
        result = compiled.lines(
            data, table, row, len(table), start_position=0, options=options, enough=enough,
            first_record=record,
        )  # fmt: skip
        pieces.append(result.text)
        row, record = row + result.rows_done, result.next_record
    whole, row = [], 0
    while row < len(table):
        result = kernel_python.lines(
            data, table, row, len(table), start_position=0, options=options
        )
        whole.append(result.text)
        row += result.rows_done
    assert b"".join(pieces) == b"".join(whole)


def test_many_batches_are_taken_apart_together() -> None:
    data = b"".join(builders.batch([Rec(VALUE, KEY)], offset) for offset in range(3000))
    table = table_of(data)
    options = LineOptions(topics.CONSUMER_OFFSETS, 0)
    calls = []

    def decode(*args: Any, **how: Any) -> Any:
        calls.append(args[2])
        return compiled.decode(*args, **how)

    result = decoded_lines(
        decode, compiled.column_lines, data, table, 0, len(table), start_position=0,
        options=options, fates=None,
        measure=False, budgets=DEFAULT_BUDGETS, enough=2**62, first_record=0,
    )  # fmt: skip
    assert result.records == 3000
    assert len(calls) == 1


# -- what lines show -------------------------------------------------------------------------------


@each_kernel
def test_keys_and_values_are_objects(kernel: ModuleType) -> None:
    (line,) = shown(topics.CONSUMER_OFFSETS, Rec(VALUE, KEY, 5), kernel=kernel)
    assert list(line) == [
        "topic", "partition", "offset", "timestamp", "time", "timestampType", "key", "keyEncoding",
        "value", "valueEncoding", "headers", "leaderEpoch",
    ]  # fmt: skip
    assert line["key"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 7}}
    assert line["value"] == {
        "version": "0",
        "data": {"offset": 42, "metadata": "m", "commitTimestamp": 0},
    }
    assert line["keyEncoding"] == line["valueEncoding"] == "kafka"


@each_kernel
def test_a_tombstone_has_a_null_value(kernel: ModuleType) -> None:
    (line,) = shown(topics.CONSUMER_OFFSETS, Rec(None, KEY), kernel=kernel)
    assert line["value"] is None
    assert "valueEncoding" not in line


@each_kernel
def test_what_cannot_be_decoded_keeps_its_bytes_and_says_why(kernel: ModuleType) -> None:
    (line,) = shown(topics.CONSUMER_OFFSETS, Rec(b"\0\x09\xff", KEY), kernel=kernel)
    assert (line["value"], line["valueEncoding"]) == ("AAn/", "base64")
    assert line["valueNote"] == "version 9 of OffsetCommitValue is not known"
    (line,) = shown(topics.CONSUMER_OFFSETS, Rec(b'{"a":1}', b"\0\x63key"), kernel=kernel)
    assert (line["key"], line["keyNote"]) == ("\0ckey", "record type 99 is not known")
    assert (line["value"], line["valueEncoding"]) == ({"a": 1}, "json")
    assert line["valueNote"] == "its key does not say what it is"


@each_kernel
@pytest.mark.parametrize("values", [mode.name.lower() for mode in Values])
def test_a_forced_form_shows_the_bytes(kernel: ModuleType, values: str) -> None:
    record = Rec(VALUE, KEY)
    (line,) = shown(topics.CONSUMER_OFFSETS, record, kernel=kernel, values=values)
    (plain,) = shown("other", record, kernel=kernel, values=values)
    is_decoded = values in ("auto", "json")
    assert (line == plain | {"topic": topics.CONSUMER_OFFSETS}) == (not is_decoded)


@each_kernel
def test_control_records_and_headers_are_as_in_any_topic(kernel: ModuleType) -> None:
    (line,) = shown(topics.CONSUMER_OFFSETS, Rec(VALUE, KEY, headers=[(b"k", b'{"a":1}')]))
    assert line["headers"] == [{"key": "k", "value": {"a": 1}, "valueEncoding": "json"}]
    data = builders.end_marker(4, PRODUCER, commit=True)
    options = LineOptions(topics.CONSUMER_OFFSETS, 0)
    result = kernel.lines(data, table_of(data), 0, 1, start_position=0, options=options)
    line = json.loads(result.text)
    assert line["control"]["type"] == "COMMIT"
    assert line["key"] == "\0\0\0\1"


@each_kernel
def test_what_must_not_be_printed_is_escaped(kernel: ModuleType) -> None:
    key = b"\0\2\0\x0c" + "a\x1b\x7f\u202e\ufeff\n".encode() + b"\xff\xff"
    data = builders.batch([Rec(None, key)])
    options = LineOptions(topics.CONSUMER_OFFSETS, 0)
    text = kernel.lines(data, table_of(data), 0, 1, start_position=0, options=options).text
    assert b'"a\\u001b\\u007f\\u202e\\ufeff\\n' in text
    assert text.count(b"\n") == 1
