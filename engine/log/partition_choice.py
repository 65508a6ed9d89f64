"""Which partitions are meant: by topic, by number, or by the name of a folder. One grammar for all commands.

A topic, a group or a folder is named exactly, by a shell pattern (`*`, `?`, `[`), or by `/REGEX/`, which has to match
the whole name. Several are separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import NamedTuple, Protocol

from engine.units import MAX_INT32, TopicPartition

_REGEX = re.compile(r"/(?:[^/\\]|\\.)+/(?=,|$)")
_NUMBERS = re.compile(r"([0-9]{1,10})|([0-9]{0,10})\.\.([0-9]{0,10})")
_KAFKAS = re.compile(r"([^:,]*)(?::(?:([0-9]{1,10})|([0-9]{0,10})-([0-9]{0,10}))?)?")
_WILDCARDS = frozenset("*?[")


class Choosable(Protocol):
    """A partition with the name of its folder; a second copy of a partition has a longer name."""

    @property
    def name(self) -> str:
        """Name of its folder."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and number."""


class NamedPartition(NamedTuple):
    """A partition that is known by name only."""

    name: str
    topic_partition: TopicPartition

    @classmethod
    def of(cls, partition: TopicPartition) -> NamedPartition:
        """Return a partition in a folder of its own name."""
        return cls(str(partition), partition)


class NamePattern(NamedTuple):
    """An exact name, a shell pattern, or /REGEX/.

    Attributes:
        text: as the user wrote it.
        regex: matches the names; None for an exact name.
    """

    text: str
    regex: re.Pattern[str] | None

    @classmethod
    def parse(cls, text: str) -> NamePattern:
        """Parse a name.

        Raises:
            ValueError: it is empty, or the expression between the slashes is not one.

        >>> [NamePattern.parse(text).matches("orders") for text in ("orders", "ord*", "/or|orders/", "/ord/")]
        [True, True, True, False]
        """
        if not text:
            raise ValueError("a name is empty")
        if text.startswith("/"):
            if len(text) < 3 or not text.endswith("/"):
                raise ValueError(f"{text!r} is not /REGEX/")
            try:
                return cls(text, re.compile(text[1:-1]))
            except re.error as error:
                raise ValueError(f"{text!r} is not a regular expression: {error}") from None
        return cls(text, re.compile(translate(text)) if _WILDCARDS & set(text) else None)

    def matches(self, name: str) -> bool:
        """Return whether the pattern means a name."""
        return name == self.text or (
            self.regex is not None and self.regex.fullmatch(name) is not None
        )


class TopicItem(NamedTuple):
    """The partitions of some topics."""

    text: str
    topic: NamePattern

    def takes(self, log: Choosable) -> bool:
        """Return whether the item means a log."""
        return self.topic.matches(log.topic_partition.topic)


class NumberItem(NamedTuple):
    """The partitions with some numbers, of all topics or of those with a name."""

    text: str
    first: int
    end: int
    topic: re.Pattern[str] | None = None

    def takes(self, log: Choosable) -> bool:
        """Return whether the item means a log."""
        topic, number = log.topic_partition
        if self.topic is not None and self.topic.fullmatch(topic) is None:
            return False
        return self.first <= number < self.end


class FolderItem(NamedTuple):
    """The partitions in some folders."""

    text: str
    folder: NamePattern

    def takes(self, log: Choosable) -> bool:
        """Return whether the item means a log; a second copy of a partition has the name of the first, and more."""
        return self.folder.matches(log.name) or self.folder.matches(log.name.partition("@")[0])


Item = TopicItem | NumberItem | FolderItem


