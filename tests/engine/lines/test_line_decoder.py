"""Lines of topics with a decoder: what they show, and that both kernels and all ways to make lines agree."""

from __future__ import annotations

import json
import os
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from engine.columns.batch_table import BatchRows
from engine.kernel import compiled, python as kernel_python
from engine.lines import decoded_lines
from engine.lines.line_decoder import LineDecoder, Marks
from engine.lines.record_line import LineOptions
from engine.record.fate import Fate
from tests import builders
from tests.builders import Rec
from tests.engine.kernel.kernels import each_kernel, table_of
from tests.engine.lines.marked_records import All, Upper, log_of

UPPER = Upper()
shares = st.sampled_from([0.0, 0.1, 0.9])


@settings(max_examples=40)
@given(
    chance=st.randoms(use_true_random=False),
    marked=shares,
    decoder=st.sampled_from([UPPER, All()]),
    committed=st.booleans(),
    bounds=st.sampled_from([(0, 2**63 - 1), (3, 9), (20, 21)]),
    enough=st.sampled_from([2**62, 0, 1, 700, 5000]),
    most=st.sampled_from([0, 1000, 100_000]),
    first_record=st.integers(0, 3),
)
def test_both_kernels_and_both_passes_agree(
    chance: Random,
    marked: float,
    decoder: LineDecoder,
    committed: bool,
    bounds: tuple[int, int],
    enough: int,
    most: int,
    first_record: int,
) -> None:
    data = log_of(chance, marked)
    table = table_of(data)
    options = LineOptions(
        "t", 3, committed=committed, from_offset=bounds[0], to_offset=bounds[1], decode_with=decoder
    )
    fates = np.array([chance.choice(list(Fate)) for _ in table], np.uint8)
    asked: dict[str, Any] = {
        "start_position": 0, "options": options, "enough": enough, "first_record": first_record,
        "fates": chance.choice((None, fates)), "most": most,
    }  # fmt: skip
    result = compiled.lines(data, table, 0, len(table), **asked)
    assert result == kernel_python.lines(data, table, 0, len(table), **asked)
    assert compiled.lines(data, BatchRows.of(table).data, 0, len(table), **asked) == result
    measured = compiled.lines(data, table, 0, len(table), measure=True, **asked)
    assert measured == result._replace(text=None)
    for line in (result.text or b"").splitlines():
        json.loads(line)


@settings(max_examples=25)
@given(
    chance=st.randoms(use_true_random=False), marked=shares, enough=st.sampled_from([1, 900, 2**62])
)
def test_lines_of_columns_agree(chance: Random, marked: float, enough: int) -> None:
    data = log_of(chance, marked)
    table = table_of(data)
    columns = compiled.decode(data, table, 0, len(table), start_position=0)
    asked: dict[str, Any] = {"options": LineOptions("t", 3, decode_with=UPPER), "enough": enough}
    result = compiled.column_lines(table, columns, **asked)
    assert result == kernel_python.column_lines(table, columns, **asked)


@settings(max_examples=25)
@given(chance=st.randoms(use_true_random=False), marked=shares)
def test_a_file_reads_the_same_lines(chance: Random, marked: float) -> None:
    data = log_of(chance, marked)
    table, options = table_of(data), LineOptions("t", 3, decode_with=UPPER)
    text = compiled.lines(data, table, 0, len(table), start_position=0, options=options)
    if text.problem is not None:
        return
    fd = os.memfd_create("log")
    try:
        os.write(fd, data)
        for kernel in (compiled, kernel_python):
            read = kernel.read_lines(fd, 0, len(data), len(table), text.size, options=options)
            if read is not None:
                assert bytes(read) == text.text
            for offset in range(int(table["last_offset"][-1]) + 1):
                one = kernel.read_line(fd, 0, len(data), offset, options, most=2**20)
                assert one is None or one[0] in (text.text or b"")
    finally:
        os.close(fd)


