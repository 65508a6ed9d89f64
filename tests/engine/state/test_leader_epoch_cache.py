"""engine.state.leader_epoch_cache: which leader wrote which part of a log."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import EpochEntry

CACHE = LeaderEpochCache([EpochEntry(2, 6), EpochEntry(3, 8), EpochEntry(7, 20)])

entries = st.lists(st.builds(EpochEntry, st.integers(0, 30), st.integers(0, 60)), max_size=12)


@pytest.mark.parametrize(
    ("offset", "epoch"),
    [(0, None), (5, None), (6, 2), (7, 2), (8, 3), (19, 3), (20, 7), (10**18, 7)],
)
def test_an_offset_has_the_epoch_that_began_before_it(offset: int, epoch: int | None) -> None:
    assert CACHE.epoch_for(offset) == epoch


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-1, None),
        (-2, (-2, 6)),
        (0, (0, 6)),
        (1, (1, 6)),
        (2, (2, 8)),
        (3, (3, 20)),
        (5, (3, 20)),
        (7, (7, 99)),
        (8, None),
    ],
)
def test_an_epoch_ends_where_the_next_begins(epoch: int, end: tuple[int, int] | None) -> None:
    assert CACHE.end_offset_for(epoch, 99) == end


def test_neighbours_are_found() -> None:
    assert (CACHE.earliest, CACHE.latest, len(CACHE)) == ((2, 6), (7, 20), 3)
    assert (CACHE.previous(2), CACHE.previous(3), CACHE.previous(100)) == (None, (2, 6), (7, 20))
    assert (CACHE.next(-1), CACHE.next(3), CACHE.next(7)) == ((2, 6), (7, 20), None)
    assert (CACHE.start_offset_of(3), CACHE.start_offset_of(4), CACHE.start_offset_of(9)) == (
        8,
        None,
        None,
    )


def test_an_empty_cache_knows_nothing() -> None:
    cache = LeaderEpochCache()
    assert (cache.earliest, cache.latest, cache.epoch_for(5), cache.end_offset_for(0, 9)) == (
        None,
    ) * 4
    assert cache.entries == cache.entries_between(0, 9) == []
    assert repr(cache) == "LeaderEpochCache([])"


@pytest.mark.parametrize(
    ("given_entries", "kept"),
    [
        ([(1, 5), (1, 9)], [(1, 5)]),
        ([(1, 5), (1, 3)], [(1, 3)]),
        ([(1, 5), (2, 5)], [(2, 5)]),
        ([(1, 5), (2, 9), (3, 7)], [(1, 5), (3, 7)]),
        ([(1, 5), (3, 9), (2, 12)], [(1, 5), (2, 12)]),
        ([(5, 100), (3, 50)], [(3, 50)]),
    ],
)
def test_a_later_entry_takes_the_place_of_what_contradicts_it(given_entries, kept) -> None:
    assert LeaderEpochCache(EpochEntry(*each) for each in given_entries).entries == kept


@pytest.mark.parametrize("entry", [EpochEntry(-1, 0), EpochEntry(0, -1)])
def test_negative_numbers_are_refused(entry: EpochEntry) -> None:
    with pytest.raises(ValueError, match="no epoch entry"):
        LeaderEpochCache([entry])


@given(entries, st.integers(0, 70))
def test_both_numbers_only_grow_and_the_epoch_is_the_last_that_began(
    given_entries: list[EpochEntry], offset: int
) -> None:
    cache = LeaderEpochCache(given_entries)
    kept = cache.entries
    assert all(
        a < b
        for before, after in itertools.pairwise(kept)
        for a, b in zip(before, after, strict=True)
    )
    began = [entry.epoch for entry in kept if entry.start_offset <= offset]
    assert cache.epoch_for(offset) == (began[-1] if began else None)
    if given_entries:
        last = cache.latest
        assert last is not None
        assert last.epoch == given_entries[-1].epoch
    assert LeaderEpochCache(kept) == cache


@given(entries, st.integers(0, 70), st.integers(0, 70))
def test_a_part_of_a_log_needs_the_epochs_of_its_offsets(
    given_entries: list[EpochEntry], start: int, end: int
) -> None:
    cache = LeaderEpochCache(given_entries)
    part = LeaderEpochCache(cache.entries_between(start, end))
    assert part.entries == cache.entries_between(start, end)
    assert all(start <= entry.start_offset < end for entry in part)
    for offset in range(start, end):
        assert part.epoch_for(offset) == cache.epoch_for(offset)


def test_a_part_begins_with_its_first_offset() -> None:
    assert CACHE.entries_between(7, 20) == [(2, 7), (3, 8)]
    assert CACHE.entries_between(0, 21) == [(2, 6), (3, 8), (7, 20)]
    assert CACHE.entries_between(9, 9) == []
    assert CACHE.entries_between(50, 60) == [(7, 50)]


def test_a_cache_equals_one_with_the_same_entries_and_no_other_thing() -> None:
    assert LeaderEpochCache(CACHE.entries) == CACHE
    assert LeaderEpochCache([]) != CACHE
    assert LeaderEpochCache([]) != 7
