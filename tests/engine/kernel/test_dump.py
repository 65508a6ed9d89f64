"""The text of batches and records in a dump: both kernels, on what brokers wrote and on anything else."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, strategies as st

from engine.coding.compression import CompressionType
from engine.columns.batch_table import BATCH_ROW
from engine.columns.columns import RECORD_ROW, Columns
from engine.kernel import compiled, python as kernel_python
from engine.lines.dump_text import DumpShape, java_text
from engine.record.attributes import TimestampType
from tests import builders, fixtures_data
from tests.builders import Producer, Rec
from tests.engine.kernel.kernels import each_kernel, table_of

ALL = DumpShape.BATCHES | DumpShape.METADATA | DumpShape.CONTENTS
R = "\N{REPLACEMENT CHARACTER}"

JAVA_TEXTS = {
    b"plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80": "plain é € 😀",
    b"\x80\xbf": R * 2,
    b"\xc0\x80": R * 2,
    b"\xc3": R,
    b"\xc3A": R + "A",
    b"\xe0\x80\x80": R * 3,
    b"\xe2\x82": R,
    b"\xe2\x82A": R + "A",
    b"\xe2A\x82": R + "A" + R,
    b"\xed\xa0\x80x": R + "x",
    b"\xed\xa0": R,
    b"\xf0\x9f\x98": R,
    b"\xf0\x9f\x98A": R + "A",
    b"\xf0\x9fA\x80": R + "A" + R,
    b"\xf0\x80\x80\x80": R * 4,
    b"\xf4\x90\x80\x80": R * 4,
    b"\xf5\x80\x80\x80": R * 4,
    b"\xf8\xff": R * 2,
}
"""Bytes, and what Java's `new String(bytes, UTF_8)` makes of them (seen with Java 17)."""


def dumped(kernel: ModuleType, data: bytes, shape: int = ALL, **options: int) -> bytes:
    table = table_of(data)
    columns = kernel.decode(data, table, 0, len(table), start_position=0)
    assert not columns.problems
    text, after = kernel.dump_rows(table, 0, len(table), columns, shape=shape, **options)
    assert after == len(columns)
    assert isinstance(text, bytes)
    return text


def one_value(data: bytes) -> tuple[np.ndarray, Columns]:
    """A batch with a record of which only the value is looked at."""
    records = np.zeros(1, RECORD_ROW.dtype)
    records["key_size"], records["value_size"] = -1, len(data)
    row = np.zeros(1, BATCH_ROW.dtype)
    row["magic"] = 2
    return row, Columns(records, memoryview(data), [], 1)


@pytest.mark.parametrize(("data", "text"), JAVA_TEXTS.items(), ids=[k.hex() for k in JAVA_TEXTS])
@each_kernel
def test_bytes_are_shown_as_java_shows_them(kernel: ModuleType, data: bytes, text: str) -> None:
    assert java_text(data).decode() == text
    row, columns = one_value(data)
    shown, _ = kernel.dump_rows(row, 0, 1, columns, shape=DumpShape.CONTENTS)
    assert shown.decode() == f"| payload: {text}\n"


@given(st.lists(st.sampled_from(b"Az\x80\x9f\xa0\xbf\xc2\xe0\xe2\xed\xf0\xf1\xf4\xf5")).map(bytes))
def test_both_kernels_show_any_bytes_alike(data: bytes) -> None:
    row, columns = one_value(data)
    found = compiled.dump_rows(row, 0, 1, columns, shape=ALL)
    assert found == kernel_python.dump_rows(row, 0, 1, columns, shape=ALL)


