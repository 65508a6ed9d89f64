"""Columns into a table of hashes and back into batches: both kernels, and what hashlib and the builder say."""

from __future__ import annotations

import hashlib
import random
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, strategies as st

from engine.coding.hashed_slots import BYTES_PER_SLOT, digest_of, find_slot, read_slot
from engine.columns.columns import RECORD_ROW, Columns
from engine.kernel import compiled, python as kernel_python
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.record import Header
from tests.engine.kernel.kernels import decoded, each_kernel

NOW = 1_700_000_000_000


def columns_of(*keys: bytes | None, first: int = 0) -> Columns:
    """A record of each key, at offsets from `first` on."""
    records = records_of(*(SimpleRecord(key, b"v") for key in keys), base_offset=first)
    return decoded(kernel_python, bytes(records.buffer))


def empty(slots: int) -> bytearray:
    return bytearray(slots * BYTES_PER_SLOT)


@each_kernel
@pytest.mark.parametrize("size", [0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000])
def test_a_slot_has_the_md5_of_its_key_and_its_offset(kernel: ModuleType, size: int) -> None:
    key = random.Random(size).randbytes(size)
    slots = empty(1)
    assert kernel.put_keys(slots, 0, 1, columns_of(key, first=258), 0) == (1, 1, 258)
    assert slots == hashlib.md5(key).digest() + (258).to_bytes(8, "big")


@each_kernel
def test_the_last_offset_of_a_key_stays_and_a_null_key_is_passed_over(kernel: ModuleType) -> None:
    slots = empty(10)
    columns = columns_of(b"a", None, b"b", b"a", b"")
    assert kernel.put_keys(slots, 0, 10, columns, 0) == (5, 3, 4)
    asked = columns_of(b"a", b"b", None, b"", b"c")
    assert kernel.offsets_of(slots, asked).tolist() == [3, 2, -1, 4, -1]


@each_kernel
def test_records_before_the_start_are_passed_over(kernel: ModuleType) -> None:
    slots = empty(10)
    assert kernel.put_keys(slots, 0, 10, columns_of(b"a", b"b", b"c"), 2) == (3, 1, 2)
    asked = columns_of(b"a", b"c")
    assert kernel.offsets_of(slots, asked).tolist() == [-1, 2]


@each_kernel
def test_no_key_is_put_any_more_at_the_limit_not_even_one_that_is_there(kernel: ModuleType) -> None:
    slots = empty(10)
    columns = columns_of(b"a", b"b", b"a", b"c")
    assert kernel.put_keys(slots, 0, 2, columns, 0) == (2, 2, 1)
    assert kernel.offsets_of(slots, columns).tolist() == [0, 1, 0, -1]


@each_kernel
def test_a_full_table_says_what_it_has_and_what_not(kernel: ModuleType) -> None:
    keys = [str(number).encode() for number in range(50)]
    slots = empty(50)
    assert kernel.put_keys(slots, 0, 50, columns_of(*keys), 0) == (50, 50, 49)
    assert kernel.offsets_of(slots, columns_of(*keys)).tolist() == list(range(50))
    assert kernel.offsets_of(slots, columns_of(b"50")).tolist() == [-1]
    assert find_slot(slots, digest_of(b"50")) is None
    assert kernel.put_keys(slots, 49, 50, columns_of(b"50"), 0) == (0, 49, -1)


@each_kernel
def test_slots_move_to_a_larger_table_where_their_keys_are_found(kernel: ModuleType) -> None:
    columns = columns_of(*(str(number).encode() for number in range(50)))
    slots, larger = empty(50), empty(200)
    kernel.put_keys(slots, 0, 50, columns, 0)
    kernel.move_slots(slots, larger)
    assert kernel.offsets_of(larger, columns).tolist() == list(range(50))
    direct = empty(200)
    kernel.put_keys(direct, 0, 200, columns, 0)
    for number in range(50):
        digest = digest_of(str(number).encode())
        assert find_slot(larger, digest) is not None
    assert sorted(larger[at : at + 24] for at in range(0, 4800, 24)) == sorted(
        direct[at : at + 24] for at in range(0, 4800, 24)
    )


