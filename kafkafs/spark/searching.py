"""The parts of searches on Spark's executors: `kafkafs grep` and `kafkafs stats --keys`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from engine.budgets import MiB
from engine.log.partition_log import PartitionLog
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import Disorder, ScanItem
from engine.processes import portable
from kafkafs.decode.key_counts import KeyItem, counted, search_for_keys
from kafkafs.decode.searching.apart import Apart
from kafkafs.decode.searching.search import DamageFacts, Match, Search
from kafkafs.decode.searching.search_context import SEPARATOR, ContextSearch
from kafkafs.masking.line_mask import LineMask
from kafkafs.records.conditions.where import Where, WhereCounts
from kafkafs.spark.executors import Executors
from kafkafs.table.splits.split import QueryRange, Split, plan, plan_leftover
from kafkafs.table.splits.split_scan import Scanned, scan_split

Part: TypeAlias = tuple[Search, LogSegment, ScanItem]
Result = TypeVar("Result")

SPLIT_BYTES = 16 * MiB
TASK_BYTES = 32 * MiB


class _Piece(NamedTuple):
    """A part of a search: a split of its log. `search` has no condition: the task has it."""

    number: int
    search: Search
    log: PartitionLog
    split: Split


class _Seen(NamedTuple):
    """What a search's mask and condition met on an executor.

    Attributes:
        masked: paths of the mask that some record had, and that some record lacked; None without a mask.
        counts: what the condition counted; None without one.
    """

    masked: tuple[frozenset[str], frozenset[str]] | None
    counts: WhereCounts | None


@dataclass(frozen=True, slots=True)
class _Conditioned:
    """A task with a condition; it ends the condition's processes, and tells what was met on the way."""

    where: Where | None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.where is not None:
            self.where.__exit__()

    def seen(self, search: Search) -> _Seen:
        """Return what was met since the last call."""
        mask = search.options.mask
        masked = (
            (frozenset(mask.met), frozenset(mask.lacked)) if isinstance(mask, LineMask) else None
        )
        return _Seen(masked, None if self.where is None else self.where.taken())


@dataclass(frozen=True, slots=True)
class _SearchTask(_Conditioned):
    """Searches pieces."""

    work: Callable[[Part], Iterable[Any]]

    def __call__(self, piece: _Piece) -> Iterator[tuple[int, Any]]:
        """Yield results with the number of their search before them; an OSError is one, too."""
        search = replace(piece.search, where=self.where)
        try:
            for scanned in scan_split(piece.split, piece.log, fail_on_data_loss=True):
                if not _is_of_next_segment(scanned):
                    part = search, scanned.segment, scanned.item
                    yield from ((piece.number, each) for each in self.work(part))
        except OSError as error:
            yield piece.number, portable(error)
        yield piece.number, self.seen(search)


class _Group(NamedTuple):
    """The searches of a partition, without the condition: the task has it."""

    number: int
    searches: Sequence[Search]


@dataclass(frozen=True, slots=True)
class _ContextTask(_Conditioned):
    """Searches partitions in order; see `ContextSearch`."""

    before: int
    behind: int
    most: int | None

    def __call__(self, group: _Group) -> Iterator[tuple[int, Any]]:
        """Yield results with the number of their partition before them."""
        searches = [replace(each, where=self.where) for each in group.searches]
        context = ContextSearch(self.before, self.behind, self.most)
        yield from ((group.number, each) for each in context.results(searches))
        yield group.number, self.seen(searches[0])


def _is_of_next_segment(scanned: Scanned) -> bool:
    """Return whether all that is wrong is that the last batch of a search states offsets of the next segment.

    The local search, which ends there, does not tell that either.
    """
    item, stop = scanned.item, scanned.split.part_stop
    if not isinstance(item, Disorder) or stop not in scanned.view.segments:
        return False
    return item.expected == stop < (item.found or 0) and scanned.split.stop <= stop


def searched(
    executors: Executors,
    work: Callable[[Part], Iterable[Result]],
    searches: Iterable[Search],
    is_wanted: Callable[[Search], bool] = lambda _: True,
) -> Iterator[Result]:
    """Yield what `work` yields for the parts of the searches, in their order.

    Args:
        executors: where `work` is called.
        work: takes a part; picklable.
        searches: one after the other.
        is_wanted: returns whether more of a search is wanted.

    Raises:
        LostRecordsError, RecreatedTopicError: a broker deleted records meanwhile.
        WhereError: the condition takes too much time or memory.
    """
    for _, each in _results(executors, work, list(searches), is_wanted):
        if isinstance(each, OSError):
            raise each
        yield each