@pytest.mark.parametrize("decoder", [UPPER, All()])
@each_kernel
def test_one_record_that_may_be_decoded_is_left_to_the_caller(
    kernel: ModuleType, decoder: LineDecoder
) -> None:
    data = builders.batch([Rec(b"plain"), Rec(b"\0abc"), Rec(b"x", headers=[(b"__schema", b"")])])
    fd = os.memfd_create("log")
    os.write(fd, data)
    options = LineOptions("t", 0, decode_with=decoder)
    found = [
        kernel.read_line(fd, 0, len(data), offset, options, most=2**20) is None
        for offset in range(3)
    ]
    os.close(fd)
    assert found == [decoder.marks is None, True, True]


def test_records_without_marks_stay_with_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(
        builders.batch([Rec(b"plain", b"k", headers=[(b"_schema", b"\0")])] * 20, offset * 20)
        for offset in range(50)
    )
    table = table_of(data)
    plain = compiled.lines(data, table, 0, 50, start_position=0, options=LineOptions("t", 0))
    monkeypatch.delattr(decoded_lines, "decoded_lines")
    options = LineOptions("t", 0, decode_with=UPPER)
    assert compiled.lines(data, table, 0, 50, start_position=0, options=options) == plain


def test_the_kernel_goes_on_after_the_last_marked_record() -> None:
    batches = [builders.batch([Rec(b"\0abc")])]
    batches += [builders.batch([Rec(b"x")] * 50, 1 + n * 50) for n in range(400)]
    data = b"".join(batches)
    seen = []

    class Counting(Upper):
        def may_decode(self, *args: Any) -> bool:
            seen.append(args)
            return super().may_decode(*args)

    options = LineOptions("t", 0, decode_with=Counting())
    result = compiled.lines(data, table_of(data), 0, 401, start_position=0, options=options)
    assert result.records == 20_001
    assert 1 < len(seen) < 5000


@each_kernel
def test_a_decoded_field_names_its_encoding_and_schema(kernel: ModuleType) -> None:
    data = builders.batch([Rec(b"\0abc", b"\xffk"), Rec(b"\0", None), Rec(b"text", b"\0\0")])
    options = LineOptions("t", 0, decode_with=UPPER)
    text = kernel.lines(data, table_of(data), 0, 1, start_position=0, options=options).text
    lines = [line[line.index(b'"key"') : line.index(b',"headers"')] for line in text.splitlines()]
    both = b'"key":{"size":2},"keyEncoding":"sized","keySchema":{"id":7},'
    assert lines == [
        both + b'"value":{"size":4},"valueEncoding":"sized","schema":{"id":7}',
        b'"key":null,"value":"\\u0000","schema":{"id":3},"valueNote":"one byte \\"only\\""',
        b'"key":{"size":2},"keyEncoding":"sized","keySchema":{"id":7},"value":"text"',
    ]


@each_kernel
@pytest.mark.parametrize("values", ["text", "base64", "hex", "none"])
def test_a_forced_form_shows_the_bytes(kernel: ModuleType, values: str) -> None:
    data = builders.batch([Rec(b"\0abc", b"\xffk")])
    shown = [
        kernel.lines(data, table_of(data), 0, 1, start_position=0, options=options)
        for options in (
            LineOptions("t", 0, values=values, decode_with=UPPER),
            LineOptions("t", 0, values=values),
        )
    ]
    assert shown[0] == shown[1]


def test_marks_that_the_kernel_cannot_hold_are_refused() -> None:
    data = builders.batch([Rec(b"abc")])
    for keys in ((b"k",) * 5, (b"k" * 33,), (b"",)):
        decoder = Upper()
        decoder.marks = Marks(b"\0", keys)
        options = LineOptions("t", 0, decode_with=decoder)
        with pytest.raises(ValueError, match="headers"):
            compiled.lines(data, table_of(data), 0, 1, start_position=0, options=options)
