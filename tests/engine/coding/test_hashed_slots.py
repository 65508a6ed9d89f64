"""engine.coding.hashed_slots: which slots are tried for a hash, in which order, and when the table is full."""

from __future__ import annotations

import hashlib

import pytest

from engine.coding.hashed_slots import (
    BYTES_PER_SLOT,
    digest_of,
    find_slot,
    read_slot,
    write_slot,
)

# Its four-byte numbers without sign, by position: 1, 256, 65536, 2**24, then 0. Of four slots it
# tries slot 1, then slot 0, and then, after the last four bytes, slots 1, 2 and 3.
HASH = bytes.fromhex("80000001") + bytes(12)
OTHERS = [bytes([number]) * 16 for number in range(1, 5)]


def table(*used: int) -> bytearray:
    """Four slots, some of them with other hashes."""
    slots = bytearray(4 * BYTES_PER_SLOT)
    for slot in used:
        write_slot(slots, slot * BYTES_PER_SLOT, OTHERS[slot], 100 + slot)
    return slots


@pytest.mark.parametrize(
    ("used", "slot"), [((), 1), ((1,), 0), ((0,), 1), ((0, 1), 2), ((0, 1, 2), 3), ((0, 1, 3), 2)]
)
def test_a_hash_takes_the_first_empty_slot_it_tries(used: tuple[int, ...], slot: int) -> None:
    slots = table(*used)
    place = slot * BYTES_PER_SLOT
    assert find_slot(slots, HASH) == (place, False)
    write_slot(slots, place, HASH, -5)
    assert find_slot(slots, HASH) == (place, True)
    assert read_slot(slots, place) == -5
    assert [read_slot(slots, each * BYTES_PER_SLOT) for each in used] == [100 + n for n in used]
    assert len(slots) == 4 * BYTES_PER_SLOT


def test_a_full_table_has_no_slot() -> None:
    assert find_slot(table(0, 1, 2, 3), HASH) is None


def test_a_slot_after_the_last_tried_ones_wraps_around() -> None:
    # Always 0x02020202, which is 2 of four slots; then come 3, 0 and 1.
    assert [find_slot(table(*used), b"\2" * 16) for used in ((2,), (2, 3), (0, 2, 3))] == [
        (3 * BYTES_PER_SLOT, False),
        (0, False),
        (BYTES_PER_SLOT, False),
    ]


def test_a_hash_is_md5() -> None:
    assert digest_of(b"key") == hashlib.md5(b"key").digest()


def test_the_last_four_bytes_of_a_hash_name_a_slot_of_their_own() -> None:
    # The numbers before them all name slot 1 of eight; the last one names slot 5.
    digest = bytes([1] * 15 + [5])
    slots = bytearray(8 * BYTES_PER_SLOT)
    write_slot(slots, BYTES_PER_SLOT, OTHERS[1], 7)
    assert find_slot(slots, digest) == (5 * BYTES_PER_SLOT, False)