@each_kernel
def test_slots_do_not_move_to_a_table_without_room(kernel: ModuleType) -> None:
    slots = empty(50)
    kernel.put_keys(slots, 0, 50, columns_of(*(str(number).encode() for number in range(50))), 0)
    with pytest.raises(ValueError, match="no room"):
        kernel.move_slots(slots, empty(49))


keys = st.lists(st.one_of(st.none(), st.binary(max_size=3), st.binary(max_size=200)), max_size=60)


@given(keys, st.integers(1, 70), st.integers(0, 80), st.integers(0, 60))
def test_both_kernels_fill_the_same_slots(
    names: list[bytes | None], count: int, limit: int, start: int
) -> None:
    columns = columns_of(*names) if names else columns_of(b"x")
    tables, answers = [], []
    for kernel in (compiled, kernel_python):
        slots = empty(count)
        answer = kernel.put_keys(slots, 0, limit, columns, start)
        tables.append(slots)
        moved = empty(count + 1)
        kernel.move_slots(slots, moved)
        answers.append((answer, kernel.offsets_of(slots, columns).tolist(), bytes(moved)))
        assert kernel.offsets_of(moved, columns).tolist() == answers[-1][1]
    assert tables[0] == tables[1]
    assert answers[0] == answers[1]
    for place, number in enumerate(answers[0][1]):
        if number >= 0:
            slot = find_slot(tables[0], digest_of(columns.key(place) or b""))
            assert slot is not None
            assert read_slot(tables[0], slot[0]) == number


records = st.builds(
    SimpleRecord,
    st.one_of(st.none(), st.binary(max_size=70)),
    st.one_of(st.none(), st.binary(max_size=200)),
    st.one_of(st.integers(0, 2**63 - 1), st.integers(NOW, NOW + 10_000)),
    st.lists(
        st.builds(Header, st.binary(max_size=5), st.one_of(st.none(), st.binary(max_size=5))),
        max_size=3,
    ),
)


@given(st.lists(records, min_size=1, max_size=12), st.data())
def test_records_come_out_as_a_builder_writes_them(
    given_records: list[SimpleRecord], data: st.DataObject
) -> None:
    base = data.draw(st.integers(0, 2**62))
    batch = bytes(records_of(*given_records, base_offset=base).buffer)
    columns = decoded(kernel_python, batch)
    everything = np.ones(len(columns), bool)
    first = given_records[0].timestamp
    for kernel in (compiled, kernel_python):
        assert kernel.encode_records(columns, everything, base, first) == batch[61:]
    kept = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(columns), max_size=len(columns)))
    )
    other = data.draw(st.integers(-(2**63), 2**63 - 1))
    made = compiled.encode_records(columns, kept, base - 5, other)
    assert made == kernel_python.encode_records(columns, kept, base - 5, other)


@each_kernel
def test_marks_must_be_as_many_as_records(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="2 marks for 1 records"):
        kernel.encode_records(columns_of(b"a"), np.ones(2, bool), 0, 0)


def test_fields_outside_of_the_arena_are_refused() -> None:
    for field in ("key", "value", "headers"):
        table = np.zeros(1, RECORD_ROW.dtype)
        table[f"{field}_start"], table[f"{field}_size"] = 5, 6
        columns = Columns(table, memoryview(bytes(10)), [], 1)
        with pytest.raises(ValueError, match="arena"):
            compiled.encode_records(columns, np.ones(1, bool), 0, 0)
        if field == "key":
            for ask in (
                lambda columns=columns: compiled.offsets_of(empty(3), columns),
                lambda columns=columns: compiled.put_keys(empty(3), 0, 3, columns, 0),
            ):
                with pytest.raises(ValueError, match="arena"):
                    ask()


def test_slots_of_another_size_are_refused() -> None:
    for size in (0, 23, 25):
        with pytest.raises(ValueError, match="slots"):
            compiled.put_keys(bytearray(size), 0, 1, columns_of(b"a"), 0)
