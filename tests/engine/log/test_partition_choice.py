"""Lists of topics and partitions, as users and Kafka's tools write them."""

import re

import pytest

from engine.log.partition_choice import ALL_PARTITIONS, NamedPartition, NamePattern, PartitionChoice
from engine.units import MAX_INT32, TopicPartition


def partition(topic: str, number: int, folder: str | None = None) -> NamedPartition:
    made = TopicPartition(topic, number)
    return NamedPartition(str(made) if folder is None else folder, made)


def numbers_of(text: str) -> list[int]:
    """The numbers, of some, that a list of partitions takes."""
    choice = PartitionChoice.parse(partitions=[text])
    some = (0, 1, 2, 3, 4, 5, MAX_INT32 - 1, MAX_INT32)
    return [number for number in some if choice.takes(partition("orders", number))]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0", [0]),
        ("3", [3]),
        ("1..3", [1, 2]),
        ("..2", [0, 1]),
        ("5..", [5, MAX_INT32 - 1, MAX_INT32]),
        ("2..2", []),
        ("0,4..5", [0, 4]),
        ("orders-1", [1]),
        ("orders-[12]", [1, 2]),
        ("..", []),
    ],
)
def test_partitions_are_numbers_ranges_and_folders(text, numbers):
    assert numbers_of(text) == numbers


def test_a_second_copy_is_taken_by_the_name_of_the_first_and_by_its_own():
    copy = partition("orders", 1, "orders-1@disk2")
    for text, is_taken in (("orders-1", True), ("orders-1@disk2", True), ("orders-1@disk3", False)):
        assert PartitionChoice.parse(partitions=[text]).takes(copy) == is_taken


@pytest.mark.parametrize("text", ["", "/", "//", "/orders", "/(/", "/[a/"])
def test_a_name_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"empty|not /REGEX/|not a regular expression"):
        NamePattern.parse(text)
    with pytest.raises(ValueError, match="ends before it begins"):
        PartitionChoice.parse(partitions=["3..2"])


def test_topics_and_partitions_must_both_take_a_log():
    choice = PartitionChoice.parse(["orders,/pay|x,y/"], ["0"])
    taken = {name: choice.takes(partition(name, 0)) for name in ("orders", "pay", "x,y", "x")}
    assert taken == {"orders": True, "pay": True, "x,y": True, "x": False}
    assert not choice.takes(partition("orders", 1))
    assert [choice.takes_topic(name) for name in ("orders", "other")] == [True, False]
    assert ALL_PARTITIONS.takes(partition("any", 7))
    assert (bool(choice), bool(ALL_PARTITIONS)) == (True, False)
    assert [bool(PartitionChoice.parse(["a"])), bool(PartitionChoice.parse((), ["1"]))] == [
        True
    ] * 2


@pytest.mark.parametrize(
    ("items", "taken"),
    [
        (["a.b"], ["a.b"]),
        (["orders"], ["orders"]),
        (["ord*"], ["orders", "orders2"]),
        (["/o.*s/"], ["orders"]),
        (["/a.b|x/"], ["a.b", "axb", "x"]),
        (["a.b", "orders2"], ["a.b", "orders2"]),
        (["a*", "/x|y/"], ["a.b", "axb", "x"]),
    ],
)
def test_the_regular_expression_of_a_choice_is_found_in_chosen_topics_only(items, taken):
    choice = PartitionChoice.parse(items)
    names = ["a.b", "axb", "orders", "orders2", "my-orders", "x", "xx"]
    assert [name for name in names if re.search(choice.topic_regex, name)] == taken
    assert [name for name in names if choice.takes_topic(name)] == taken


def test_a_choice_of_all_topics_has_no_regular_expression():
    assert (ALL_PARTITIONS.topic_regex, PartitionChoice.parse((), ["1"]).topic_regex) == ("", "")


def test_the_first_item_without_a_log_is_named():
    logs = {"a-0": partition("a", 0), "b-1": partition("b", 1)}
    for topics, numbers, expected in (
        (["a,b"], ["0,1"], None),
        (["a,c"], ["7"], ("--topic", "c")),
        (["a"], ["1,7"], ("--partition", "7")),
    ):
        found = PartitionChoice.parse(topics, numbers).unmatched(logs)
        assert (found and (found[0], found[1].text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ["a-0", "a-1", "a-2"]),
        ("a:1", ["a-1"]),
        ("a:1-2", ["a-1"]),
        ("a:1-", ["a-1", "a-2"]),
        ("a:-2", ["a-0", "a-1"]),
        (":2", ["a-2", "b-2"]),
        ("a:0,b:2", ["a-0", "b-2"]),
        ("[ab]:0", ["a-0", "b-0"]),
    ],
)
def test_partitions_as_get_offset_shell_has_them(text, expected):
    choice = PartitionChoice.parse_kafkas(text)
    logs = [partition(topic, number) for topic in "ab" for number in range(3)]
    assert [log.name for log in logs if choice.takes(log)] == expected


def test_what_get_offset_shell_refuses_is_refused():
    for text in ("a:b:c", "(:1"):
        with pytest.raises(ValueError, match="is not"):
            PartitionChoice.parse_kafkas(text)


def test_a_range_without_an_end_has_the_largest_partition() -> None:
    choice = PartitionChoice.parse_kafkas("orders:5-")

    logs = [partition("orders", number) for number in (4, 5, MAX_INT32)]
    assert [choice.takes(log) for log in logs] == [False, True, True]
