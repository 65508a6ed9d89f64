import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine.budgets import Budgets
from engine.columns.batch_table import BATCH_ROW
from engine.files.source_files import SourceRoot
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import BatchRun, Damage, Disorder, ScanItem, scan
from tests.builders import (
    CompressionType,
    Rec,
    batch,
    crc32c,
    last_offset,
    message_set,
    patched,
    resealed,
)


@dataclass
class Bytes:
    """A file in memory that counts how much is read of it."""

    data: bytes
    path: str = "a.log"
    largest_read: int = field(default=0)

    def read_at(self, position: int, size: int) -> bytes:
        self.largest_read = max(self.largest_read, size)
        return self.data[position : position + size]


def batches(count: int, base: int = 0, size: int = 50) -> list[bytes]:
    """Batches of three records each."""
    return [
        batch([Rec(b"%d" % n + b"x" * size) for n in range(3)], base + 3 * i) for i in range(count)
    ]


def everything(data: bytes, **options: object) -> list[ScanItem]:
    return list(scan(Bytes(data), 0, len(data), **options))  # type: ignore[arg-type]


def split(
    items: Sequence[ScanItem],
) -> tuple[list[tuple[int, int, int]], list[Damage | Disorder]]:
    """(position, base offset, last offset) of the good batches, and the damage."""
    good = [
        (int(row["position"]), int(row["base_offset"]), int(row["last_offset"]))
        for item in items
        if isinstance(item, BatchRun)
        for row in item.table
    ]
    return good, [item for item in items if not isinstance(item, BatchRun)]


def places(made: Sequence[bytes]) -> list[tuple[int, int, int]]:
    found, at = [], 0
    for each in made:
        found.append((at, struct.unpack_from(">q", each)[0], last_offset(each)))
        at += len(each)
    return found


@pytest.mark.parametrize("chunk", [61, 200, 1000, 1 << 20])
def test_good_batches_come_all_and_in_order_whatever_the_chunk(chunk: int) -> None:
    made = batches(40)
    good, damage = split(everything(b"".join(made), chunk=chunk))
    assert good == places(made)
    assert damage == []


def test_a_run_lets_its_rows_be_found_in_its_buffer() -> None:
    made = batches(20)
    for item in everything(b"".join(made), chunk=700):
        assert isinstance(item, BatchRun)
        assert item.table.dtype == BATCH_ROW.dtype
        for row in item.table:
            at = int(row["position"]) - item.start_position
            assert item.buffer[at : at + int(row["size"])] in made
        assert item.position == int(item.table["position"][0])
        assert item.end_position == int(item.table["position"][-1] + item.table["size"][-1])
        assert item.next_offset == int(item.table["last_offset"][-1]) + 1


def test_more_batches_than_a_table_has_rows() -> None:
    made = [batch([Rec(b"")], offset) for offset in range(9000)]
    good, damage = split(everything(b"".join(made)))
    assert [base for _, base, _ in good] == list(range(9000))
    assert damage == []


def test_a_flipped_byte_costs_its_batch_and_names_its_offsets() -> None:
    made = batches(5)
    at = len(made[0] + made[1])
    data = bytearray(b"".join(made))
    data[at + 70] ^= 1
    good, (damage,) = split(everything(bytes(data)))
    assert good == places(made)[:2] + places(made)[3:]
    stored = struct.unpack_from(">I", made[2], 17)[0]
    computed = crc32c(bytes(data[at + 21 : at + len(made[2])]))
    assert damage == Damage(
        "a.log", at, len(made[2]), DamageKind.CRC_MISMATCH, damage.reason, stored, computed, 6, 8
    )


@pytest.mark.parametrize(
    ("length", "kind"),
    [
        (2**31 - 1, "bad_length"),
        (-1, "bad_length"),
        (0, "bad_length"),
        (13, "bad_length"),
        (48, "bad_length"),
        (60, "crc_mismatch"),
    ],
)
def test_a_wrong_length_does_not_hide_what_follows(length: int, kind: str) -> None:
    made = batches(4)
    at = len(made[0])
    data = patched(b"".join(made), at + 8, struct.pack(">i", length))
    good, damage = split(everything(data))
    assert good == places(made)[:1] + places(made)[2:]
    assert damage[0].kind == kind
    assert damage[0].position == at
    assert sum(each.length for each in damage) == len(made[1])
    assert damage[-1].last_offset == 5


