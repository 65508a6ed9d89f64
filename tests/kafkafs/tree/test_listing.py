"""Listings that can be resumed while names come and go."""

from hypothesis import given, strategies as st

from kafkafs.tree.listing import FIRST_COOKIE, NameSlots, NameStream, fixed_entries
from kafkafs.tree.node import Directory, Kind

FOLDER = Directory("orders-0/segments")


def listed(slots: NameSlots, names: list[str], after: int = 0) -> list[str]:
    pairs = [(name, Kind.FILE) for name in names]
    return [entry.name for entry in slots.entries(FOLDER, pairs, after)]


def test_fixed_names_keep_their_order_and_cookies() -> None:
    names = [("b", Kind.FILE), ("a", Kind.DIRECTORY)]
    entries = list(fixed_entries(FOLDER, names, 0))
    assert [(entry.name, entry.kind, entry.cookie) for entry in entries] == [
        ("b", Kind.FILE, FIRST_COOKIE), ("a", Kind.DIRECTORY, FIRST_COOKIE + 1),
    ]  # fmt: skip
    assert list(fixed_entries(FOLDER, names, entries[0].cookie)) == entries[1:]


def test_names_are_listed_in_the_order_they_were_seen() -> None:
    slots = NameSlots()
    assert listed(slots, ["b", "c"]) == ["b", "c"]
    assert listed(slots, ["a", "b", "c"]) == ["b", "c", "a"]


def test_a_name_that_goes_and_comes_back_keeps_its_place() -> None:
    slots = NameSlots()
    listed(slots, ["a", "b", "c"])
    assert listed(slots, ["a", "c"]) == ["a", "c"]
    assert listed(slots, ["a", "b", "c"]) == ["a", "b", "c"]


@given(
    st.lists(st.sets(st.sampled_from("abcdefghij"), min_size=1), min_size=1, max_size=8),
    st.integers(1, 3),
)
def test_names_that_are_there_throughout_are_listed_once_however_a_listing_is_cut(
    states: list[set[str]], page: int
) -> None:
    slots = NameSlots()
    found: list[str] = []
    cookie = 0
    for state in [*states, states[-1], states[-1], states[-1], *[states[-1]] * 10]:
        pairs = [(name, Kind.FILE) for name in sorted(state)]
        entries = list(slots.entries(FOLDER, pairs, cookie))[:page]
        found += [entry.name for entry in entries]
        cookie = entries[-1].cookie if entries else cookie
    assert len(found) == len(set(found))
    assert set.intersection(*states) <= set(found)


def test_slots_of_names_that_are_long_gone_are_forgotten() -> None:
    slots = NameSlots()
    for number in range(3000):
        listed(slots, [str(number), "stays"])
    assert len(slots._slots) < 1100
    assert listed(slots, ["stays", "2999"]) == ["stays", "2999"]


def test_the_same_names_again_are_not_numbered_again() -> None:
    slots = NameSlots()
    names = ("a", "b", "c")
    numbered = slots.number(names)
    assert slots.number(names) is numbered
    assert list(numbered.behind(FIRST_COOKIE)) == [(FIRST_COOKIE + 1, "b"), (FIRST_COOKIE + 2, "c")]
    assert list(slots.number(("b", "d")).behind(0)) == [
        (FIRST_COOKIE + 1, "b"), (FIRST_COOKIE + 3, "d"),
    ]  # fmt: skip
    assert numbered.names == names


def test_cookies_are_not_given_again_after_a_folder_was_empty() -> None:
    slots = NameSlots()
    slots.number([str(number) for number in range(2000)])
    assert list(slots.number(()).behind(0)) == []
    assert list(slots.number(("new",)).behind(0)) == [(FIRST_COOKIE + 2000, "new")]


def test_a_stream_reads_no_further_than_somebody_wanted() -> None:
    read: list[int] = []
    names = (str(read.append(number) or number) for number in range(10_000))
    stream = NameStream(names)
    assert next(stream.behind(0)) == (FIRST_COOKIE, "0")
    assert 0 < len(read) < 1000
    assert [name for _, name in stream.behind(FIRST_COOKIE + 9_996)] == ["9997", "9998", "9999"]
    assert list(stream.behind(FIRST_COOKIE + 9_999)) == []


def test_two_listings_of_a_stream_see_the_same_names_with_the_same_cookies() -> None:
    stream = NameStream(iter([str(number) for number in range(600)]))
    first, second = stream.behind(0), stream.behind(0)
    pairs = [pair for both in zip(first, second, strict=True) for pair in both]
    assert pairs[::2] == pairs[1::2] == list(stream.behind(0))
    assert len(pairs) == 1200


def test_names_that_were_streamed_keep_their_cookies_when_the_listing_is_made() -> None:
    slots = NameSlots()
    stream = slots.stream("stamp", lambda: iter(["c", "a", "b"]))
    assert stream is not None
    seen = dict(stream.behind(0))
    after = dict(slots.number(("a", "b", "d")).behind(0))
    assert {cookie: name for cookie, name in after.items() if cookie in seen} == {
        cookie: name for cookie, name in seen.items() if name != "c"
    }
    assert sorted(after.values()) == ["a", "b", "d"]


def test_a_stream_is_over_when_the_folder_changed_or_a_listing_was_made() -> None:
    slots = NameSlots()
    assert slots.stream("before", None) is None
    assert slots.stream("before", lambda: iter("ab")) is slots.stream("before", None) is not None
    assert slots.stream("after", lambda: iter("abc")) is None
    slots.number(("a", "b"))
    assert slots.stream("before", lambda: iter("ab")) is None
