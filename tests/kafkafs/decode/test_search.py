"""Searching internal topics: the pattern is tried on what records say, and on bytes where those are asked for."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine import kernel
from engine.lines.record_line import LineOptions
from engine.log.log_directory import open_source
from engine.log.log_view import LogView
from engine.topics.topic_names import CONSUMER_OFFSETS
from kafkafs.decode.search import ALL_FIELDS, Query, search
from tests import builders
from tests.builders import Producer, Rec
from tests.kafkafs.built_logs import BuiltLog


def key(group: str, partition: int) -> bytes:
    return b"\0\1" + sized(group) + sized("orders") + struct.pack(">i", partition)


def value(offset: int, metadata: str) -> bytes:
    return struct.pack(">hq", 0, offset) + sized(metadata) + bytes(8)


def sized(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


@pytest.fixture
def view(tmp_path: Path) -> Iterator[LogView]:
    log = BuiltLog(tmp_path, f"{CONSUMER_OFFSETS}-0")
    batches = [
        builders.batch([Rec(value(300 + at, 'it "is" done'), key("billing", at))], at)
        for at in range(5)
    ]
    batches.append(builders.batch([Rec(None, key("shipping", 1)), Rec(b"plain", b"\0\x63odd")], 5))
    batches.append(
        builders.batch([Rec(value(7, ""), key("x", 2), headers=[(b"h", b"billing")])], 7)
    )
    batches.append(builders.end_marker(8, Producer(id=4), commit=True))
    log.segment(batches, 0)
    with closing(open_source([str(tmp_path)])) as source:
        yield source.partitions()[f"{CONSUMER_OFFSETS}-0"].view()


def found(view: LogView, pattern: str, fields: str = "", **how: Any) -> list[int]:
    values = how.pop("values", "auto")
    query = Query.compile(pattern, fields=frozenset(fields.split()) or ALL_FIELDS, **how)
    options = LineOptions(CONSUMER_OFFSETS, 0, values=values)
    matches = search(
        view, query, from_offset=0, to_offset=100, options=options, on_damage=pytest.fail
    )
    lines = [line for match in matches for line in match.text.splitlines()]
    return [json.loads(line)["offset"] for line in lines]


@pytest.mark.parametrize("which", ["compiled", "python"])
def test_the_pattern_is_tried_on_the_json(view: LogView, which: str) -> None:
    before = kernel.name
    kernel.use(which)
    try:
        assert found(view, '"offset":302', fixed=True) == [2]
        assert found(view, r'"partition":[12]\b') == [1, 2, 5, 7]
        assert found(view, '"group":"SHIPPING"', ignore_case=True) == [5]
    finally:
        kernel.use(before)


def test_fields_choose_where_to_look(view: LogView) -> None:
    assert found(view, "billing") == [0, 1, 2, 3, 4, 7]
    assert found(view, "billing", "key") == [0, 1, 2, 3, 4]
    assert found(view, "billing", "headers") == [7]
    assert found(view, "billing", "value") == []
    assert found(view, "done", "value headers") == [0, 1, 2, 3, 4]


def test_text_is_matched_as_the_line_has_it(view: LogView) -> None:
    assert found(view, r"it \"is\" done", fixed=True) == [0, 1, 2, 3, 4]
    assert found(view, 'it "is" done', fixed=True) == []


def test_what_is_not_decoded_is_matched_in_its_bytes(view: LogView) -> None:
    assert found(view, "^plain$") == [6]
    assert found(view, "odd", "key") == [6]
    assert found(view, r"^\x00\x00\x00\x01$", "key") == [8]  # the end marker


@pytest.mark.parametrize("values", ["base64", "hex", "text", "none"])
def test_a_forced_form_is_matched_in_the_bytes(view: LogView, values: str) -> None:
    assert found(view, '"offset":302', values=values) == []
    assert found(view, 'it "is" done', fixed=True, values=values) == [0, 1, 2, 3, 4]
