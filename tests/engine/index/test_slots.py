"""engine.index.slots and slot_search: the two back ends agree, and live files never break a search."""

from __future__ import annotations

import os
import random
import struct
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine import kernel
from engine.files.source_files import SourceRoot
from engine.index import slots
from engine.index.offset_index import OffsetIndex
from engine.index.slot_search import Column, floor_slot
from engine.index.slots import BytesSlots, FileSlots, Slots
from engine.units import OffsetPosition

KEY = Column(8, 0, is_int64=False)
VALUE = Column(8, 4, is_int64=False)
LONG_KEY = Column(12, 0, is_int64=True)

keys = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=60, unique=True).map(sorted)


def packed(numbers: list[int]) -> bytes:
    return b"".join(struct.pack(">ii", number, 7) for number in numbers)


@pytest.fixture(params=["compiled", "python"])
def each_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "compiled" and not kernel.is_compiled():
        pytest.skip("the compiled kernel was not built")
    before = kernel.name
    kernel.use(request.param)
    yield
    kernel.use(before)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[SourceRoot]:
    with SourceRoot(str(tmp_path)) as opened:
        yield opened


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    path = tmp_path / "index"

    def write(data: bytes) -> Path:
        path.write_bytes(data)
        return path

    return write


@pytest.mark.usefixtures("each_kernel")
@given(keys, st.one_of(st.integers(-(2**70), 2**70), st.integers(-5, 5)), st.randoms())
def test_the_floor_is_that_of_a_sorted_list(
    numbers: list[int], target: int, chance: random.Random
) -> None:
    if numbers and chance.random() < 0.5:
        target = chance.choice(numbers) + chance.choice((-1, 0, 1))
    data = packed(numbers)
    floor = bisect_right(numbers, target) - 1
    assert floor_slot(data, len(numbers), KEY, target) == floor


@pytest.mark.usefixtures("each_kernel")
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30).map(sorted),
    st.integers(-(2**64), 2**64),
)
def test_numbers_of_eight_bytes_are_searched_too(numbers: list[int], target: int) -> None:
    data = b"".join(struct.pack(">qi", number, 0) for number in numbers)
    assert floor_slot(data, len(numbers), LONG_KEY, target) == bisect_right(numbers, target) - 1


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize(
    ("target", "floor"),
    [(-(2**63) - 1, -1), (-(2**63), 0), (2**63 - 2, 0), (2**63 - 1, 1), (2**63, 1)],
)
def test_the_largest_and_the_smallest_numbers_are_found(target: int, floor: int) -> None:
    data = struct.pack(">qiqi", -(2**63), 0, 2**63 - 1, 0)
    assert floor_slot(data, 2, LONG_KEY, target) == floor


@pytest.mark.usefixtures("each_kernel")
@given(st.binary(max_size=400), st.integers(-(2**31), 2**31))
def test_in_any_bytes_the_floor_is_at_most_the_target(data: bytes, target: int) -> None:
    count = len(data) // 8
    slot = floor_slot(data, count, KEY, target)
    assert -1 <= slot < count
    assert slot < 0 or KEY.value_at(data, slot * 8) <= target


def test_both_back_ends_agree(root: SourceRoot, write: Callable[[bytes], Path]) -> None:
    chance = random.Random(5)
    for count in (0, 1, 2, 1023, 1024, 1025, 2048, 2049, 5000):
        numbers = sorted(chance.sample(range(1, 20 * count + 2), count))
        data = b"".join(struct.pack(">ii", number, 3 * number) for number in numbers)
        for padding in (0, 1, 3, 8, 8000, 100_000):
            whole = data + bytes(padding)
            write(whole)
            file, memory = FileSlots(lambda: root.open("index"), 8), BytesSlots(whole, 8)
            for each in (file, memory):
                assert len(each) == count
                assert each.byte_size == len(whole)
                assert b"".join(each.chunks()) == data
                check_against(each, numbers, chance)


def check_against(each: Slots, numbers: list[int], chance: random.Random) -> None:
    last = each.last()
    assert (last and last[0]) == (len(numbers) - 1 if numbers else None)
    for _ in range(60):
        target = chance.randrange(-3, 20 * len(numbers) + 9)
        found = each.floor(KEY, target)
        floor = bisect_right(numbers, target) - 1
        assert (-1 if found is None else found[0]) == floor
        if found is not None:
            assert KEY.value_at(found[1], found[2]) == numbers[floor]
        found = each.ceiling(VALUE, target)
        ceiling = bisect_left([3 * number for number in numbers], target)
        assert (len(numbers) if found is None else found[0]) == ceiling
        slot = chance.randrange(-2, len(numbers) + 3)
        found = each.at(slot)
        assert (found is not None) == (0 <= slot < len(numbers))
        if found is not None:
            assert KEY.value_at(found[1], found[2]) == numbers[slot]


def test_a_file_of_zeros_has_no_entries(root: SourceRoot, write: Callable[[bytes], Path]) -> None:
    os.truncate(write(b""), 10 * 2**20)
    for each in (FileSlots(lambda: root.open("index"), 8), BytesSlots(bytes(800), 8)):
        assert len(each) == 0
        assert each.last() is None
        assert each.at(0) is None
        assert each.floor(KEY, 10) is None
        assert each.ceiling(KEY, 0) is None
        assert list(each.chunks()) == []


