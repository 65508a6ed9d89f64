"""Records of a partition page by page, forwards and backwards, as `kafkafs cat` shows them: decoded and masked.

A page is read from its offset on: neither its time nor its memory depends on the size of the partition.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.kernel import LineOptions
from engine.log.view.log_view import LogView
from engine.units import Offset
from kafkafs.browse.work import Steps
from kafkafs.decode.searching.search import Match, Search
from kafkafs.tree.streams import LineSource, text_of

if TYPE_CHECKING:
    from engine.log.partition_log import PartitionLog
    from kafkafs.records.conditions.pattern import Query
    from kafkafs.tree.tree import Tree

MOST_LINE = 256 * 1024
"""Bytes of a line that are kept."""
Keys: TypeAlias = "Collection[tuple[object, ...]]"
_GROWTH = 4
_ERROR = b'{"error":'
_OFFSET = re.compile(rb'\{"topic":"(?:[^"\\]|\\.)*","partition":-?\d+,"offset":(\d+)')


@dataclass(frozen=True, slots=True)
class PageItem:
    """A record, or a damaged place in the log.

    Attributes:
        offset: of the record; of a damaged place the smallest one that a record after it may have.
        line: the record line, cut to MOST_LINE bytes; of a damaged place its error line.
        is_whole: whether the line is not cut.
        damage: facts of a damaged place; None for a record.
    """

    offset: Offset
    line: bytes
    is_whole: bool = True
    damage: dict[str, Any] | None = None

    @property
    def span(self) -> tuple[Offset, Offset]:
        """The offsets [first, next) of the record, or those that may be lost."""
        if self.damage is None:
            return self.offset, self.offset + 1
        first, last = self.damage.get("firstOffset"), self.damage.get("lastOffset")
        first = self.offset if first is None else first
        return first, max(first if last is None else last, first) + 1

    def is_open_at(self, stop: Offset) -> bool:
        """Whether it is a damaged place that goes on at an offset: records from there on come before it."""
        return self.damage is not None and (self.damage.get("lastOffset") or 0) >= stop

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others."""
        if self.damage is None:
            return (self.offset,)
        return tuple(self.damage.get(name) for name in ("file", "position", "kind", "firstOffset"))


class RecordPages:
    """The records of a partition.

    Args:
        tree: has the schemas, the mask and the form of values.
        log: the partition.

    All methods raise OSError and KafkaStorageError.
    """

    def __init__(self, tree: Tree, log: PartitionLog) -> None:
        self._tree = tree
        self.log = log
        self._mask = tree.context.mask_of(log.topic_partition.topic)

    @property
    def is_masked(self) -> bool:
        """Whether a mask hides some of the records."""
        return self._mask is not None

    @property
    def bounds(self) -> tuple[Offset, Offset]:
        """The log start and the log end, as of now."""
        view = self.log.view()
        return view.log_start_offset, view.log_end_offset

    def forward(self, start: Offset, count: int, known: Keys = frozenset()) -> list[PageItem]:
        """Return the first `count` records and damaged places at or after an offset, without the known ones.

        To go on after a page, start at its last offset, with its items as the known ones: damage may follow there.
        """
        first, end = self.bounds
        at, window = max(start, first), max(count, 1)
        found: dict[tuple[object, ...], PageItem] = {}
        while at < end and len(found) < count:
            stop = min(at + window, end)
            for item in self._items(at, stop):
                if item.key not in known and not (stop < end and item.is_open_at(stop)):
                    found.setdefault(item.key, item)
                if len(found) == count:
                    break
            at, window = stop, window * _GROWTH
        return list(found.values())

    def backward(self, stop: Offset, count: int, known: Keys = frozenset()) -> list[PageItem]:
        """Return the last `count` records and damaged places before an offset, in log order, without the known ones."""
        first, end = self.bounds
        at, window = min(stop, end), max(count, 1)
        found: list[PageItem] = []
        while at > first and len(found) < count:
            start = max(at - window, first)
            met = {*known, *(item.key for item in found)}
            new = (
                each
                for each in self._items(start, at)
                if each.key not in met and not (at < end and each.is_open_at(at))
            )
            found[:0] = deque(new, maxlen=count - len(found))
            at, window = start, window * _GROWTH
        return found

    def find(self, query: Query, start: Offset) -> Steps[Offset | None]:
        """Search forward from an offset; the result is the offset of the first match, None without one."""
        view = self.log.view()
        search = self._search(view, query, max(start, view.log_start_offset), view.log_end_offset)
        for segment, part in search.parts():
            yield f"searched {segment.name} at byte {part.position:,}"
            for offset in self._matches(search, segment, part, query):
                return offset
        return None

    def find_before(self, query: Query, stop: Offset) -> Steps[Offset | None]:
        """Search backward from an offset; the result is the offset of the last match before it, None without one."""
        view = self.log.view()
        end = min(stop, view.log_end_offset)
        for base in reversed(view.base_offsets):
            start = max(base, view.log_start_offset)
            found = None
            if start < end:
                search = self._search(view, query, start, end)
                for segment, part in search.parts():
                    yield f"searched {segment.name} at byte {part.position:,}"
                    for offset in self._matches(search, segment, part, query):
                        found = offset
            if found is not None:
                return found
            end = min(end, start)
        return None

    def _matches(self, search: Search, segment: Any, part: Any, query: Query) -> Iterator[Offset]:  # noqa: ANN401
        """Yield the offsets of the matches in a part: a mask is applied before the pattern."""
        for result in search.results(segment, part):
            if isinstance(result, Match):
                for line in result.text.splitlines():
                    place = _OFFSET.match(line)
                    is_hit = self._mask is None or query.pattern.search(
                        line, place.end() if place else 0
                    )
                    if place is not None and is_hit:
                        yield int(place[1])

    def _search(self, view: LogView, query: Query, start: Offset, stop: Offset) -> Search:
        options = self._options(view, start, stop)
        return Search(view, None if self._mask is not None else query, options)

    def _options(self, view: LogView, start: Offset, stop: Offset) -> LineOptions:
        topic, partition = self.log.topic_partition
        return LineOptions(
            topic,
            partition,
            values=self._tree.options.values,
            decode_with=self._tree.context.schemas.decoder(topic),
            log_start_offset=view.log_start_offset,
            from_offset=start,
            to_offset=stop,
            mask=self._mask,
        )

    def _items(self, start: Offset, stop: Offset) -> Iterator[PageItem]:
        """Yield what the tree shows of a range of offsets, line by line."""
        view = self.log.view()
        source = LineSource(self.log.name, None, start, stop)
        rest, length, following = bytearray(), 0, start
        for text in text_of(source, view, self._options(view, start, stop), self.log.budgets):
            *lines, last = text.split(b"\n")
            for line in lines:
                length += len(line)
                rest += line[: MOST_LINE - len(rest)]
                item = _item(bytes(rest), following, is_whole=length == len(rest))
                yield item
                rest.clear()
                length, following = 0, max(following, item.offset + (item.damage is None))
            length += len(last)
            rest += last[: MOST_LINE - len(rest)]


def _item(line: bytes, otherwise: Offset, *, is_whole: bool) -> PageItem:
    place = _OFFSET.match(line)
    if place is not None:
        return PageItem(int(place[1]), line, is_whole)
    facts = json.loads(line)["error"] if line.startswith(_ERROR) and is_whole else {}
    return PageItem(max(otherwise, facts.get("firstOffset") or 0), line, is_whole, facts)