def test_a_length_that_spans_the_next_batch_does_not_hide_it() -> None:
    """The frame leads exactly to the batch after the next: the next one is found inside."""
    made = batches(5)
    at = len(made[0])
    spanning = len(made[1]) + len(made[2]) - 12
    data = patched(b"".join(made), at + 8, struct.pack(">i", spanning))
    good, (damage,) = split(everything(data))
    assert good == places(made)[:1] + places(made)[2:]
    assert (damage.position, damage.length) == (at, len(made[1]))


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_a_batch_of_unknown_magic_is_passed(magic: int) -> None:
    made = batches(3)
    data = patched(b"".join(made), len(made[0]) + 16, bytes([magic]))
    good, (damage,) = split(everything(data))
    assert good == [places(made)[0], places(made)[2]]
    assert damage.kind == "unknown_magic"


def test_a_cut_batch_at_the_end_is_a_torn_tail() -> None:
    made = batches(3)
    whole = len(made[0] + made[1])
    for cut in (1, 5, 16, 17, 40, 61, len(made[2]) - 1):
        good, (damage,) = split(everything(b"".join(made)[: whole + cut]))
        assert good == places(made)[:2]
        assert (damage.kind, damage.position, damage.length) == ("torn_tail", whole, cut)
        assert damage.first_offset == 6
        assert isinstance(damage, Damage)


@pytest.mark.parametrize("count", [1, 16, 17, 100, 300_000])
def test_zeros_up_to_the_end_are_a_zero_tail(count: int) -> None:
    made = batches(2)
    data = b"".join(made) + bytes(count)
    good, (damage,) = split(everything(data))
    assert good == places(made)
    assert damage.length == count
    assert damage.kind == ("zero_tail" if count >= 17 else "torn_tail")


def test_a_hole_of_a_sparse_file_is_not_read(tmp_path: Path) -> None:
    made = batches(2)
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(made))
    with path.open("r+b") as file:
        file.truncate(1 << 42)
    with SourceRoot(str(tmp_path)) as root:
        file_ = root.open("a.log")
        good, (damage,) = split(list(scan(file_, 0, file_.size())))
    assert good == places(made)
    assert (damage.kind, damage.position + damage.length) == ("zero_tail", 1 << 42)


def test_batches_behind_a_hole_are_found(tmp_path: Path) -> None:
    first, second = batches(2), batches(2, 6)
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.write(b"".join(first))
        file.seek(1 << 33)
        file.write(b"".join(second))
    with SourceRoot(str(tmp_path)) as root:
        file_ = root.open("a.log")
        good, (damage,) = split(list(scan(file_, 0, file_.size())))
    assert [base for _, base, _ in good] == [0, 3, 6, 9]
    assert (damage.kind, damage.first_offset, damage.last_offset) == ("zeros", 6, 5)


def test_a_batch_that_is_larger_than_the_budget_is_passed() -> None:
    small, large = batches(2), batch([Rec(b"x" * 5000)], 3)
    made = [small[0], large, *batches(2, 4)]
    good, (damage,) = split(everything(b"".join(made), budgets=Budgets(batch_bytes=1000)))
    assert good == places(made)[:1] + places(made)[2:]
    assert (damage.kind, damage.length) == ("batch_too_large", len(large))


def test_a_batch_larger_than_a_chunk_is_read_whole_and_no_more() -> None:
    made = [batch([Rec(b"x" * 300_000)]), *batches(3, 1)]
    file = Bytes(b"".join(made))
    good, damage = split(list(scan(file, 0, len(file.data), chunk=1000)))
    assert good == places(made)
    assert damage == []
    assert file.largest_read < 301_000


def test_a_claimed_length_is_never_read_or_allocated() -> None:
    file = Bytes(patched(b"".join(batches(3)), 8, struct.pack(">i", 2**31 - 1)))
    list(scan(file, 0, len(file.data)))
    assert file.largest_read <= 1 << 20


@pytest.mark.parametrize("position", [0, 1, 2])
def test_offsets_that_are_none_cost_only_their_batch(position: int) -> None:
    made = batches(3)
    made[position] = patched(made[position], 0, struct.pack(">q", -5))
    good, (damage,) = split(everything(b"".join(made)))
    assert len(good) == 2
    assert (damage.kind, damage.length, damage.found) == ("bad_offsets", len(made[position]), -5)


