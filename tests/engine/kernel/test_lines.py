"""Record lines and the search in batches: what both kernels write, leave out and mark."""

from __future__ import annotations

import dataclasses
import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from engine.budgets import DEFAULT_BUDGETS
from engine.coding.compression import CompressionType
from engine.columns.batch_table import BATCH_ROW, Problem
from engine.kernel import compiled, python as kernel_python
from engine.lines.json_text import Values
from engine.lines.lines_result import LinesResult
from engine.lines.record_line import LineOptions, record_line
from engine.record.attributes import TimestampType
from engine.record.fate import Fate
from engine.record.record import Header, Record
from tests import builders, fixtures_data
from tests.builders import Producer, Rec
from tests.engine.kernel.kernels import OPTIONS, each_kernel, table_of

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
NOW = 1_700_000_000_000
COMMITTED = dataclasses.replace(OPTIONS, committed=True)
modes = st.sampled_from([mode.name.lower() for mode in Values])
texts = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.text(max_size=40).map(str.encode),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    ).map(lambda value: json.dumps(value, ensure_ascii=False, indent=1).encode()),
)


def lines(
    kernel: ModuleType, data: bytes, options: LineOptions = OPTIONS, **more: Any
) -> LinesResult:
    table = table_of(data)
    result: LinesResult = kernel.lines(
        data, table, 0, len(table), start_position=0, options=options, **more
    )
    return result


def shown(result: LinesResult) -> list[int]:
    """The offsets of the lines."""
    assert result.text is not None
    found = [json.loads(line)["offset"] for line in result.text.splitlines()]
    assert (result.records, result.size) == (len(found), len(result.text))
    return found


# What a line says


@each_kernel
def test_a_line_is_exactly_this(kernel: ModuleType) -> None:
    record = Rec(b'{"id": 35}', b"k17", NOW + 35_123, headers=[(b"trace-id", b"9f3a")])
    assert lines(kernel, builders.batch([record], 35)).text == (
        b'{"topic":"orders","partition":0,"offset":35,"timestamp":1700000035123,"time":"2023-11-14T22:13:55.123Z",'
        b'"timestampType":"CreateTime","key":"k17","value":{"id":35},"valueEncoding":"json",'
        b'"headers":[{"key":"trace-id","value":"9f3a"}],"leaderEpoch":0}\n'
    )


@each_kernel
@given(
    records=st.lists(
        st.tuples(
            texts,
            texts,
            st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-1, 2**48)),
            st.lists(st.tuples(st.binary(max_size=9), texts), max_size=3),
        ),
        min_size=1,
        max_size=4,
    ),
    values=modes,
    codec=st.sampled_from(CompressionType),
    producer=st.builds(
        Producer, id=st.integers(-1, 2**63 - 1), epoch=st.integers(-1, 9), sequence=st.integers(-1, 2**31 - 1)
    ),
    is_transactional=st.booleans(),
    fate=st.sampled_from(Fate),
    append_time=st.booleans(),
)  # fmt: skip
def test_lines_are_those_of_record_line(
    kernel: ModuleType,
    records: list[tuple[Any, ...]],
    values: str,
    codec: CompressionType,
    producer: Producer,
    is_transactional: bool,
    fate: Fate,
    append_time: bool,
) -> None:
    options = LineOptions("töpic\n", 7, values=values, log_start_offset=101)
    kind = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
    given = [Rec(value, key, when, headers) for key, value, when, headers in records]
    batch = builders.batch(
        *(given, 100, codec),
        producer=producer,
        transactional=is_transactional,
        leader_epoch=4,
        timestamp_type=kind,
        log_append_time=NOW,
    )
    expected = b"".join(
        record_line(
            Record(
                offset=100 + i,
                timestamp=NOW if append_time else when,
                timestamp_type=kind,
                key=key,
                value=value,
                headers=tuple(Header(*header) for header in headers),
                sequence=(producer.sequence + i) % 2**31 if producer.sequence >= 0 else -1,
                leader_epoch=4,
            ),
            options,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            is_transactional=is_transactional,
            fate=fate,
        )
        for i, (key, value, when, headers) in enumerate(records)
    )
    fates = np.array([fate], np.uint8)
    assert lines(kernel, batch, options, fates=fates).text == expected
    measured = lines(kernel, batch, options, fates=fates, measure=True)
    assert measured == LinesResult(None, len(expected), 1, None, len(records))


@each_kernel
@pytest.mark.parametrize(
    ("magic", "kind"), [(0, "NoTimestampType"), (1, "CreateTime"), (2, "CreateTime")]
)
def test_magic_0_has_no_timestamp(kernel: ModuleType, magic: int, kind: str) -> None:
    # In magic 0 the other attribute bits mean nothing, in magic 1 the transactional and control bits.
    data = builders.any_batch([Rec(b"v")], magic=magic)
    if magic < 2:
        data = builders.message(0, None, b"v", magic=magic, attributes=0x30 if magic else 0x38)
    line = json.loads(lines(kernel, data).text or b"")
    assert line["timestampType"] == kind
    assert (line["timestamp"], line["time"]) == (
        (NOW, "2023-11-14T22:13:20.000Z") if magic else (-1, None)
    )
    assert "transaction" not in line
    assert "control" not in line