def searched_in_context(
    executors: Executors,
    groups: Sequence[Sequence[Search]],
    before: int,
    behind: int,
    most: int | None,
) -> Iterator[Match | DamageFacts | int]:
    """Yield what `ContextSearch` yields for the searches of each partition; an executor searches it whole.

    Where there is a limit, partitions wait for each other: what is left of it decides where the next one ends.

    Args:
        executors: where partitions are searched.
        groups: the searches of each partition.
        before, behind, most: as of `ContextSearch`.

    Raises as `searched`.
    """
    pieces = [
        _Group(number, [replace(each, where=None) for each in searches])
        for number, searches in enumerate(groups)
    ]
    where = groups[0][0].where if groups else None
    printed: int | None = None
    for some in [pieces] if most is None else [[piece] for piece in pieces]:
        task = _ContextTask(where, before, behind, most)
        for number, each in executors.flat_map(task, some, _size_of, TASK_BYTES):
            if isinstance(each, _Seen):
                _take(groups[number][0], each)
            elif isinstance(each, Match) and each.text:
                is_first = printed not in (None, number)
                printed = number
                yield each._replace(text=SEPARATOR + each.text) if is_first else each
            else:
                yield each
            if most is not None and isinstance(each, Match):
                most -= each.records
        if most == 0:
            break


def _size_of(group: _Group) -> int:
    return group.searches[0].view.size


def counted_keys(
    executors: Executors, logs: Iterable[tuple[PartitionLog, Apart | None]]
) -> Iterator[Iterator[KeyItem]]:
    """Yield for each log an iterator of what `count_keys` yields; it may raise OSError, which is of that log alone."""
    made = [_search_for_keys(*each) for each in logs]
    searches = [each for each in made if isinstance(each, Search)]
    results = _results(executors, counted, searches, lambda _: True)
    waiting = next(results, None)

    def of_search(number: int) -> Iterator[KeyItem]:
        nonlocal waiting
        while waiting is not None and waiting[0] <= number:
            of, each = waiting
            waiting = next(results, None)
            if of == number and isinstance(each, OSError):
                raise each
            if of == number:
                yield each

    number = 0
    for each in made:
        if isinstance(each, OSError):
            yield _failed(each)
        else:
            yield of_search(number)
            number += 1


def _failed(error: OSError) -> Iterator[KeyItem]:
    yield from ()
    raise error


def _search_for_keys(log: PartitionLog, apart: Apart | None) -> Search | OSError:
    try:
        return search_for_keys(log.view(), apart)
    except OSError as error:
        return error


def _results(
    executors: Executors,
    work: Callable[[Part], Iterable[Any]],
    searches: Sequence[Search],
    is_wanted: Callable[[Search], bool],
) -> Iterator[tuple[int, Any]]:
    """Yield results of the searches' parts, in order, with the number of their search before them."""

    def pieces() -> Iterator[_Piece]:
        for number, search in enumerate(searches):
            log = executors.log(search.view.name)
            bare = replace(search, where=None)
            for split in _splits(search):
                if not is_wanted(search):
                    break
                yield _Piece(number, bare, log, split)

    task = _SearchTask(searches[0].where if searches else None, work)
    for number, each in executors.flat_map(
        task, pieces(), lambda piece: piece.split.size, TASK_BYTES
    ):
        if isinstance(each, _Seen):
            _take(searches[number], each)
        else:
            yield number, each


def _splits(search: Search) -> Iterator[Split]:
    view, options = search.view, search.options
    wanted = QueryRange(view.partition, options.from_offset, options.to_offset)
    if search.apart is not None:
        return plan_leftover(view, wanted, SPLIT_BYTES)
    return plan(view, wanted, SPLIT_BYTES)


def _take(search: Search, seen: _Seen) -> None:
    mask = search.options.mask
    if seen.masked is not None and isinstance(mask, LineMask):
        mask.met.update(seen.masked[0])
        mask.lacked.update(seen.masked[1])
    if search.where is not None and seen.counts is not None:
        search.where.add(seen.counts)
