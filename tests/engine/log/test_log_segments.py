import threading
from bisect import bisect_left, bisect_right
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from engine.log.log_segments import LogSegments

some_bases = st.integers(0, 60)


class Numbered(NamedTuple):
    base_offset: int
    number: int = 0
    size: int = 0

    def close(self) -> None:
        pass


made_segments = st.lists(st.builds(Numbered, some_bases, st.integers()), max_size=60)


def of_bases(bases: range) -> LogSegments[Numbered]:
    return LogSegments(map(Numbered, bases))


@given(made_segments, some_bases)
def test_neighbours_are_those_of_a_sorted_list(segments: list[Numbered], base: int) -> None:
    by_base = {each.base_offset: each for each in segments}
    order = sorted(by_base)
    model = [by_base[each] for each in order]
    found = LogSegments(segments)
    at, after = bisect_left(order, base), bisect_right(order, base)
    assert found.floor(base) == (model[after - 1] if after else None)
    assert found.lower(base) == (model[at - 1] if at else None)
    assert found.ceiling(base) == (model[at] if at < len(model) else None)
    assert found.higher(base) == (model[after] if after < len(model) else None)
    assert found.first == (model[0] if model else None)
    assert found.last == (model[-1] if model else None)
    assert found.get(base) == by_base.get(base)
    assert (base in found) == (base in order)
    assert list(found) == model


@given(st.lists(st.tuples(st.booleans(), some_bases), max_size=120))
def test_adding_and_removing_gives_what_a_dict_gives(steps: list[tuple[bool, int]]) -> None:
    found: LogSegments[Numbered] = LogSegments()
    model: dict[int, Numbered] = {}
    for number, (is_added, base) in enumerate(steps):
        if is_added:
            segment = Numbered(base, number)
            assert found.add(segment) == model.get(base)
            model[base] = segment
        else:
            assert found.remove(base) == model.pop(base, None)
        assert len(found) == len(model)
    assert list(found) == [model[base] for base in sorted(model)]
    assert found.base_offsets == sorted(model)


@given(made_segments, some_bases, some_bases)
def test_values_are_from_the_floor_of_the_start_to_before_the_stop(
    segments: list[Numbered], start: int, stop: int
) -> None:
    found = LogSegments(segments)
    if start > stop:
        with pytest.raises(ValueError, match="above the limit"):
            found.values(start, stop)
        return
    floor = found.floor(start)
    first = start if floor is None else floor.base_offset
    expected = [each for each in found if first <= each.base_offset < stop]
    assert list(found.values(start, stop)) == (expected if start < stop else [])


def test_a_reader_goes_on_with_what_was_there_before_segments_went() -> None:
    found = of_bases(range(1, 4))
    reader = iter(found)
    next(reader)
    found.remove(2)
    found.clear()
    assert [each.base_offset for each in reader] == [2, 3]
    assert (len(found), found.first, found.last) == (0, None, None)


def test_a_look_up_in_a_hundred_thousand_segments_compares_a_few() -> None:
    found = of_bases(range(0, 200_000, 2))

    class Counting(int):
        compared = 0

        def __lt__(self, other: object) -> bool:
            Counting.compared += 1
            return int(self) < int(other)  # type: ignore[call-overload]

    assert found.floor(Counting(123_457)) == Numbered(123_456)
    assert 0 < Counting.compared < 40


def test_readers_need_no_lock_beside_a_writer() -> None:
    """Even offsets are always there; odd ones, and those behind all, come and go."""
    found = of_bases(range(0, 400, 2))
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            for base in range(1, 399, 2):
                floor, higher = found.floor(base), found.higher(base)
                if floor not in (Numbered(base), Numbered(base - 1)) or higher != Numbered(
                    base + 1
                ):
                    wrong.append((base, floor, higher))
            there = [each.base_offset for each in found]
            if [each for each in there if each % 2 == 0 and each < 400] != list(range(0, 400, 2)):
                wrong.append("a segment is missing")
            last = found.last
            if last is None or last.base_offset < 398:
                wrong.append(last)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    changing = [*range(1, 399, 2), *range(400, 420)]
    for _ in range(30):
        for base in changing:
            found.add(Numbered(base))
        for base in changing:
            found.remove(base)
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