class PartitionChoice(NamedTuple):
    """Some partitions: those that a topic item and a partition item take. Without items of a kind, all.

    >>> choice = PartitionChoice.parse(["orders,pay*"], ["0..4", "7"])
    >>> [item.text for item in choice.topics], [item.text for item in choice.partitions], bool(choice)
    (['orders', 'pay*'], ['0..4', '7'], True)
    """

    topics: tuple[Item, ...] = ()
    partitions: tuple[Item, ...] = ()

    @classmethod
    def parse(cls, topics: Iterable[str] = (), partitions: Iterable[str] = ()) -> PartitionChoice:
        """Parse lists of topics, and of numbers, ranges of numbers (A..B, B exclusive) and folders.

        Raises:
            ValueError: an item is malformed.
        """
        return cls(
            tuple(TopicItem(each, NamePattern.parse(each)) for each in _items(topics)),
            tuple(map(_partition_item, _items(partitions))),
        )

    @classmethod
    def parse_kafkas(cls, text: str) -> PartitionChoice:
        """Parse GetOffsetShell's --topic-partitions: `topic:partition`, `topic:low-high` (high exclusive), `:partition`.

        A topic is a regular expression. A partition's folder is taken too.

        Raises:
            ValueError: an item is malformed.
        """
        return cls(partitions=tuple(map(_kafkas_item, text.split(","))))

    def __bool__(self) -> bool:
        return bool(self.topics or self.partitions)

    def takes(self, log: Choosable) -> bool:
        """Return whether a log is chosen."""
        return all(
            not items or any(item.takes(log) for item in items)
            for items in (self.topics, self.partitions)
        )

    @property
    def topic_regex(self) -> str:
        """A regular expression that is found in the names of the chosen topics, and in no others."""
        ways = (
            re.escape(item.text) if item.topic.regex is None else item.topic.regex.pattern
            for item in self.topics
            if isinstance(item, TopicItem)
        )
        return f"^(?:{'|'.join(f'(?:{way})' for way in ways)})$" if self.topics else ""

    def takes_topic(self, name: str) -> bool:
        """Return whether a topic is chosen, whatever its partitions."""
        return not self.topics or any(
            item.topic.matches(name) for item in self.topics if isinstance(item, TopicItem)
        )

    def folders(self) -> Sequence[NamePattern]:
        """Return the folders that are named."""
        return [item.folder for item in self.partitions if isinstance(item, FolderItem)]

    def unmatched(self, logs: Mapping[str, Choosable]) -> tuple[str, Item] | None:
        """Return the option and the first item that takes none of some logs; None when all take one."""
        for option, items in (("--topic", self.topics), ("--partition", self.partitions)):
            for item in items:
                if not any(item.takes(log) for log in logs.values()):
                    return option, item
        return None


ALL_PARTITIONS = PartitionChoice()


def _items(texts: Iterable[str]) -> list[str]:
    """Return the items of comma-separated lists; a /REGEX/ may hold commas."""
    found = []
    for text in texts:
        rest = f",{text}"
        while rest:
            rest = rest[1:]
            match = _REGEX.match(rest)
            item = rest.partition(",")[0] if match is None else match[0]
            found.append(item.strip())
            rest = rest[len(item) :]
    return found


def _partition_item(text: str) -> Item:
    match = _NUMBERS.fullmatch(text)
    if match is None or text == "..":
        return FolderItem(text, NamePattern.parse(text))
    one, low, high = match.groups()
    if one is not None:
        return NumberItem(text, int(one), int(one) + 1)
    first, end = int(low or 0), int(high) if high else MAX_INT32 + 1
    if end < first:
        raise ValueError(f"{text!r} ends before it begins")
    return NumberItem(text, first, end)


def _kafkas_item(text: str) -> Item:
    match = _KAFKAS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not TOPIC, TOPIC:PARTITION or TOPIC:LOW-HIGH")
    topic, one, low, high = match.groups()
    try:
        pattern = re.compile(topic or ".*")
    except re.error as error:
        raise ValueError(f"{topic!r} is not a regular expression: {error}") from None
    if one is not None:
        return NumberItem(text, int(one), int(one) + 1, pattern)
    return NumberItem(text, int(low or 0), int(high) if high else MAX_INT32 + 1, pattern)
