"""The topics of the source at one moment, as consumer groups need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkafs.serve.patterns import compiled

_MOST_PATTERNS = 1000


class KnownTopic(NamedTuple):
    """A topic.

    Attributes:
        topic_id: its id in base64.
        size: number of its partitions, with those that the source lacks.
    """

    topic_id: str
    size: int


class TopicsNow:
    """Topics by name, by id, and by the patterns that members subscribe to.

    Args:
        topics: the topics by name.
    """

    def __init__(self, topics: Mapping[str, KnownTopic]) -> None:
        self._topics = topics
        self.sizes = {topic.topic_id: topic.size for topic in topics.values()}
        self.ids_by_name = {name: topic.topic_id for name, topic in topics.items()}
        self.names = {topic.topic_id: name for name, topic in topics.items()}
        self._matched: dict[str, frozenset[str]] = {}

    def ids(self, names: Iterable[str]) -> frozenset[str]:
        """Return the ids of the topics among names that exist."""
        return frozenset(self._topics[name].topic_id for name in names if name in self._topics)

    def matched(self, pattern: str) -> frozenset[str]:
        """Return the ids of the topics whose whole names match a pattern of RE2; "" matches none.

        Raises:
            BadPattern: RE2 does not take the pattern.
        """
        if not pattern:
            return frozenset()
        known = self._matched.get(pattern)
        if known is None:
            whole = compiled(pattern).fullmatch
            known = self.ids(name for name in self._topics if whole(name))
            if len(self._matched) >= _MOST_PATTERNS:
                self._matched.clear()
            self._matched[pattern] = known
        return known
