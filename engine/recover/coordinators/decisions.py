"""Decide the transactions that are open somewhere, from all disks, so that none is torn.

A transaction commits if any COMMIT marker of it is on any disk, or if its coordinator has decided so in any copy; else it
aborts. Which markers are of a transaction: from transaction.version 2 on, each end bumps the producer's epoch, and the
epoch of the marker names the transaction. Before, a producer keeps its epoch, and the order of its transactions in time
tells them apart: by the coordinator's records, which name the partitions, else by the markers after the data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from engine.cut.cluster_cut import CutEnd
from engine.record.fate import Fate
from engine.recover.coordinators.transaction_states import Status, TransactionalState
from engine.recover.partitions.survey import LostEndMarker, OpenData, PartitionSurvey, SeenMarker
from engine.units import MAX_INT64, NO_TIMESTAMP, Offset, Timestamp, TopicPartition

NO_EVIDENCE = "no disk shows that it was committed"


@dataclass(frozen=True, slots=True)
class Decision:
    """How a transaction ends in the partitions that lack its end.

    Attributes:
        producer_id, marker_epoch: the producer of the markers.
        commits: whether it commits.
        evidence: why, in words.
        transactional_id: the id; None if no coordinator's record names the producer.
        open: first offset of its data by partition, where its end marker is missing.
        is_proven: whether a disk shows how it ended; else nobody was told that it committed.
        state: the coordinator's record that is to be completed; None if that is complete, or lost.
    """

    producer_id: int
    marker_epoch: int
    commits: bool
    evidence: str
    transactional_id: str | None
    open: Mapping[TopicPartition, Offset]
    is_proven: bool
    state: TransactionalState | None


_End: TypeAlias = tuple[bool, str]
"""Whether a transaction commits, and the evidence in words."""


class _Vote(NamedTuple):
    """The end of the transaction of a partition's open data; when it began, by its coordinator. None if unknown."""

    started: Timestamp | None
    end: _End | None


class _Period(NamedTuple):
    """A transaction of a producer that keeps its epoch: when it began, when the next one did, its coordinator's records."""

    started: Timestamp
    stop: Timestamp
    states: list[TransactionalState]

    @property
    def data_stop(self) -> Timestamp:
        """When its end was decided: data is not later."""
        decided = (each.updated for each in self.states if each.status.commits is not None)
        return min([self.stop, *decided])