def test_a_last_offset_below_the_base_is_none() -> None:
    made = batches(2)
    made[1] = resealed(patched(made[1], 23, struct.pack(">i", -1)))
    good, (damage,) = split(everything(b"".join(made)))
    assert good == places(made)[:1]
    assert damage.kind == "bad_offsets"


def test_offsets_that_go_back_are_told_and_served() -> None:
    made = [*batches(2), *batches(2, 3), *batches(1, 9)]
    items = everything(b"".join(made))
    good, (damage,) = split(items)
    assert good == places(made)
    assert damage.kind == "offset_order"
    assert isinstance(damage, Disorder)
    assert (damage.position, damage.expected, damage.found) == (places(made)[2][0], 6, 3)
    following = items[items.index(damage) + 1]
    assert isinstance(following, BatchRun)
    assert following.position == damage.position


def test_the_first_batch_may_not_lie_below_what_is_expected() -> None:
    made = batches(2, 10)
    assert split(everything(b"".join(made), next_offset=10))[1] == []
    (damage,) = split(everything(b"".join(made), next_offset=11))[1]
    assert (damage.kind, damage.expected, damage.found) == ("offset_order", 11, 10)


def test_gaps_between_offsets_are_not_damage() -> None:
    made = [*batches(1), *batches(1, 1000), *batches(1, 2**40)]
    good, damage = split(everything(b"".join(made)))
    assert (good, damage) == (places(made), [])


def test_without_resync_the_first_damage_ends_the_scan() -> None:
    made = batches(4)
    data = patched(b"".join(made), len(made[0]) + 65, b"\xff")
    *runs, damage = everything(data, resync=False)
    assert split(runs)[0] == places(made)[:1]
    assert isinstance(damage, Damage)
    assert damage.kind == "crc_mismatch"


def test_a_file_that_is_shorter_than_was_asked_ends_quietly() -> None:
    made = batches(2)
    data = b"".join(made)
    good, damage = split(list(scan(Bytes(data), 0, len(data) + 1000)))
    assert (good, damage) == (places(made), [])


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_scanned_and_resynced(
    magic: int, codec: CompressionType
) -> None:
    records = [Rec(b"value %d" % n) for n in range(4)]
    made = [message_set(records, 4 * i, codec, magic=magic) for i in range(4)]
    data = bytearray(b"".join(made))
    data[len(made[0]) + 30] ^= 0x40
    good, damage = split(everything(bytes(data)))
    lost = 4 if codec else 1
    offsets = [last for _, _, last in good]
    assert len(offsets) == (3 if codec else 15)
    assert sum(1 for each in damage if isinstance(each, Damage)) == 1
    assert (damage[0].first_offset, damage[0].last_offset) == (4, 4 + lost - 1)


@given(st.data())
def test_any_change_costs_only_the_batches_it_touches(data: st.DataObject) -> None:
    made = batches(8, size=data.draw(st.integers(0, 40)))
    whole = b"".join(made)
    start = data.draw(st.integers(0, len(whole) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=min(200, len(whole) - start)))
    changed = patched(whole, start, noise)
    untouched = [
        place
        for place, each in zip(places(made), made, strict=True)
        if changed[place[0] : place[0] + len(each)] == each
    ]
    good, damage = split(everything(changed))
    lost = [place for place in places(made) if place not in untouched]
    assert set(untouched) <= set(good)
    for position, _, _ in lost:
        served = any(position == found for found, _, _ in good)  # changed outside of its checksum
        told = any(d.position <= position < d.position + d.length for d in damage)
        assert served or told


@given(st.binary(max_size=600), st.integers(61, 300))
def test_random_bytes_are_never_taken_for_a_batch_and_always_end(data: bytes, chunk: int) -> None:
    items = everything(data, chunk=chunk)
    good, damage = split(items)
    assert good == []
    assert sum(each.length for each in damage) == len(data)


@given(st.lists(st.binary(min_size=1, max_size=80), min_size=1, max_size=6))
def test_rubbish_between_batches_costs_nothing_but_itself(rubbish: list[bytes]) -> None:
    made = batches(len(rubbish) + 1)
    data, expected = b"", []
    for number, each in enumerate(made):
        expected.append((len(data), 3 * number, 3 * number + 2))
        data += each
        if number < len(rubbish):
            data += rubbish[number]
    good, damage = split(everything(data))
    assert set(expected) <= set(good)
    assert sum(each.length for each in damage if isinstance(each, Damage)) == sum(map(len, rubbish))