@each_kernel
def test_control_records_say_what_they_are(kernel: ModuleType) -> None:
    producer = Producer(id=7, epoch=2)
    data = builders.end_marker(5, producer, commit=True, coordinator_epoch=3)
    line = json.loads(lines(kernel, data).text or b"")
    assert line["control"] == {
        "type": "COMMIT", "version": 0, "coordinatorEpoch": 3, "producerId": 7, "producerEpoch": 2,
    }  # fmt: skip
    assert "transaction" not in line
    unknown = builders.control_batch(99, b"", 6, producer=producer)
    assert json.loads(lines(kernel, unknown).text or b"")["control"]["type"] == "UNKNOWN(99)"
    for whole in (data, unknown):
        measured = lines(kernel, whole, measure=True)
        assert (measured.text, measured.size) == (None, len(lines(kernel, whole).text or b""))


@pytest.mark.parametrize("kind", fixtures_data.WITH_TRUTH)
def test_lines_of_real_brokers_are_the_same_from_both_kernels(kind: str) -> None:
    for partition in fixtures_data.partitions(kind):
        for path in fixtures_data.logs(kind, partition)[:2]:
            data = path.read_bytes()[:20_000]
            table = np.zeros(1000, BATCH_ROW.dtype)
            rows, _, _ = compiled.walk(data, table, 0, 0, True)
            asked = {"start_position": 0, "options": OPTIONS}
            found = compiled.lines(data, table, 0, rows, **asked)
            assert found == kernel_python.lines(data, table, 0, rows, **asked)
            assert found.problem is None


# What is left out


def some_batches() -> bytes:
    """Offsets 0-2 plain, 3-5 of a transaction, 6 its marker, 7-9 of magic 1, 10-12 plain."""
    producer = Producer(id=7)
    return b"".join(
        [
            builders.batch([Rec(b"a")] * 3, 0),
            builders.batch([Rec(b"b")] * 3, 3, ZSTD, producer=producer, transactional=True),
            builders.end_marker(6, producer, commit=False),
            builders.message_set([Rec(b"c")] * 3, 7, GZIP),
            builders.batch([Rec(b"d")] * 3, 10),
        ]
    )


@each_kernel
def test_only_the_offsets_asked_for_have_lines(kernel: ModuleType) -> None:
    data = some_batches()
    for start in range(-1, 14):
        for end in range(start, 15):
            options = dataclasses.replace(OPTIONS, from_offset=start, to_offset=end)
            result = lines(kernel, data, options)
            assert shown(result) == [n for n in range(13) if start <= n < end]
            assert result.rows_done == 5


@each_kernel
@pytest.mark.parametrize("fate", Fate)
def test_committed_leaves_out_control_records_and_what_did_not_commit(
    kernel: ModuleType, fate: Fate
) -> None:
    fates = np.array([0, fate, 0, 0, 0], np.uint8)
    assert shown(lines(kernel, some_batches(), fates=fates)) == list(range(13))
    hidden = {6} | ({3, 4, 5} if fate in (Fate.ABORTED, Fate.OPEN) else set())
    found = shown(lines(kernel, some_batches(), COMMITTED, fates=fates))
    assert found == [n for n in range(13) if n not in hidden]


@each_kernel
def test_rows_left_out_are_not_looked_into(kernel: ModuleType) -> None:
    broken = builders.batch([Rec(b"b")], 5, ZSTD, section=b"???", transactional=True)
    fates = np.array([Fate.ABORTED], np.uint8)
    assert lines(kernel, broken, COMMITTED, fates=fates).problem is None
    later = dataclasses.replace(OPTIONS, from_offset=6)
    assert lines(kernel, broken, later) == LinesResult(b"", 0, 1, None, 0)
    found = lines(kernel, broken)
    assert found.problem is not None
    assert found.problem.code is Problem.DECOMPRESSION


# Problems and parts


@each_kernel
def test_lines_stop_behind_the_row_with_a_problem_and_have_what_came_before_it(
    kernel: ModuleType,
) -> None:
    data = b"".join(
        [
            builders.batch([Rec(b"a")] * 2, 0),
            builders.batch([Rec(b"b")] * 2, 2, record_count=3),
            builders.batch([Rec(b"c")] * 2, 4),
        ]
    )
    result = lines(kernel, data)
    assert shown(result) == [0, 1, 2, 3]
    assert result.rows_done == 2
    assert result.problem is not None
    assert (result.problem.row, result.problem.code) == (1, Problem.RECORD_COUNT)
    table = table_of(data)
    rest = kernel.lines(data, table, 2, 3, start_position=0, options=OPTIONS)
    assert (shown(rest), rest.problem) == ([4, 5], None)