class _Known:
    """Markers and states of all disks, by producer."""

    def __init__(
        self, surveys: Iterable[PartitionSurvey], states: Sequence[TransactionalState]
    ) -> None:
        self.markers: dict[int, list[tuple[TopicPartition, SeenMarker]]] = defaultdict(list)
        self.data_epochs: dict[int, set[int]] = defaultdict(set)
        self.ahead: set[int] = set()
        for each in surveys:
            self.ahead |= each.clocks_ahead
            for marker in each.markers:
                self.markers[marker.producer_id].append((each.partition, marker))
            for producer, epochs in each.data_epochs.items():
                self.data_epochs[producer] |= epochs
        self.states: dict[int, list[TransactionalState]] = defaultdict(list)
        self.newest: dict[str, TransactionalState] = {}
        for state in states:
            self.states[state.producer_id].append(state)
            self.newest[state.transactional_id] = state

    def name_of(self, producer_id: int) -> str | None:
        """Return the transactional id of a producer."""
        states = self.states.get(producer_id)
        return states[-1].transactional_id if states else None

    def bumps(self, producer_id: int) -> bool:
        """Return whether the ends of the producer's transactions bump its epoch."""
        states = self.states.get(producer_id)
        if states:
            return states[-1].bumps
        return any(each.data_epoch == each.epoch - 1 for _, each in self.markers[producer_id])

    def by_epoch(self, producer_id: int, data_epoch: int) -> _End | None:
        """Return how a transaction ended whose end has an epoch of its own, and the evidence; None if unknown."""
        ends: list[_End] = []
        is_later_data = data_epoch + 1 in self.data_epochs[producer_id]
        for partition, marker in self.markers[producer_id]:
            if marker.epoch != data_epoch + 1:
                continue
            if marker.data_epoch == data_epoch or (
                marker.data_epoch is None and not is_later_data and self.bumps(producer_id)
            ):
                ends.append((marker.is_commit, _words(partition, marker)))
        for state in self.states[producer_id]:
            commits = state.status.commits
            if state.bumps and commits is not None and state.data_epoch == data_epoch:
                ends.append((commits, _state_words(state)))
        return _first_commit(ends)

    def by_order(self, partition: TopicPartition, data: OpenData) -> _Vote:
        """Return how the transaction of some data ended whose producer keeps its epoch.

        It is the first one with this partition that began after the producer's last end in the partition; if no record of
        the coordinator names it, the first end after the data counts. Without such an end, the producer's clock tells
        which of several it is. If that clock ran ahead of the brokers' and not all commit, it stays undecided.
        """
        ended = max(
            (
                each.timestamp
                for place, each in self.markers[data.producer_id]
                if place == partition and each.offset < data.first_offset and not each.is_aside
            ),
            default=NO_TIMESTAMP,
        )
        periods = self._periods(data.producer_id, data.epoch)
        after = max(data.timestamp, data.not_before)
        found = [
            each
            for each in periods
            if each.started >= ended and any(partition in state.partitions for state in each.states)
        ]
        if ended == NO_TIMESTAMP:
            # Older transactions ended below the log start, or in an older topic of that name.
            found = [each for each in found if each.stop > data.not_before]
            earlier = [each for each in found if each.data_stop < data.timestamp]
            found = found[len(earlier) :]
            if earlier:
                fates = [self._end_of(data, each) for each in (*earlier, *found[:1])]
                is_safe = data.producer_id not in self.ahead or all(end and end[0] for end in fates)
                end = fates[-1] if found and is_safe else None
                return _Vote(found[0].started if found else None, end)
        for each in found[:1]:
            return _Vote(each.started, self._end_of(data, each))
        stop = next((each.started for each in periods if each.started > after), MAX_INT64)
        ends = self._markers_between(data.producer_id, data.epoch, after, stop)
        skipped = self._markers_between(data.producer_id, data.epoch, data.not_before, after)
        is_safe = data.producer_id not in self.ahead or all(commits for commits, _ in skipped)
        return _Vote(None, ends[0] if ends and (is_safe or not ends[0][0]) else None)

    def _end_of(self, data: OpenData, period: _Period) -> _End | None:
        ends = [
            (commits, _state_words(each))
            for each in period.states
            if (commits := each.status.commits) is not None
        ]
        start, stop = period.started, period.stop
        ends += self._markers_between(data.producer_id, data.epoch, start, stop)[:1]
        return _first_commit(ends)

    def _periods(self, producer_id: int, epoch: int) -> list[_Period]:
        """Return the transactions of a producer's epoch by the time when they began."""
        found: dict[Timestamp, list[TransactionalState]] = {}
        for state in self.states[producer_id]:
            if state.producer_epoch == epoch and state.started >= 0:
                found.setdefault(state.started, []).append(state)
        starts = sorted(found)
        return [
            _Period(start, stop, found[start])
            for start, stop in zip(starts, [*starts[1:], MAX_INT64], strict=False)
        ]

    def markers_from(self, producer_id: int, epoch: int, start: Timestamp) -> list[_End]:
        """Return the ends of a producer's epoch from a time on, in the order of time."""
        return self._markers_between(producer_id, epoch, start, MAX_INT64)

    def _markers_between(
        self, producer_id: int, epoch: int, start: Timestamp, stop: Timestamp
    ) -> list[_End]:
        found = [
            (marker.timestamp, marker.is_commit, _words(partition, marker))
            for partition, marker in self.markers[producer_id]
            if marker.epoch == epoch and start <= marker.timestamp < stop
        ]
        return [(commits, words) for _, commits, words in sorted(found)]


def decide(
    surveys: Sequence[PartitionSurvey], states: Sequence[TransactionalState]
) -> list[Decision]:
    """Return the ends of all transactions that lack one in a partition, or in their coordinator.

    Args:
        surveys: all partitions.
        states: the records of all partitions of `__transaction_state`, each in the order of its log.
    """
    known = _Known(surveys, states)
    open_data: dict[tuple[int, int], dict[TopicPartition, OpenData]] = defaultdict(dict)
    for each in surveys:
        for data in each.open:
            open_data[data.producer_id, data.epoch][each.partition] = data
    decisions = [
        each
        for (producer, epoch), where in open_data.items()
        for each in _decided(known, producer, epoch, where)
    ]
    taken = {each.state.transactional_id for each in decisions if each.state is not None}
    decisions += _without_data(known, taken)
    return sorted(decisions, key=lambda each: (each.producer_id, each.marker_epoch))