def test_a_first_entry_of_zeros_is_one_when_others_follow(
    root: SourceRoot, write: Callable[[bytes], Path]
) -> None:
    data = packed([0, 4]).replace(b"\0\0\0\7", b"\0\0\0\0", 1)
    write(data + bytes(80))
    for each in (FileSlots(lambda: root.open("index"), 8), BytesSlots(data + bytes(80), 8)):
        assert len(each) == 2
        assert each.floor(KEY, 3) == (0, each.floor(KEY, 3)[1], 0)


def test_entries_added_into_the_padding_are_seen_at_once(
    root: SourceRoot, write: Callable[[bytes], Path]
) -> None:
    path = write(bytes(10 * 2**20))
    each = FileSlots(lambda: root.open("index"), 8)
    written = 0
    with path.open("r+b", buffering=0) as broker:
        for step in (1, 1, 2, 60, 63, 64, 65, 1000, 1024, 5000):
            broker.write(packed([*range(written + 1, written + step + 1)]))
            written += step
            assert each.floor(KEY, 2**31 - 1)[0] == written - 1
            assert each.floor(KEY, written)[0] == written - 1
            assert each.floor(KEY, written // 2 + 1)[0] == written // 2
            assert len(each) == written


def test_a_file_that_is_cut_under_us_ends_earlier(
    root: SourceRoot, write: Callable[[bytes], Path]
) -> None:
    path = write(packed([*range(1, 5001)]) + bytes(2**20))
    each = FileSlots(lambda: root.open("index"), 8)
    assert each.floor(KEY, 10**9)[0] == 4999
    os.truncate(path, 5000 * 8)  # the segment rolled
    assert each.floor(KEY, 10**9)[0] == 4999
    assert len(each) == 5000
    os.truncate(path, 2000 * 8 + 3)
    assert len(each) == 2000
    assert each.floor(KEY, 10**9)[0] == 1999
    os.truncate(path, 0)
    assert each.last() is None
    assert each.floor(KEY, 10**9) is None


def test_a_search_that_trusts_what_it_knew_survives_a_cut(
    root: SourceRoot, write: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(packed([*range(1, 20_001)]))
    monkeypatch.setattr(slots, "_TRUSTED_SECONDS", 3600)
    each = FileSlots(lambda: root.open("index"), 8)
    assert each.floor(KEY, 3)[0] == 2
    os.truncate(path, 80)
    found = each.floor(KEY, 15_000)  # a page that was not read before
    assert found is not None
    assert found[0] == 9


def test_a_replaced_file_is_read_anew(root: SourceRoot, write: Callable[[bytes], Path]) -> None:
    path = write(packed([10, 20, 30]))
    each = FileSlots(lambda: root.open("index", fresh=True), 8)
    assert each.floor(KEY, 25)[0] == 1
    other = path.with_name("other")
    other.write_bytes(packed([1, 2, 3]))
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.rename(path)
    assert KEY.value_at(*each.last()[1:]) == 3


def test_changes_are_seen_after_a_moment_without_padding(
    root: SourceRoot, write: Callable[[bytes], Path]
) -> None:
    path = write(packed([1, 2]))
    each = FileSlots(lambda: root.open("index"), 8)
    assert each.floor(KEY, 99)[0] == 1
    with path.open("ab") as file:
        file.write(packed([3]))
    time.sleep(slots._TRUSTED_SECONDS)
    assert each.floor(KEY, 99)[0] == 2


def test_a_file_that_is_not_there_says_so(root: SourceRoot) -> None:
    each = FileSlots(lambda: root.open("index"), 8)
    for call in (
        lambda: len(each),
        each.last,
        lambda: each.floor(KEY, 1),
        lambda: list(each.chunks()),
    ):
        with pytest.raises(FileNotFoundError):
            call()


def test_pages_of_all_indexes_together_are_bounded(
    root: SourceRoot, write: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = slots._PageCache(8)
    monkeypatch.setattr(slots, "_PAGES", pages)
    write(packed([*range(1, 50_001)]))
    for _ in range(3):
        each = FileSlots(lambda: root.open("index"), 8)
        for target in range(1, 50_000, 500):
            assert each.floor(KEY, target)[0] == target - 1
            assert len(pages._young) + len(pages._old) <= 8


def test_an_index_that_a_broker_rolls_truncates_and_deletes_never_breaks_a_search(
    root: SourceRoot, tmp_path: Path
) -> None:
    path = tmp_path / "index"
    path.write_bytes(bytes(2**20))
    done = threading.Event()
    failures: list[BaseException] = []

    def broker() -> None:
        chance = random.Random(1)
        while not done.is_set():
            with path.open("r+b", buffering=0) as file:
                entries = chance.randrange(1, 4000)
                file.write(packed([*range(1, entries)]))
                file.truncate(chance.choice((0, entries * 8, entries * 4, 7, 2**20)))
            if chance.random() < 0.2:
                path.rename(tmp_path / "index.deleted")
                path.write_bytes(bytes(chance.choice((0, 2**20))))

    def reader() -> None:
        index = OffsetIndex(lambda: root.open("index", fresh=True), 0)
        chance = random.Random(2)
        try:
            while not done.is_set():
                target = chance.randrange(4000)
                try:
                    found = index.lookup(target)
                    assert isinstance(found, OffsetPosition)
                    assert 0 <= found.offset <= target
                    assert len(index) <= 2**17
                    _ = index.last_entry, sum(1 for _ in index)
                except FileNotFoundError:
                    pass
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [
        threading.Thread(target=broker),
        *(threading.Thread(target=reader) for _ in range(3)),
    ]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
