"""A search passes over a batch only if no record in it has the needle or looks like one to decode."""

from __future__ import annotations

from types import ModuleType

import pytest

from engine.coding.compression import CompressionType
from engine.lines.line_decoder import Marks
from tests import builders
from tests.builders import Rec
from tests.engine.kernel.kernels import decoded, each_kernel, facts

MARKS = Marks(b"\x00\x01", (b"__value_schema_id",))
PLAIN = Rec(b"plain", b"key", headers=[(b"trace", b"\x00"), (b"x__value_schema_id", None)])
CODECS = pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.LZ4])


@each_kernel
@CODECS
@pytest.mark.parametrize(
    "record",
    [
        Rec(b"\x00\x00\x00\x00\x01framed", b"key"),
        Rec(None, b"\x01framed"),
        Rec(b"framed", b"key", headers=[(b"a", None), (b"__value_schema_id", b"\x01")]),
        Rec(b"the needle", b"key"),
    ],
    ids=["value", "key", "header", "needle"],
)
def test_a_batch_with_a_marked_record_or_the_needle_is_decoded_whole(
    kernel: ModuleType, codec: CompressionType, record: Rec
) -> None:
    batches = [
        builders.batch(records, 3 * place, codec)
        for place, records in enumerate([[PLAIN] * 3, [PLAIN, record, PLAIN], [PLAIN] * 3])
    ]
    columns = decoded(kernel, b"".join(batches), needle=b"needle", marks=MARKS)
    assert [offset for offset, *_ in facts(columns)] == [3, 4, 5]
    assert facts(columns)[1][2:4] == (record.key, record.value)
    assert not columns.problems


@each_kernel
@CODECS
def test_a_batch_that_breaks_off_before_its_last_record_is_not_passed_over(
    kernel: ModuleType, codec: CompressionType
) -> None:
    data = builders.batch([PLAIN] * 3, 0, codec, record_count=4)
    (problem,) = decoded(kernel, data, needle=b"needle", marks=MARKS).problems
    assert problem.record_index == 3