@each_kernel
def test_a_batch_and_its_records_have_a_line_each(kernel: ModuleType) -> None:
    records = [
        Rec(b"v0", b"k0", 1000, headers=[(b"h", b"1"), (b"\xff", None)]),
        Rec(None, b"", 1001),
        Rec(b"", None, 1002),
    ]
    data = builders.batch(records, 7, producer=Producer(id=9, epoch=2, sequence=2**31 - 2))
    crc = int.from_bytes(data[17:21], "big")
    assert dumped(kernel, data).decode().splitlines() == [
        (
            "baseOffset: 7 lastOffset: 9 count: 3 baseSequence: 2147483646 lastSequence: 0"
            " producerId: 9 producerEpoch: 2 partitionLeaderEpoch: 0 isTransactional: false"
            " isControl: false deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1002"
            f" size: {len(data)} magic: 2 compresscodec: none crc: {crc} isvalid: true"
        ),
        (
            "| offset: 7 CreateTime: 1000 keySize: 2 valueSize: 2 sequence: 2147483646"
            f" headerKeys: [h,{R}] key: k0 payload: v0"
        ),
        (
            "| offset: 8 CreateTime: 1001 keySize: 0 valueSize: -1 sequence: 2147483647"
            " headerKeys: [] key: "
        ),
        (
            "| offset: 9 CreateTime: 1002 keySize: -1 valueSize: 0 sequence: 0"
            " headerKeys: [] payload: "
        ),
    ]


@each_kernel
def test_flags_of_a_batch_are_said(kernel: ModuleType) -> None:
    data = builders.batch(
        [Rec(timestamp=5)],
        codec=CompressionType.ZSTD,
        transactional=True,
        delete_horizon=77,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=99,
    )
    text = dumped(kernel, builders.patched(data, 15, b"\x09"), DumpShape.BATCHES).decode()
    for said in (
        *(" isTransactional: true ", " deleteHorizonMs: OptionalLong[77] "),
        *(" LogAppendTime: 99 ", " compresscodec: zstd ", " partitionLeaderEpoch: 9 "),
    ):
        assert said in text


@each_kernel
def test_without_metadata_a_line_has_only_key_and_payload(kernel: ModuleType) -> None:
    data = builders.batch([Rec(b"v", b"k"), Rec(b"v"), Rec(None, b"k"), Rec(None)])
    shown = dumped(kernel, data, DumpShape.CONTENTS).decode()
    assert shown == "| key: k payload: v\n| payload: v\n| key: k\n\n"


@each_kernel
def test_only_the_records_between_two_offsets_are_shown(kernel: ModuleType) -> None:
    data = builders.batch(builders.values(*"abcdef"), 10)
    shown = dumped(kernel, data, DumpShape.CONTENTS, from_offset=12, upto_offset=13)
    assert shown == b"| payload: c\n| payload: d\n"


@each_kernel
def test_rows_and_records_go_on_where_the_last_call_ended(kernel: ModuleType) -> None:
    data = b"".join(builders.batch(builders.values("a", "b"), base) for base in (0, 2, 4))
    table = table_of(data)
    columns = kernel.decode(data, table, 0, 3, start_position=0)
    parts, at = [], 0
    for row in range(3):
        text, at = kernel.dump_rows(table, row, row + 1, columns, shape=ALL, first_record=at)
        parts.append(text)
        assert at == 2 * row + 2
    assert b"".join(parts) == dumped(kernel, data)


@each_kernel
def test_messages_of_old_formats_have_a_line_without_records(kernel: ModuleType) -> None:
    for magic, label in ((0, "NoTimestampType: -1"), (1, "CreateTime: 1700000000000")):
        data = builders.message(5, b"k", b"v", magic=magic)
        crc = int.from_bytes(data[12:16], "big")
        text, _ = kernel.dump_rows(table_of(data), 0, 1, None, shape=DumpShape.BATCHES)
        assert text.decode() == (
            f"offset: 5 position: 0 {label} size: {len(data)} magic: {magic}"
            f" compresscodec: none crc: {crc} isvalid: true\n"
        )


@each_kernel
def test_rows_outside_the_table_are_refused(kernel: ModuleType) -> None:
    table = table_of(builders.batch([Rec()]))
    with pytest.raises(ValueError, match="not in the batch table"):
        kernel.dump_rows(table, 0, 2, None, shape=ALL)


def test_a_field_outside_the_arena_is_refused() -> None:
    row, columns = one_value(b"four")
    columns.table["value_size"] = 5
    with pytest.raises(ValueError, match="arena"):
        compiled.dump_rows(row, 0, 1, columns, shape=ALL)


@pytest.mark.parametrize("partition", ["weird-0", "codec-lz4-0", "txn-0"])
def test_both_kernels_write_the_same_of_what_a_broker_wrote(partition: str) -> None:
    data = fixtures_data.logs("current", partition)[0].read_bytes()
    assert dumped(compiled, data) == dumped(kernel_python, data)
