"""Whatever the bytes are, both kernels say the same about them, and neither fails."""

from __future__ import annotations

import dataclasses
import os
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from engine.budgets import DEFAULT_BUDGETS
from engine.coding.compression import CompressionType, compress
from engine.columns.batch_table import BATCH_ROW
from engine.columns.matching import Automaton
from engine.kernel import compiled, python as kernel_python
from engine.lines.line_decoder import Marks
from engine.lines.record_line import LineOptions
from tests import builders
from tests.builders import Producer, Rec

NOW = 1_700_000_000_000
TIGHT = dataclasses.replace(
    DEFAULT_BUDGETS, inflated_bytes=4000, records_per_batch=40, headers_per_record=5
)
RECORDS = [
    Rec(b'{"a": [1, 2, {"b": null}]}', b"key", NOW),
    Rec(None, None, NOW + 1, headers=[(b"h", b"v"), (b"n", None), (b"", b"\xff\xfe")]),
    Rec(b"plain \x01 text \xc3\xa9", b"\xff", NOW - 5),
    Rec(b"", b"", NOW + 200_000),
]
PRODUCER = Producer(id=9, epoch=1, sequence=2**31 - 2)
AUTOMATON = Automaton(
    np.array([[0] * 256, [512] + [256] * 255, [512] * 97 + [0] + [256] * 158], np.uint32).ravel(),
    np.array([1, 0, 1], np.uint8),
)
"""Accepts a field with a zero byte before an "a", or at the end."""
MARKS = Marks(b"{\xff", (b"n",))
edges = st.sampled_from([0, 1, 2, 0x10, 0x40, 0x7F, 0x80, 0x81, 0xFE, 0xFF])


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Some bytes replaced, taken out, put in or copied."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        if not changed:
            break
        place = draw(st.integers(0, len(changed) - 1))
        kind = draw(st.sampled_from(["edge", "flip", "cut", "insert", "copy"]))
        if kind == "edge":
            changed[place] = draw(edges)
        elif kind == "flip":
            changed[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del changed[place : place + draw(st.integers(1, 5))]
        elif kind == "insert":
            changed[place:place] = bytes(draw(st.lists(edges, min_size=1, max_size=5)))
        else:
            other = draw(st.integers(0, len(changed) - 1))
            size = draw(st.integers(1, 12))
            changed[place : place + size] = changed[other : other + size]
    return bytes(changed)


@st.composite
def hostile_batches(draw: st.DrawFn) -> bytes:
    """A batch with its header or its records mutated, compressed after that."""
    codec = draw(st.sampled_from(CompressionType))
    magic = draw(st.sampled_from([0, 1, 2, 2, 2]))
    given = RECORDS[: draw(st.integers(1, 4))]
    if magic == 2:
        section = draw(mutated(builders.records_section(given, 50, NOW)))
        batch = builders.batch(
            *(given, 50, codec),
            producer=PRODUCER,
            transactional=draw(st.booleans()),
            control=draw(st.sampled_from([False, False, False, True])),
            section=compress(codec, section),
        )
        head = draw(mutated(batch[17:61])).ljust(44, b"\0")[:44]
        return batch[:17] + head + batch[61:]
    messages = b"".join(
        builders.message(i, rec.key, rec.value, magic=magic) for i, rec in enumerate(given)
    )
    content = compress(codec, draw(mutated(messages)), magic=magic)
    outer = builders.message(50, None, content, magic=magic, attributes=codec)
    return outer[:17] + draw(mutated(outer[17:26])).ljust(9, b"\0")[:9] + outer[26:]


def everything(kernel: ModuleType, data: bytes, **asked: Any) -> list[Any]:
    """All that a kernel says about bytes."""
    table = np.zeros(8, BATCH_ROW.dtype)
    said = [kernel.walk(data, table, 0, 5, True), table.tolist()]
    rows = said[0][0]
    columns = kernel.decode(data, table, 0, rows, start_position=5, budgets=TIGHT)
    said += [columns.table.tolist(), bytes(columns.arena), columns.problems, columns.next_row]
    summaries, problems = kernel.summarize(data, table[:rows], start_position=5, budgets=TIGHT)
    said += [summaries.tolist(), problems]
    for measure in (False, True):
        said.append(
            kernel.lines(
                data, table, 0, rows, start_position=5, budgets=TIGHT, measure=measure, **asked
            )
        )
    plain = {"budgets": TIGHT, "options": asked["options"], "fates": asked.get("fates")}
    size = kernel.lines(data, table, 0, rows, start_position=5, measure=True, **plain).size
    fd = os.memfd_create("log")
    os.write(fd, data)
    text = kernel.read_lines(fd, 0, said[0][1], rows, size, **plain)
    said.append(None if text is None else bytes(text))
    os.close(fd)
    for needle in (b"a", b"Plain", b""):
        for fold in (False, True):
            how: dict[str, Any] = {"start_position": 5, "budgets": TIGHT, "fold": fold}
            mask = kernel.contains(data, table, 0, rows, needle, **how)
            held = kernel.decode(data, table, 0, rows, needle=needle, **how)
            said += [mask.tolist(), held.table.tolist(), held.problems, held.next_row]
            held = kernel.decode(data, table, 0, rows, needle=needle, marks=MARKS, **how)
            said += [held.table.tolist(), held.problems, held.next_row]
            for fields in range(8):
                said.append(kernel.matching(columns, fields, needle, fold=fold).tolist())
    said.append(kernel.matching(columns, 7, automaton=AUTOMATON).tolist())
    said.append(kernel.column_lines(table[:rows], columns, **asked))
    said += [kernel.find_batch(data, start, 0, 3) for start in (0, 1, 70)]
    said += [kernel.good_rows(table, row, rows) for row in range(rows + 1)]
    return said


@given(
    batches=st.lists(hostile_batches(), min_size=1, max_size=3),
    values=st.sampled_from(["auto", "text", "base64", "hex", "none"]),
    committed=st.booleans(),
    fates=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    first=st.integers(-1, 55),
    enough=st.sampled_from([2**62, 0, 200, 700]),
    first_record=st.integers(0, 2),
    topic=st.sampled_from(["t", "__consumer_offsets", "__cluster_metadata"]),
)
def test_both_kernels_agree_on_hostile_batches(
    batches: list[bytes],
    values: str,
    committed: bool,
    fates: list[int],
    first: int,
    enough: int,
    first_record: int,
    topic: str,
) -> None:
    options = LineOptions(
        topic, 1, values=values, committed=committed, from_offset=first, to_offset=first + 3
    )
    if first < 40:
        options = dataclasses.replace(options, to_offset=2**63 - 1)
    asked = {
        "options": options,
        "fates": np.array(fates, np.uint8),
        "enough": enough,
        "first_record": first_record,
    }
    data = b"".join(batches)
    assert everything(compiled, data, **asked) == everything(kernel_python, data, **asked)


@given(
    codec=st.sampled_from(list(CompressionType)[1:]), data=st.data(), other=st.binary(max_size=9)
)
def test_damaged_payloads_say_the_same_whatever_was_decoded_before(
    codec: CompressionType, data: st.DataObject, other: bytes
) -> None:
    """Nothing of what memory held before may show, however a codec's library takes to nonsense."""
    section = data.draw(mutated(compress(codec, builders.records_section(RECORDS * 4, 50, NOW))))
    batch = builders.batch(RECORDS * 4, 50, codec, section=section)
    options = LineOptions("t", 1)
    before = everything(compiled, batch, options=options)
    everything(compiled, builders.batch([Rec(other * 500)] * 9, 0, codec), options=options)
    assert everything(compiled, batch, options=options) == before


@given(data=st.binary(max_size=300))
def test_both_kernels_agree_on_any_bytes(data: bytes) -> None:
    options = LineOptions("t", 1)
    assert everything(compiled, data, options=options) == everything(
        kernel_python, data, options=options
    )


@given(
    data=mutated(builders.batch(RECORDS, 3) + builders.message(9, b"k", b"v") + bytes(40)),
    start=st.integers(0, 200),
)
def test_both_kernels_agree_on_broken_frames(data: bytes, start: int) -> None:
    options = LineOptions("t", 1)
    assert everything(compiled, data, options=options) == everything(
        kernel_python, data, options=options
    )
    found = [kernel.find_batch(data, start, 0, 0) for kernel in (compiled, kernel_python)]
    assert found[0] == found[1]
