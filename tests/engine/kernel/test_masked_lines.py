"""Lines with a mask are the kernel's lines, masked one by one, wherever a text is cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS
from engine.coding.compression import CompressionType
from engine.lines import masked_lines
from engine.lines.record_line import LineOptions
from tests import builders
from tests.builders import Rec
from tests.engine.kernel.kernels import table_of

SECRET = b"Zu7rich"


class Shouting:
    """A mask that keeps the offset alone."""

    def line(self, line: bytes) -> bytes:
        return b'{"topic":"t","partition":0,"offset":%d,"MASKED":"%s"}\n' % (
            json.loads(line)["offset"],
            b"x" * 70,
        )

    def lines(self, text: bytes) -> bytes:
        return b"".join(self.line(line) for line in text.splitlines())

    def damage(self, facts: dict[str, Any]) -> dict[str, Any]:
        return {}


MASKED = LineOptions("t", 0, mask=Shouting())


@pytest.fixture(params=["compiled", "python"], autouse=True)
def used(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both kernels, and steps of a few lines."""
    monkeypatch.setattr(masked_lines, "_STEP", 300)
    before = kernel.name
    kernel.use(request.param)
    yield
    kernel.use(before)


@pytest.fixture
def data() -> bytes:
    records = [Rec(SECRET * 9, SECRET, headers=[(b"h", SECRET)])] * 7
    codecs = (CompressionType.NONE, CompressionType.GZIP, CompressionType.NONE)
    return b"".join(builders.batch(records, 7 * at, codec) for at, codec in enumerate(codecs))


def lines(data: bytes, options: LineOptions = MASKED, **given: Any) -> kernel.LinesResult:
    table = table_of(data)
    return kernel.lines(data, table, 0, len(table), start_position=0, options=options, **given)


def test_lines_are_masked_one_by_one(data: bytes) -> None:
    plain, made = lines(data, MASKED.bare), lines(data)
    assert plain.text is not None
    assert plain.text.count(SECRET) == 21 * 11
    assert made.text == Shouting().lines(plain.text)
    assert (made.size, made.records, made.rows_done) == (len(made.text), 21, 3)
    measured = lines(data, measure=True)
    assert (measured.text, measured.size) == (None, made.size)


@pytest.mark.parametrize("enough", [1, 200, 301, 1000])
def test_a_text_that_is_cut_goes_on_where_it_ends(data: bytes, enough: int) -> None:
    whole, table = lines(data).text, table_of(data)
    found, row, record = b"", 0, 0
    while row < len(table):
        made = kernel.lines(
            data, table, row, len(table), start_position=0, options=MASKED, enough=enough, first_record=record
        )  # fmt: skip
        assert made.text
        found += made.text
        row, record = row + made.rows_done, made.next_record
    assert found == whole


def test_lines_of_columns_are_the_same(data: bytes) -> None:
    table = table_of(data)
    columns = kernel.decode(data, table, 0, len(table), start_position=0, budgets=DEFAULT_BUDGETS)
    assert kernel.column_lines(table, columns, options=MASKED).text == lines(data).text
    some = kernel.column_lines(table, columns, options=MASKED, first_record=20)
    assert (some.records, some.rows_done) == (1, 1)


def test_functions_without_masks_make_no_line(tmp_path: Any, data: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with path.open("rb") as file:
        given = {"budgets": DEFAULT_BUDGETS, "most": 1 << 20}
        for options, is_made in ((MASKED, False), (MASKED.bare, True)):
            one = kernel.read_line(file.fileno(), 0, len(data), 3, options, **given)
            size = lines(data, options).size
            some = kernel.read_lines(file.fileno(), 0, len(data), 3, size, options=options)
            assert (one is not None, some is not None) == (is_made, is_made)


def test_options_with_a_mask_decode_to_nothing() -> None:
    assert MASKED.decoder is not None
    key, value = MASKED.decoder.fields(SECRET, SECRET, (), 0)
    assert key is not None
    assert value is not None
    assert (key.text, value.text) == (b"null", b"null")
    assert replace(MASKED.bare, mask=MASKED.mask) == MASKED
    assert MASKED.bare.decoder is None
