"""Records as rows: some of them by their places, their numbers, and which look as if a decoder takes them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from engine.lines.line_decoder import DecodedField, Marks
from kafkafs.records.rows import are_marked, chosen
from tests.builders import Rec
from tests.kafkafs.records.batches_of_records import Decoded, decoded


@pytest.fixture(scope="module")
def records() -> Decoded:
    return decoded(
        *(
            [Rec(b"v%d" % (10 * b + n), b"k%d" % n, timestamp=100 * b + n) for n in range(4)]
            for b in range(3)
        )
    )


@pytest.mark.parametrize("indices", [[0], [1, 2, 3], [0, 5, 11], [2, 3, 4, 8], list(range(12))])
def test_numbers_of_records_and_of_their_batches(records: Decoded, indices: list[int]) -> None:
    rows = records.rows(indices)
    assert len(rows) == len(indices)
    assert rows.numbers("offset").tolist() == indices
    assert rows.timestamps.tolist() == [100 * (each // 4) + each % 4 for each in indices]
    assert rows.of_batch(np.array([7, 8, 9])).tolist() == [7 + each // 4 for each in indices]
    is_run = indices == list(range(indices[0], indices[-1] + 1))
    assert isinstance(rows.places, slice) == is_run
    copied = chosen(records.columns, rows.indices)
    assert [copied.value(place) for place in range(len(indices))] == [
        records.columns.value(each) for each in indices
    ]
    assert (copied.next_row, copied.problems) == (records.columns.next_row, [])


@pytest.mark.parametrize("places", [slice(1, 3), np.array([0, 3]), np.array([], np.intp)])
def test_some_of_the_rows_keep_what_is_decoded_of_them(records: Decoded, places: Any) -> None:
    fields = tuple(
        [None if n == 3 else DecodedField(b"%s%d" % (side, n)) for n in range(4)]
        for side in (b"k", b"v")
    )
    rows = records.rows([2, 5, 6, 9], fields=fields, leftover="file")
    some = rows.some(places)
    picked = np.arange(4)[places].tolist()
    assert some.indices.tolist() == [[2, 5, 6, 9][each] for each in picked]
    assert some.fields == tuple([side[each] for each in picked] for side in fields)
    assert (some.leftover, some.segment, some.partition) == ("file", 7, rows.partition)
    bare = records.rows([2, 5, 6, 9]).some(places)
    assert not bare.keeps_bytes
    assert bare.fields is None
    assert bare.indices.tolist() == some.indices.tolist()


HEADERS = [(), ((b"other", b"x"),), ((b"schema.id", None),), ((b"other", None), (b"schema", b""))]


@pytest.mark.parametrize("seed", range(10))
def test_a_record_is_marked_by_the_first_byte_of_its_key_or_value_and_by_its_headers(
    seed: int,
) -> None:
    chance = random.Random(seed)
    made = [
        Rec(chance.choice([None, b"", b"\0v", b"\1v", b"{}", b"v\0", b"\xff"]), chance.choice([None, b"", b"\0k", b"k", b"\2"]),
            headers=chance.choice(HEADERS))
        for _ in range(30)
    ]  # fmt: skip
    columns = decoded(made[:15], made[15:]).columns
    indices: Any = np.array(sorted(chance.sample(range(30), 12)), np.intp)
    for marks in (
        Marks(b"\0"),
        Marks(b"\xff"),
        Marks(b"\0\2{"),
        Marks(b"", (b"schema",)),
        Marks(b"\1", (b"schema.", b"none")),
        Marks(b""),
    ):
        for sides in (("key", "value"), ("key",), ("value",), ()):
            for places in (slice(None), slice(3, 9), indices):

                def is_marked(
                    each: Rec, marks: Marks = marks, sides: tuple[str, ...] = sides
                ) -> bool:
                    first = {"key": each.key, "value": each.value}
                    return any(first[side] and first[side][:1] in {bytes([b]) for b in marks.first_bytes} for side in sides) or any(
                        key.startswith(marks.header_keys) for key, _ in each.headers if marks.header_keys
                    )  # fmt: skip

                found = are_marked(columns, marks, places, sides)
                assert found.tolist() == [
                    bool(is_marked(made[each])) for each in np.arange(30)[places].tolist()
                ]
        assert (
            are_marked(columns, marks).tolist()
            == are_marked(columns, marks, slice(None), ("key", "value")).tolist()
        )
