import threading
from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given, strategies as st

from engine.log.skip_list import SkipList

keys = st.integers(0, 2**63 - 1)
some_keys = st.integers(0, 60)
entries = st.lists(st.tuples(some_keys, st.integers()), max_size=60)


def model_of(pairs: list[tuple[int, int]]) -> dict[int, int]:
    return dict(sorted(dict(pairs).items()))


@given(entries, some_keys)
def test_neighbours_are_those_of_a_sorted_list(pairs: list[tuple[int, int]], key: int) -> None:
    model = list(model_of(pairs).items())
    order = [each for each, _ in model]
    found = SkipList(pairs)
    at, after = bisect_left(order, key), bisect_right(order, key)
    assert found.floor(key) == (model[after - 1] if after else None)
    assert found.lower(key) == (model[at - 1] if at else None)
    assert found.ceiling(key) == (model[at] if at < len(model) else None)
    assert found.higher(key) == (model[after] if after < len(model) else None)
    assert found.first() == (model[0] if model else None)
    assert found.last() == (model[-1] if model else None)
    assert found.get(key) == dict(model).get(key)
    assert (key in found) == (key in order)


@given(st.lists(st.tuples(st.booleans(), some_keys), max_size=120))
def test_inserting_and_removing_gives_what_a_dict_gives(steps: list[tuple[bool, int]]) -> None:
    found: SkipList[int] = SkipList()
    model: dict[int, int] = {}
    for number, (is_insert, key) in enumerate(steps):
        if is_insert:
            assert found.insert(key, number) == model.get(key)
            model[key] = number
        else:
            assert found.remove(key) == model.pop(key, None)
        assert len(found) == len(model)
    assert list(found.items()) == sorted(model.items())
    assert list(found.values()) == [model[key] for key in sorted(model)]
    assert list(found) == sorted(model)


@given(entries, some_keys, some_keys)
def test_between_is_half_open(pairs: list[tuple[int, int]], start: int, stop: int) -> None:
    model = model_of(pairs)
    expected = [(key, value) for key, value in model.items() if start <= key < stop]
    assert list(SkipList(pairs).between(start, stop)) == expected
    assert list(SkipList(pairs).between(None, stop)) == [
        (key, value) for key, value in model.items() if key < stop
    ]


def test_the_ends_of_the_offsets_are_keys_like_others() -> None:
    found = SkipList([(0, "first"), (2**63 - 1, "last")])
    assert found.floor(2**63 - 1) == (2**63 - 1, "last")
    assert found.lower(2**63 - 1) == (0, "first")
    assert found.lower(0) is None
    assert found.higher(2**63 - 1) is None


def test_clear_leaves_a_reader_on_what_was_there() -> None:
    found = SkipList([(1, "a"), (2, "b"), (3, "c")])
    reader = found.items()
    next(reader)
    found.clear()
    assert list(reader) == [(2, "b"), (3, "c")]
    assert (len(found), found.first(), found.last()) == (0, None, None)


def test_a_value_may_be_none() -> None:
    found: SkipList[None] = SkipList((key, None) for key in range(1000))
    assert found.floor(17) == (17, None)
    assert list(found) == list(range(1000))


def test_the_search_path_is_short() -> None:
    found = SkipList((key, key) for key in range(0, 200_000, 2))

    class Counting(int):
        compared = 0

        def __gt__(self, other: object) -> bool:
            Counting.compared += 1
            return int(self) > int(other)  # type: ignore[call-overload]

    assert found.lower(Counting(123_457)) == (123_456, 123_456)
    assert 0 < Counting.compared < 120


def test_readers_need_no_lock_beside_a_writer() -> None:
    """Even keys are always there; odd ones come and go."""
    found = SkipList((key, key) for key in range(0, 400, 2))
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            for key in range(1, 399, 2):
                floor, higher = found.floor(key), found.higher(key)
                if floor not in ((key, key), (key - 1, key - 1)) or higher != (key + 1, key + 1):
                    wrong.append((key, floor, higher))
            if [key for key in found if key % 2 == 0] != list(range(0, 400, 2)):
                wrong.append("a key is missing")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(30):
        for key in range(1, 399, 2):
            found.insert(key, key)
        for key in range(1, 399, 2):
            found.remove(key)
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


@pytest.mark.parametrize("order", [1, -1])
def test_building_in_any_order_gives_the_same_entries(order: int) -> None:
    pairs = [(key, str(key)) for key in range(500)][::order]
    assert list(SkipList(pairs).items()) == sorted(pairs)


def test_an_entry_added_while_a_search_passes_its_place_is_not_taken_for_a_larger_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = SkipList([(10, "ten")])
    before = SkipList._before

    def add_behind_the_search(self: SkipList[str], key: int) -> object:
        node = before(self, key)
        monkeypatch.undo()
        self.insert(5, "five")
        self.insert(6, "six")
        return node

    monkeypatch.setattr(SkipList, "_before", add_behind_the_search)
    assert found.ceiling(8) == (10, "ten")
    assert list(found) == [5, 6, 10]


def test_entries_after_one_that_is_out_of_order_are_built_too() -> None:
    pairs = [(1, "a"), (5, "b"), (3, "c"), (4, "d"), (9, "e"), (9, "f"), (2, "g")]
    found = SkipList(pairs)
    assert list(found.items()) == sorted(dict(pairs).items())
    assert len(found) == 6


def test_of_equal_keys_in_a_row_the_last_value_counts() -> None:
    found = SkipList([(1, "a"), (1, "b"), (2, "c"), (2, "d")])
    assert list(found.items()) == [(1, "b"), (2, "d")]
    assert len(found) == 2