@each_kernel
@given(enough=st.integers(0, 2500), measure=st.booleans())
def test_a_text_in_parts_is_the_whole_text(kernel: ModuleType, enough: int, measure: bool) -> None:
    data = some_batches() + builders.batch([Rec(b"e")] * 2, 13, SNAPPY, record_count=3)
    table = table_of(data)
    asked: dict[str, Any] = {"start_position": 0, "options": OPTIONS}
    whole = kernel.lines(data, table, 0, 6, **asked)
    row, record, texts, size = 0, 0, [], 0
    while row < 6:
        part = kernel.lines(
            data, table, row, 6, first_record=record, enough=enough, measure=measure, **asked
        )
        largest = max(map(len, whole.text.splitlines(keepends=True)))
        assert part.size < enough + largest
        texts.append(part.text)
        size += part.size
        row, record = row + part.rows_done, part.next_record
        if enough == 0:
            assert (part.rows_done, part.next_record, part.size) == (0, 0, 0)
            return
    assert (part.problem, size) == (whole.problem, whole.size)
    assert measure or b"".join(texts) == whole.text


@each_kernel
def test_large_values_and_many_headers_fit(kernel: ModuleType) -> None:
    records = [
        Rec(b"\x01" * 100_000, b"\xff" * 50_000, headers=[(b"", None)] * 1000),
        Rec(b'["\x7f' + "\U000e0041".encode() * 5000 + b'"]', headers=[(b"\xff", b"\xff")] * 1000),
    ]
    data = builders.batch(records, 0, LZ4)
    result = lines(kernel, data)
    assert shown(result) == [0, 1]
    assert lines(kernel, data, measure=True).size == result.size


@each_kernel
def test_budgets_hold_for_lines_too(kernel: ModuleType) -> None:
    data = builders.batch([Rec(b"x" * 1000)] * 9, 0, ZSTD)
    tight = dataclasses.replace(DEFAULT_BUDGETS, inflated_bytes=5000)
    result = lines(kernel, data, budgets=tight)
    assert result.problem is not None
    assert (result.problem.code, result.records) == (Problem.LIMIT, 0)


# Search


@each_kernel
@given(
    needle=st.binary(max_size=5),
    hay=st.lists(st.binary(max_size=80), min_size=1, max_size=5),
    codec=st.sampled_from(CompressionType),
    at=st.integers(0, 100),
)
def test_a_batch_that_holds_the_needle_is_marked(
    kernel: ModuleType, needle: bytes, hay: list[bytes], codec: CompressionType, at: int
) -> None:
    with_it = hay[0][:at] + needle + hay[0][at:]
    batches = [builders.batch([Rec(text)], n, codec) for n, text in enumerate([*hay, with_it])]
    data = b"".join(batches)
    table = table_of(data)
    mask = kernel.contains(data, table, 0, len(table), needle, start_position=0)
    for marked, text in zip(mask.tolist(), [*hay, with_it], strict=True):
        assert marked in (0, 1)
        assert marked or needle not in text
    sections = [
        builders.records_section([Rec(text)], n, NOW) for n, text in enumerate([*hay, with_it])
    ]
    assert mask.tolist() == [int(needle in section) for section in sections]


@each_kernel
def test_needles_are_found_at_every_place(kernel: ModuleType) -> None:
    for size in (1, 2, 3, 31, 32, 33, 64, 100):
        needle = bytes(range(1, size + 1))
        for place in (0, 1, 15, 30, 31, 32, 33, 63, 64, 65):
            data = builders.batch([Rec(bytes(place) + needle + bytes(place % 7))])
            table = table_of(data)
            asked = (data, table, 0, 1)
            assert kernel.contains(*asked, needle, start_position=0).tolist() == [1]
            other = needle[:-1] + b"\xff"
            assert kernel.contains(*asked, other, start_position=0).tolist() == [0]


@each_kernel
def test_wrappers_are_searched_inside_and_rows_by_their_numbers(kernel: ModuleType) -> None:
    data = some_batches()
    table = table_of(data)
    asked = (data, table, 1, 5)
    assert kernel.contains(*asked, b"c", start_position=0).tolist() == [0, 0, 1, 0]
    assert kernel.contains(*asked, b"d", start_position=0).tolist() == [0, 0, 0, 1]


@each_kernel
def test_what_cannot_be_inflated_may_hold_anything(kernel: ModuleType) -> None:
    for data in (
        builders.batch([Rec(b"a")], 0, ZSTD, section=b"???"),
        builders.batch([Rec(b"a")], 0, attributes=6),
        builders.message(0, None, None, attributes=GZIP),
        builders.message(0, None, b"", attributes=ZSTD),
    ):
        mask = kernel.contains(data, table_of(data), 0, 1, b"needle", start_position=0)
        assert mask.tolist() == [1]
