"""What a search in an index file reads, and what it reads again when the file changes between two reads."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from engine.index import slots
from engine.index.slot_search import Column
from engine.index.slots import FileSlots

KEY = Column(8, 0, is_int64=False)
SIZE = 8
PAGE = 1024  # entries
WARM = PAGE * SIZE


class CountedFile:
    """Bytes as a source file.

    Attributes:
        data, inode, mtime: may change at any time.
        reads: position and size of each read.
        looks: number of looks at size and time.
        before_reads: called one by one, each before a read.
    """

    device = 1

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.inode = 1
        self.mtime = 1
        self.reads: list[tuple[int, int]] = []
        self.looks = 0
        self.before_reads: list[Callable[[], object]] = []

    def stat(self) -> SimpleNamespace:
        self.looks += 1
        return SimpleNamespace(
            st_dev=self.device, st_ino=self.inode, st_size=len(self.data), st_mtime_ns=self.mtime
        )

    def size(self) -> int:
        return len(self.data)

    def read_at(self, position: int, size: int) -> bytes:
        if self.before_reads:
            self.before_reads.pop(0)()
        self.reads.append((position, size))
        return self.data[position : position + size]

    def costs(self, look_up: Callable[[], object]) -> list[tuple[int, int]]:
        """What a look-up reads."""
        self.reads.clear()
        look_up()
        return self.reads


class StoodClock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StoodClock:
    stood = StoodClock()
    monkeypatch.setattr(slots, "time", stood)
    monkeypatch.setattr(slots, "_PAGES", slots._PageCache(64))
    return stood


def packed(numbers: range) -> bytes:
    return b"".join(struct.pack(">ii", number, 7) for number in numbers)


def slots_of(file: CountedFile) -> FileSlots:
    return FileSlots(lambda: file, SIZE)  # type: ignore[arg-type, return-value]


def slot(found: tuple[int, object, int] | None) -> int | None:
    return None if found is None else found[0]


# Without padding


def test_the_warm_end_is_read_once_and_the_file_looked_at_20_times_a_second(
    clock: StoodClock,
) -> None:
    file = CountedFile(packed(range(1, 5001)))
    each = slots_of(file)
    assert slot(each.floor(KEY, 4990)) == 4989
    assert file.reads == [(4999 * SIZE, SIZE), ((5000 - PAGE) * SIZE, WARM)]
    for passed, looks in ((0.0, 1), (0.049, 1), (0.001, 2), (0.049, 2), (0.001, 3)):
        clock.now += passed
        assert file.costs(lambda: each.floor(KEY, 4980)) == []
        assert file.costs(lambda: each.ceiling(KEY, 4980)) == []
        assert file.looks == looks


def test_a_search_below_the_warm_end_reads_single_entries_and_one_page(clock: StoodClock) -> None:
    file = CountedFile(packed(range(1, 20 * PAGE + 1)))
    each = slots_of(file)
    each.floor(KEY, 20 * PAGE)
    cost = list(file.costs(lambda: each.floor(KEY, 3 * PAGE + 5)))
    assert cost[-1] == (3 * WARM, WARM)
    assert all(size == SIZE and position % WARM == 0 for position, size in cost[:-1])
    assert len(cost) <= 6
    assert file.costs(lambda: each.floor(KEY, 3 * PAGE + 6)) == []
    assert slot(each.floor(KEY, 3 * PAGE + 6)) == 3 * PAGE + 5
    assert file.costs(lambda: each.at(3 * PAGE)) == []


def test_a_search_below_the_warm_end_does_not_read_the_warm_end(
    clock: StoodClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CountedFile(packed(range(1, 20 * PAGE + 1)))
    each = slots_of(file)
    each.floor(KEY, 20 * PAGE)
    monkeypatch.setattr(slots, "_PAGES", slots._PageCache(64))
    # A number below all of them costs no page at all.
    assert all(size == SIZE for _, size in file.costs(lambda: each.floor(KEY, 0)))
    assert file.costs(lambda: each.floor(KEY, 5)) == [(0, WARM)]


def test_an_iteration_reads_eight_pages_at_once(clock: StoodClock) -> None:
    count = 20 * PAGE
    file = CountedFile(packed(range(1, count + 1)))
    each = slots_of(file)
    chunks = list(each.chunks())
    assert b"".join(chunks) == file.data
    assert [len(chunk) for chunk in chunks] == [8 * WARM, 8 * WARM, 4 * WARM]
    assert file.reads[-3:] == [(0, 8 * WARM), (8 * WARM, 8 * WARM), (16 * WARM, 4 * WARM)]


@pytest.mark.parametrize(
    ("left", "rest"), [(9 * WARM + 3, [WARM]), (8 * WARM + 3, []), (0, [])], ids=str
)
def test_an_iteration_ends_where_the_file_was_cut(
    clock: StoodClock, left: int, rest: list[int]
) -> None:
    file = CountedFile(packed(range(1, 20 * PAGE + 1)))
    chunks = slots_of(file).chunks()
    first = next(chunks)
    file.data = file.data[:left]
    assert [len(first), *map(len, chunks)] == [8 * WARM, *rest]


# With padding


def test_the_end_of_a_padded_file_is_read_each_time(clock: StoodClock) -> None:
    file = CountedFile(packed(range(1, 3001)) + bytes(1000 * SIZE))
    each = slots_of(file)
    assert slot(each.floor(KEY, 10**6)) == 2999
    size = WARM + 64 * SIZE
    assert file.costs(lambda: each.floor(KEY, 10**6)) == [((3000 - PAGE) * SIZE, size)]
    file.data = packed(range(1, 3011)) + bytes(990 * SIZE)
    assert slot(each.floor(KEY, 10**6)) == 3009
    assert file.costs(lambda: each.floor(KEY, 10**6)) == [((3010 - PAGE) * SIZE, size)]


def test_padding_may_be_used_up(clock: StoodClock) -> None:
    file = CountedFile(packed(range(1, 9)) + bytes(2 * SIZE))
    each = slots_of(file)
    assert slot(each.floor(KEY, 99)) == 7
    file.data = packed(range(1, 11))
    for _ in range(3):
        assert slot(each.floor(KEY, 99)) == 9
        assert file.looks == 1
    assert len(each) == 10


def test_a_partial_entry_behind_used_up_padding_is_none(clock: StoodClock) -> None:
    file = CountedFile(packed(range(1, 9)) + bytes(2 * SIZE) + bytes(3))
    each = slots_of(file)
    assert len(each) == 8
    file.data = packed(range(1, 11)) + b"\xff" * 3
    for _ in range(2):
        assert slot(each.last()) == 9
        assert len(each) == 10


def test_a_new_time_of_a_padded_file_costs_a_short_search(clock: StoodClock) -> None:
    file = CountedFile(packed(range(1, 100_001)) + bytes(50_000 * SIZE))
    each = slots_of(file)
    assert len(file.costs(lambda: len(each))) <= 30
    assert len(each) == 100_000
    file.data = packed(range(1, 100_011)) + bytes(49_990 * SIZE)
    file.mtime += 1
    assert len(file.costs(lambda: len(each))) <= 12
    assert len(each) == 100_010


# Files that change between two reads


def test_a_cut_after_the_look_at_the_file_is_seen_at_once(clock: StoodClock) -> None:
    file = CountedFile(packed(range(1, 5001)))

    def cut() -> None:
        file.data = file.data[: 10 * SIZE]

    each = slots_of(file)
    len(each)
    clock.now += 1
    file.mtime += 1
    file.before_reads = [lambda: None, cut]  # the second read is that of the warm end
    assert slot(each.floor(KEY, 5000)) == 9
    assert slot(each.last()) == 9


def test_a_file_that_is_replaced_at_every_moment_has_no_entries(clock: StoodClock) -> None:
    file = CountedFile(packed(range(1, 11)))

    def opened() -> CountedFile:
        file.inode += 1
        return file

    each = FileSlots(opened, SIZE)  # type: ignore[arg-type, return-value]
    assert len(each) == 0
    assert (each.at(0), each.last(), each.floor(KEY, 5), each.ceiling(KEY, 5)) == (None,) * 4


def test_a_page_that_was_overwritten_holds_no_number_below_the_target(clock: StoodClock) -> None:
    file = CountedFile(packed(range(1, 5 * PAGE + 1)))
    each = slots_of(file)
    assert slot(each.floor(KEY, 1)) == 0  # the first numbers of the pages are known now
    slots._PAGES = slots._PageCache(64)
    file.data = packed(range(10**6, 10**6 + 5 * PAGE))
    assert each.floor(KEY, 1) is None


# Pages of all files


def test_a_page_that_is_asked_for_outlives_the_next_generation() -> None:
    pages = slots._PageCache(4)
    names = {name: (1, place) for place, name in enumerate("abcd")}
    for name in "abc":
        pages.put(names[name], name.encode())
    assert pages.get(names["a"]) == b"a"
    pages.put(names["d"], b"d")
    assert [pages.get(names[name]) for name in "acbd"] == [b"a", b"c", None, b"d"]