def as_of(
    decisions: Iterable[Decision], ends: Mapping[TopicPartition, CutEnd]
) -> Iterator[Decision]:
    """Yield decisions as a cut at a moment has decided them, where it has: by ends that are cut off."""
    for each in decisions:
        decided: dict[Fate, dict[TopicPartition, Offset]] = {}
        others = dict(each.open)
        for partition in each.open:
            fate = ends[partition].ended.get(each.producer_id) if partition in ends else None
            if fate is not None:
                decided.setdefault(fate, {})[partition] = others.pop(partition)
        for fate, where in decided.items():
            yield replace(
                each,
                commits=fate is Fate.COMMITTED,
                evidence="at that moment its end was decided, or written elsewhere",
                is_proven=True,
                open=where,
                state=None if others else each.state,
            )
        if others or not each.open:
            yield replace(each, open=others)


def lost_ends(
    surveys: Sequence[PartitionSurvey], states: Sequence[TransactionalState]
) -> Iterator[tuple[TopicPartition, LostEndMarker, bool, str]]:
    """Yield how transactions ended whose marker was in damage: partition, place, whether it commits, evidence.

    Without it, the end of the producer's next transaction would count for their data. It is known only for those whose
    end has an epoch of its own.
    """
    known = _Known(surveys, states)
    for survey in surveys:
        for each in survey.lost_ends:
            found = known.by_epoch(each.producer_id, each.epoch)
            if found is not None:
                yield survey.partition, each, *found


def _decided(
    known: _Known, producer_id: int, epoch: int, where: Mapping[TopicPartition, OpenData]
) -> Iterator[Decision]:
    """Yield the ends of the transactions whose data of a producer's epoch is open in some partitions."""
    found = known.by_epoch(producer_id, epoch)
    bumps = known.bumps(producer_id) or found is not None
    votes: dict[_Vote, dict[TopicPartition, Offset]] = {}
    for partition, data in sorted(where.items()):
        vote = _Vote(None, found) if bumps else known.by_order(partition, data)
        votes.setdefault(vote, {})[partition] = data.first_offset
    name = known.name_of(producer_id)
    newest = None if name is None else known.newest[name]
    for vote, here in votes.items():
        is_newest = (
            newest is not None
            and (newest.producer_id, newest.data_epoch) == (producer_id, epoch)
            and (bumps or vote.started == newest.started)
        )
        yield Decision(
            producer_id,
            epoch + 1 if bumps else epoch,
            vote.end is not None and vote.end[0],
            NO_EVIDENCE if vote.end is None else vote.end[1],
            name,
            here,
            vote.end is not None,
            _to_complete(newest) if is_newest else None,
        )


def _without_data(known: _Known, taken: set[str]) -> Iterator[Decision]:
    """Yield the transactions that only their coordinator has open."""
    for name, state in known.newest.items():
        to_complete = _to_complete(state)
        if name in taken or to_complete is None:
            continue
        found = known.by_epoch(state.producer_id, state.data_epoch) if state.bumps else None
        if found is None and (commits := state.status.commits) is not None:
            found = commits, _state_words(state)
        if found is None and not state.bumps:
            started = state.started
            ends = known.markers_from(state.producer_id, state.producer_epoch, started)[:1]
            found = _first_commit(ends)
        yield Decision(
            state.producer_id,
            state.marker_epoch,
            found is not None and found[0],
            NO_EVIDENCE if found is None else found[1],
            name,
            {},
            found is not None,
            to_complete,
        )


def _to_complete(state: TransactionalState | None) -> TransactionalState | None:
    """Return a state that is to be completed; a producer that gets another id with its end is left to its coordinator."""
    if state is None or not state.status.is_open or state.next_producer_id >= 0:
        return None
    return state


def _first_commit(ends: Sequence[_End]) -> _End | None:
    """Return the first COMMIT among the ends, else the first ABORT; None without one."""
    return next((end for end in ends if end[0]), ends[0] if ends else None)


def _words(partition: TopicPartition, marker: SeenMarker) -> str:
    kind = "COMMIT" if marker.is_commit else "ABORT"
    return f"{partition} has its {kind} marker at offset {marker.offset}"


def _state_words(state: TransactionalState) -> str:
    name = Status(state.status).name.title().replace("_", "")
    return f"its coordinator's record at offset {state.offset} says {name}"
