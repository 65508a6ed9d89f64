"""Record lines of decoded records: whole lines, some at a time, with a mask, and of large records only the place."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from engine import kernel
from engine.lines.record_line import LineOptions
from engine.record.fate import Fate
from kafkafs.masking.actions import DropField, ReplaceField
from kafkafs.masking.field_path import FieldPath
from kafkafs.masking.line_mask import LineMask, MaskRule
from kafkafs.records import line_texts as module
from kafkafs.records.line_texts import RowLines, counted_lines, line_texts
from tests.builders import Rec
from tests.kafkafs.records.batches_of_records import PARTITION, Decoded, decoded

BIG = 600


def mask() -> LineMask:
    return LineMask(
        (
            MaskRule(
                (
                    (FieldPath.parse(".value.a"), ReplaceField("x")),
                    (FieldPath.parse(".key"), DropField()),
                ),
                {},
            ),
        )
    )


@pytest.fixture(scope="module")
def records() -> Decoded:
    values = [b'{"a":%d}' % n if n != 5 else b'{"a":"%s"}' % (b"b" * BIG) for n in range(12)]
    return decoded(
        [Rec(each, b"k") for each in values[:4]], [Rec(each, b"k") for each in values[4:]]
    )


def options(**more: Any) -> LineOptions:
    return LineOptions(*PARTITION, **more)


def plain(records: Decoded, **more: Any) -> bytes:
    text = kernel.column_lines(records.table, records.columns, options=options(**more)).text
    assert text is not None
    return text


@pytest.mark.parametrize("enough", [1, 300, 1500, 1 << 20])
def test_the_texts_are_whole_lines_and_together_all_of_them(records: Decoded, enough: int) -> None:
    pairs = list(counted_lines(records.table, records.columns, options(), enough=enough))
    assert b"".join(text for text, _ in pairs) == plain(records)
    assert [count for _, count in pairs] == [text.count(b"\n") for text, _ in pairs]
    assert all(text.endswith(b"\n") for text, _ in pairs)
    assert all(len(text) - len(text.splitlines(keepends=True)[-1]) < enough for text, _ in pairs)
    assert len(pairs) == {1: 12, 1 << 20: 1}.get(enough, len(pairs)) > (enough < 1000)
    assert list(line_texts(records.table, records.columns, options(), enough=enough)) == [
        text for text, _ in pairs
    ]


def test_usually_a_mebibyte_of_text_is_made_at_a_time() -> None:
    many = decoded([Rec(b"v" * 200_000, b"k")] * 12)
    counts = [text.count(b"\n") for text in line_texts(many.table, many.columns, options())]
    assert counts == [6, 6]


def test_no_records_have_no_text(records: Decoded) -> None:
    none = records.columns.__class__(records.columns.table[:0], b"", [], 0)
    assert list(counted_lines(records.table, none, options())) == []
    assert list(counted_lines(records.table, none, options(mask=mask()))) == []


def test_lines_have_the_fates_of_their_batches() -> None:
    both = decoded([Rec(b"a")], [Rec(b"b")], transactional=True)
    fates = np.array([Fate.ABORTED, Fate.OPEN], np.uint8)
    lines = b"".join(line_texts(both.table, both.columns, options(), fates)).splitlines()
    assert [json.loads(each)["transaction"]["state"] for each in lines] == ["aborted", "open"]


# Masks, and large records


@pytest.mark.parametrize("enough", [1, 1 << 20])
@pytest.mark.parametrize("first_is_large", [False, True])
def test_of_a_large_record_with_a_mask_only_the_place_is_left(
    monkeypatch: pytest.MonkeyPatch, records: Decoded, enough: int, first_is_large: bool
) -> None:
    monkeypatch.setattr(module, "LARGE", BIG // 2)
    if first_is_large:
        some = records.columns.table[5:6]
        records = Decoded(
            records.table, records.columns.__class__(some, records.columns.arena, [], 2)
        )
    pairs = list(counted_lines(records.table, records.columns, options(mask=mask()), enough=enough))
    shown = [json.loads(line) for text, _ in pairs for line in text.splitlines()]
    assert sum(count for _, count in pairs) == len(shown) == len(records.columns)
    for line in shown:
        is_large = line["offset"] == 5
        assert line.get("valueMasked") == ("unreadable" if is_large else None)
        assert line.get("keyMasked") == ("unreadable" if is_large else "dropped")
        assert line.get("value") == (None if is_large else {"a": "x"})


def test_a_large_masked_record_has_the_fate_of_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", BIG // 2)
    both = decoded([Rec(b"v" * BIG)], [Rec(b"w" * BIG)], transactional=True)
    fates = np.array([Fate.ABORTED, Fate.OPEN], np.uint8)
    lines = b"".join(line_texts(both.table, both.columns, options(mask=mask()), fates)).splitlines()
    assert [json.loads(each)["transaction"]["state"] for each in lines] == ["aborted", "open"]
    alone = b"".join(line_texts(both.table, both.columns, options(mask=mask()))).splitlines()
    assert ["state" in json.loads(each)["transaction"] for each in alone] == [False, False]


def test_bare_lines_are_for_a_caller_who_masks_them(
    monkeypatch: pytest.MonkeyPatch, records: Decoded
) -> None:
    monkeypatch.setattr(module, "LARGE", BIG // 2)
    made = b"".join(
        line_texts(records.table, records.columns, options(mask=mask()), bare=True)
    ).splitlines(keepends=True)
    assert made[:5] == plain(records).splitlines(keepends=True)[:5]
    assert b'"valueMasked":"unreadable"' in made[5]
    assert b"bbb" not in b"".join(made)


def test_without_a_mask_a_large_record_is_made_in_parts_by_the_caller(
    monkeypatch: pytest.MonkeyPatch, records: Decoded
) -> None:
    monkeypatch.setattr(module, "LARGE", BIG // 2)

    def large(index: int) -> list[bytes]:
        return [b"line %d, " % index, b"its end\n"]

    pairs = list(counted_lines(records.table, records.columns, options(), large=large))
    whole = plain(records).splitlines(keepends=True)
    assert pairs == [
        (b"".join(whole[:5]), 5), (b"line 5, ", 0), (b"its end\n", 1), (b"".join(whole[6:]), 6),
    ]  # fmt: skip
    assert b"".join(line_texts(records.table, records.columns, options())) == plain(records)


# Rows as lines


@pytest.mark.parametrize("with_mask", [False, True])
def test_row_lines_are_the_lines_of_the_chosen_records(records: Decoded, with_mask: bool) -> None:
    rows = records.rows([1, 2, 7], leftover="file")
    lines = RowLines(rows, mask() if with_mask else None)
    assert (len(lines), lines.partition, lines.leftover) == (3, PARTITION, "file")
    assert lines.timestamps.tolist() == rows.timestamps.tolist()
    whole = b"".join(lines.texts("auto", 1 << 20)).splitlines()
    assert [json.loads(each)["offset"] for each in whole] == [1, 2, 7]
    assert all((json.loads(each)["value"] == {"a": "x"}) == with_mask for each in whole)
    parts = [text.count(b"\n") for text in lines.texts("auto", 1)]
    assert parts == ([3] if with_mask else [1, 1, 1])  # a mask takes a mebibyte of lines at once
    some = b"".join(lines.some(slice(1, 3)).texts("auto", 1)).splitlines()
    assert [json.loads(each)["offset"] for each in some] == [2, 7]
    if not with_mask:
        assert [json.loads(each)["valueEncoding"] for each in lines.texts("hex", 1)] == ["hex"] * 3


def test_row_lines_have_fates_and_what_the_decoder_gives() -> None:
    both = decoded([Rec(b"a")], [Rec(b"b")], transactional=True)
    fates = np.array([Fate.ABORTED, Fate.COMMITTED], np.uint8)
    from dataclasses import replace

    rows = replace(both.rows(), fates=fates)
    lines = [json.loads(each) for each in RowLines(rows, None).texts("auto", 1)]
    assert [each["transaction"]["state"] for each in lines] == ["aborted", "committed"]
