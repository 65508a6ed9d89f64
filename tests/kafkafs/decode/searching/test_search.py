"""Searching finds what `re` finds in each field of each record. In internal topics it is tried on what records say, and
on bytes where those are asked for."""

from __future__ import annotations

import json
import re
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from engine import kernel
from engine.coding.compression import CompressionType
from engine.lines.record_line import LineOptions
from engine.log.log_directory import open_source
from engine.log.view.log_view import LogView
from engine.topics.topic_names import CONSUMER_OFFSETS
from kafkafs.decode.searching.search import Match, Search
from kafkafs.records.conditions.pattern import ALL_FIELDS, Query
from tests import builders
from tests.builders import Producer, Rec
from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.decode.searching.searched import search


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
    options = LineOptions(CONSUMER_OFFSETS, 0, values=values, from_offset=0, to_offset=100)
    return offsets_in(search(view, query, options))


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


PATTERNS = [
    "", "a", "ab", "A", "aB", "^a", "a$", "^$", r"\bab\b", "a.b", "(?s)a.b", "(?m)^b", "(?m)a$", "(?i)AB", "(ab)+",
    "(?:ab|ba)", "a|", "[^a]", r"\x00", r"\xff", "a{2,}", "b(?=a)", r"(.)\1", r"\Aab", r"ab\Z", "a?b", "(?i:a)b",
    "é", "(?x) a b", "k", r"\n$", "aab", r"\Bb", r"\d", r"\w\W", ".", "(?s).", "a*?b", r"(a|\b)b", "$", "[a-b]{3}",
]  # fmt: skip
pieces = st.sampled_from(
    [b"a", b"b", b"A", b"B", b"\n", b" ", b"\0", b"\xff", "é".encode(), b"k", b"7"]
)
texts = st.lists(pieces, max_size=6).map(b"".join)
headers = st.tuples(texts.filter(lambda text: text.isascii()), st.none() | texts)
records = st.builds(
    lambda value, key, own: Rec(value, key, headers=own),
    *(st.none() | texts, st.none() | texts, st.lists(headers, max_size=2)),
)


def reference(query: re.Pattern[bytes], rec: Rec, fields: frozenset[str]) -> bool:
    given = [rec.value] if "value" in fields else []
    given += [rec.key] if "key" in fields else []
    given += [each for header in rec.headers for each in header] if "headers" in fields else []
    return any(field is not None and query.search(field) for field in given)


@settings(max_examples=60)
@given(
    pattern=st.sampled_from(PATTERNS),
    batches=st.lists(
        st.tuples(
            st.lists(records, min_size=1, max_size=6),
            st.sampled_from([CompressionType.NONE, CompressionType.LZ4]),
        ),
        min_size=1,
        max_size=3,
    ),
    fields=st.sets(st.sampled_from(sorted(ALL_FIELDS)), min_size=1),
    ignore_case=st.booleans(),
    fixed=st.booleans(),
    which=st.sampled_from(["compiled", "python"]),
)
def test_a_record_is_found_if_re_finds_the_pattern_in_a_field(
    pattern: str,
    batches: list[tuple[list[Rec], CompressionType]],
    fields: set[str],
    ignore_case: bool,
    fixed: bool,
    which: str,
) -> None:
    query = Query.compile(pattern, fixed=fixed, ignore_case=ignore_case, fields=frozenset(fields))
    raw = pattern.encode()
    plain = re.compile(re.escape(raw) if fixed else raw, re.IGNORECASE if ignore_case else 0)
    expected, parts, offset = [], [], 0
    for recs, codec in batches:
        parts.append(builders.batch(recs, offset, codec))
        expected += [
            offset + at for at, rec in enumerate(recs) if reference(plain, rec, frozenset(fields))
        ]
        offset += len(recs)
    before = kernel.name
    kernel.use(which)
    try:
        with tempfile.TemporaryDirectory() as folder:
            log = BuiltLog(Path(folder), "orders-0")
            log.segment(parts, 0)
            with closing(open_source([folder])) as source:
                view = source.partitions()["orders-0"].view()
                options = LineOptions("orders", 0, from_offset=0, to_offset=offset)
                assert offsets_in(search(view, query, options)) == expected
                counting = Search(view, query, options, only_count=True)
                counted = 0
                for segment, part in counting.parts():
                    for match in counting.results(segment, part):
                        assert isinstance(match, Match)
                        assert not match.text
                        counted += match.records
                assert counted == len(expected)
    finally:
        kernel.use(before)


def offsets_in(results: Iterator[Any]) -> list[int]:
    lines = [line for match in results for line in match.text.splitlines()]
    return [json.loads(line)["offset"] for line in lines]


class CountedPattern:
    """A pattern that counts its searches."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self.pattern = pattern
        self.searches = 0

    def search(self, field: bytes) -> object:
        self.searches += 1
        return self.pattern.search(field)


@pytest.mark.parametrize(
    ("pattern", "searches"),
    [("needle 7", 0), ("(?i)NEEDLE [7]", 0), ("needle [7]", 0), (r"(needle)( )7(?!\2)", 40)],
)
@pytest.mark.parametrize("only_count", [False, True])
def test_lines_are_made_of_matching_records_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    searches: int,
    only_count: bool,
) -> None:
    log = BuiltLog(tmp_path, "orders-0")
    records = [Rec(b"needle %d" % (at % 8), b"key") for at in range(80)]
    log.segment([builders.batch(records, 80 * at) for at in range(4)], 0)
    made, calls = 0, 0
    column_lines = kernel.column_lines

    def counted(*given: Any, **how: Any) -> kernel.LinesResult:
        nonlocal made, calls
        result = column_lines(*given, **how)
        made, calls = made + result.records, calls + 1
        return result

    def never(*_: Any, **__: Any) -> None:
        pytest.fail("the lines of whole batches were made")

    monkeypatch.setattr(kernel, "column_lines", counted)
    monkeypatch.setattr(kernel, "lines", never)
    query = Query.compile(pattern)
    own = CountedPattern(query.pattern)
    query = query._replace(pattern=own)  # type: ignore[arg-type]
    with closing(open_source([str(tmp_path)])) as source:
        view = source.partitions()["orders-0"].view()
        options = LineOptions("orders", 0, from_offset=0, to_offset=320)
        whole = Search(view, query, options, only_count=only_count)
        matches = [each for part in whole.parts() for each in whole.results(*part)]
    assert sum(each.records for each in matches if isinstance(each, Match)) == 40
    assert (made, calls) == ((0, 0) if only_count else (40, 1))
    assert own.searches == searches
