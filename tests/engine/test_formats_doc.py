"""FORMATS.md says what the declarations say."""

import re
from pathlib import Path

import pytest

from engine.coding.layout import Layout
from engine.index import offset_index, time_index, transaction_index
from engine.record import batch_frame
from engine.state import producer_snapshot

TEXT = (Path(__file__).parents[2] / "engine" / "FORMATS.md").read_text()
LETTERS = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint32": "I"}


def section(title: str) -> str:
    return TEXT[TEXT.index(title) :].split("\n##")[0]


def test_the_table_of_a_batch_header_is_the_layout() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", section("Magic 2"), re.MULTILINE)
    header = batch_frame.HEADER
    assert [(int(at), int(size), name) for at, size, name in rows] == [
        (
            header.position_of(name),
            header.field_struct(name).size,
            name,
        )
        for name in batch_frame.BatchHeader._fields
    ]
    assert f"| {header.size} | | records |" in TEXT


@pytest.mark.parametrize(
    ("title", "layout"),
    [
        ("`.index`", offset_index.ENTRY),
        ("`.timeindex`", time_index.ENTRY),
        ("`.txnindex`", transaction_index.ENTRY),
        ("`.snapshot`", producer_snapshot.ENTRY),
    ],
)
def test_the_entries_of_an_index_are_the_layout(title: str, layout: Layout) -> None:  # type: ignore[type-arg]
    words = re.findall(r"(\w+)`?,?\s+(int8|int16|int32|int64|uint32)\b", section(f"## {title}"))
    fields = list(layout._positions)
    assert [(name, LETTERS[width]) for name, width in words][-len(fields) :] == [
        (name, layout.field_struct(name).format[1:]) for name in fields
    ]
