"""Plan the recovered cluster: where each partition goes, what is appended to it, and what is proven of its offsets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.rebuild.assembly.end_markers import end_piece
from engine.rebuild.assembly.pieces import Piece
from engine.recover.coordinators.coordinator_log import KeyedValue, appended_batch
from engine.recover.coordinators.decisions import Decision, as_of, decide, lost_ends
from engine.recover.coordinators.former_topics import FormerTopics
from engine.recover.coordinators.group_offsets import (
    FormerOffset,
    GroupOffset,
    GroupState,
    MovedOffset,
)
from engine.recover.coordinators.share_states import clamped, share_rows
from engine.recover.coordinators.transaction_states import (
    TransactionalState,
    completed,
    transactional_states,
)
from engine.recover.evidence import (
    ClassedRange,
    ClusterEvidence,
    classes,
    completions,
    cut_nodes,
    largest_group_offsets,
)
from engine.recover.isr_history import Acknowledged, IsrHistory
from engine.recover.metadata.cluster_metadata import KnownPartition
from engine.recover.metadata.records import PartitionPlacement
from engine.recover.options import RecoverOptions
from engine.recover.partitions.saved_pieces import CopyFiles, SavedPiece
from engine.recover.partitions.survey import PartitionSurvey, readable
from engine.recover.placing import Placer, ReplicaPlace, directories
from engine.recover.reading import ClusterSurvey
from engine.topics.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from engine.units import Offset, Timestamp, TopicPartition

_UNKNOWN = KnownPartition(())
_MOST_IN_BATCH = 1000
"""Records of a coordinator in one appended batch."""
_ID_BLOCK = 1000
"""Producer ids that a controller gives to a broker at once."""


@dataclass(slots=True)
class PlannedPartition:
    """A partition of the recovered cluster.

    Attributes:
        survey: what its copies hold; without a copy it has no log, and a broker makes an empty one.
        topic_id: id of its topic.
        places: log dirs of its replicas, the leader's first.
        leader_epoch: larger than every epoch that any copy has seen.
        appended: batches after the log of the copies.
        end: log end.
        classes: what is proven of its offsets.
        acknowledged: of each losing tail, whether its records may have been acknowledged.
    """

    survey: PartitionSurvey
    topic_id: str
    places: list[ReplicaPlace]
    leader_epoch: int
    appended: list[Piece] = field(default_factory=list)
    end: Offset = 0
    classes: list[ClassedRange] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)

    @property
    def partition(self) -> TopicPartition:
        """Topic and partition."""
        return self.survey.partition

    @property
    def has_log(self) -> bool:
        """Whether a copy of it can be read."""
        return bool(self.survey.copies)

    def append(self, data: bytes, count: int) -> None:
        """Append a batch of some records, which begins at the log end."""
        following = self.end + count
        piece = Piece(
            None, 0, len(data), self.end, following, self.leader_epoch, 1, count, data=data
        )
        self.appended.append(piece)
        self.end = following


@dataclass(frozen=True)
class RecoveryPlan:
    """The recovered cluster before it is written.

    Attributes:
        cluster: what the sources hold.
        partitions: all partitions of it, by name.
        decisions: transactions that are ended.
        left_open: transactions that are not.
        moved: offsets of groups that were past the end of a log.
        former: offsets of groups that were of a deleted topic of the same name.
        emptied: groups whose members are dropped.
        emptied_now: those of them whose offsets age from now on, the classic ones.
        offsets: offsets of groups that count.
        states: records of transactional ids, the oldest first.
        next_producer_id: above every producer id of the sources.
        now: time of the run, which appended records have.
    """

    cluster: ClusterSurvey
    partitions: dict[TopicPartition, PlannedPartition]
    decisions: list[Decision]
    left_open: list[Decision]
    moved: list[MovedOffset]
    former: list[FormerOffset]
    emptied: list[str]
    emptied_now: frozenset[str]
    offsets: list[GroupOffset]
    states: list[TransactionalState]
    next_producer_id: int
    now: Timestamp

    @property
    def placements(self) -> list[PartitionPlacement]:
        """Where the partitions are, for the metadata."""
        return [
            PartitionPlacement(
                each.partition.topic,
                each.partition.partition,
                tuple(place.node for place in each.places),
                each.places[0].node,
                each.leader_epoch,
                directories(each.places),
            )
            for each in self.partitions.values()
        ]


def plan_recovery(cluster: ClusterSurvey, options: RecoverOptions, now: Timestamp) -> RecoveryPlan:
    """Return the plan of a recovery that appends records of the time `now`; nothing is written.

    Raises:
        RecoverRefusedError: no node is a broker.
        OSError: a source cannot be read.
    """
    return _Planner(cluster, options, now).plan()


@dataclass(slots=True)
class _Groups:
    """What was decided of all groups, and the offsets that count."""

    offsets: list[GroupOffset] = field(default_factory=list)
    moved: list[MovedOffset] = field(default_factory=list)
    former: list[FormerOffset] = field(default_factory=list)
    emptied_now: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)


class _Planner:
    def __init__(self, cluster: ClusterSurvey, options: RecoverOptions, now: Timestamp) -> None:
        self.cluster = cluster
        self.options = options
        self.now = now
        self.surveys = list(cluster.surveys.values())
        self.partitions = self._placed()
        self.states = self._states()

    def plan(self) -> RecoveryPlan:
        """Return the plan."""
        decided = decide(self.surveys, self.states)
        if self.cluster.then is not None:
            decided = list(as_of(decided, self.cluster.then.ends))
        self._put_back_markers()
        ended = [each for each in decided if each.is_proven or not self.options.leaves_open]
        left_open = [each for each in decided if each not in ended]
        self._append_markers(ended)
        self._append_completions(ended)
        made = self._append_group_records(ended)
        made.moved += self._clamp_shares()
        self._classify(made.offsets)
        return RecoveryPlan(
            self.cluster,
            self.partitions,
            ended,
            left_open,
            made.moved,
            made.former,
            sorted(made.emptied_now | made.others),
            frozenset(made.emptied_now),
            made.offsets,
            self.states,
            self._next_producer_id(),
            self.now,
        )

    def _placed(self) -> dict[TopicPartition, PlannedPartition]:
        """Place all partitions: those with a copy, and the others of the same topics."""
        placer = Placer(self.cluster.nodes, self.options.replication)
        coordinators = max((each.coordinator_epoch for each in self.surveys), default=-1)
        asked = bool(self.options.topics or self.options.partitions)
        placed: dict[TopicPartition, PlannedPartition] = {}
        numbers: dict[str, set[int]] = {}
        for partition in self.cluster.surveys:
            numbers.setdefault(partition.topic, set()).add(partition.partition)
        for name, topic in self.cluster.metadata.topics.items():
            for number in sorted(numbers.get(name, set()) | topic.partitions.keys()):
                partition = TopicPartition(name, number)
                found = self.cluster.surveys.get(partition)
                if found is None and asked:
                    continue
                found = found or PartitionSurvey(partition, reason="no disk holds a copy")
                known = topic.partitions.get(number, _UNKNOWN)
                size = sum(each.piece.size for each in found.pieces)
                nodes = dict.fromkeys(
                    each.node_id for each in found.copies if each.node_id is not None
                )
                epoch = max(known.leader_epoch, found.largest_epoch, 0)
                if name == TRANSACTION_STATE:
                    # It is the epoch of the coordinator, which partitions with a higher one refuse.
                    epoch = max(epoch, coordinators)
                places = placer.place(partition, known.replicas or tuple(nodes), size)
                placed[partition] = PlannedPartition(
                    found, topic.topic_id, places, epoch + 1, end=found.end
                )
        return placed

    def _pieces(self, partition: TopicPartition) -> list[Piece]:
        copies = readable(self.cluster.found.copies[partition])
        return CopyFiles([each.log for each in copies]).restored(
            self.partitions[partition].survey.pieces
        )

    def _of_topic(self, topic: str) -> Iterable[PlannedPartition]:
        return (
            each
            for partition, each in self.partitions.items()
            if partition.topic == topic and each.has_log
        )

    def _states(self) -> list[TransactionalState]:
        return [
            state
            for each in self._of_topic(TRANSACTION_STATE)
            for state in transactional_states(
                self._pieces(each.partition), each.partition.partition
            )
        ]

    def _put_back_markers(self) -> None:
        """Put end markers where damage has taken them, if another disk or the coordinator tells them."""
        for partition, lost, commits, evidence in lost_ends(self.surveys, self.states):
            survey = self.partitions[partition].survey
            at = bisect_left(survey.pieces, lost.offset, key=lambda each: each.piece.base_offset)
            before = survey.pieces[at - 1].piece
            if at == 0 or before.next_offset > lost.offset:
                continue
            piece = end_piece(
                commits=commits,
                coordinator_epoch=max(survey.coordinator_epoch, 0),
                producer=(lost.producer_id, lost.epoch + 1),
                timestamp=lost.timestamp,
                base_offset=lost.offset,
                leader_epoch=before.epoch,
            )
            survey.pieces.insert(at, SavedPiece(None, piece))
            kind = "COMMIT" if commits else "ABORT"
            survey.notes.append(
                f"offset {lost.offset} gets the {kind} marker that was damaged: {evidence}"
            )

    def _append_markers(self, ended: Sequence[Decision]) -> None:
        coordinator_epoch = max((each.coordinator_epoch for each in self.surveys), default=-1)
        for each in ended:
            for partition in each.open:
                planned = self.partitions[partition]
                marker = end_piece(
                    commits=each.commits,
                    coordinator_epoch=max(coordinator_epoch, 0),
                    producer=(each.producer_id, each.marker_epoch),
                    timestamp=self.now,
                    base_offset=planned.end,
                    leader_epoch=planned.leader_epoch,
                )
                planned.appended.append(marker)
                planned.end += 1

    def _append_completions(self, ended: Sequence[Decision]) -> None:
        records: dict[int, list[KeyedValue]] = {}
        for each in ended:
            if each.state is not None:
                record = completed(each.state, commits=each.commits, now=self.now)
                records.setdefault(each.state.coordinator, []).append(record)
        for number, made in records.items():
            self._append_records(TopicPartition(TRANSACTION_STATE, number), made)

    def _append_records(self, partition: TopicPartition, records: Sequence[KeyedValue]) -> None:
        planned = self.partitions[partition]
        for start in range(0, len(records), _MOST_IN_BATCH):
            part = records[start : start + _MOST_IN_BATCH]
            data = appended_batch(part, planned.end, planned.leader_epoch, self.now)
            planned.append(data, len(part))

    def _append_group_records(self, ended: Sequence[Decision]) -> _Groups:
        ends = {partition: each.end for partition, each in self.partitions.items()}
        former = FormerTopics(self.cluster.metadata)
        groups = _Groups()
        for planned in self._of_topic(CONSUMER_OFFSETS):
            partition = planned.partition
            here = {each.producer_id: each.commits for each in ended if partition in each.open}
            state = GroupState(self._pieces(partition), str(partition), here)
            offsets = state.offsets()
            made = state.records(offsets, ends, former.why, self.now)
            groups.offsets += [each for each in offsets if former.why(each) is None]
            groups.moved += made.moved
            groups.former += made.former
            groups.emptied_now |= set(made.dropped.classic)
            groups.others |= set(made.dropped.others)
            if made.records:
                self._append_records(partition, made.records)
        return groups

    def _clamp_shares(self) -> list[MovedOffset]:
        """Cut the state of share partitions at the end of the logs; leader epochs are above those that it knows."""
        by_id = {(each.topic_id, name.partition): each for name, each in self.partitions.items()}

        def end_of(topic_id: str, number: int) -> tuple[TopicPartition, Offset] | None:
            found = by_id.get((topic_id, number))
            return None if found is None else (found.partition, found.survey.end)

        moved: list[MovedOffset] = []
        for planned in list(self._of_topic(SHARE_GROUP_STATE)):
            rows = list(share_rows(self._pieces(planned.partition), str(planned.partition)))
            for row in rows:
                found = by_id.get((row.topic_id, row.number))
                if found is not None:
                    above = (row.state.leader_epoch or 0) + 1
                    found.leader_epoch = max(found.leader_epoch, above)
            records, cut = clamped(rows, end_of, self.now)
            moved += cut
            if records:
                self._append_records(planned.partition, records)
        return moved

    def _classify(self, offsets: Sequence[GroupOffset]) -> None:
        metadata = self.cluster.metadata
        isr: Mapping[TopicPartition, Sequence[int]] = {
            TopicPartition(name, number): known.isr
            for name, topic in metadata.topics.items()
            for number, known in topic.partitions.items()
        }
        known = ClusterEvidence(
            largest_group_offsets(offsets),
            completions(self.states),
            isr,
            {},
            self.cluster.metadata_ends,
            None if metadata.image is None else metadata.end[1],
            self.options.no_power_loss,
        )
        known = replace(known, cut=cut_nodes(self.surveys, known))
        history: IsrHistory | None = None
        for planned in self.partitions.values():
            planned.classes = classes(planned.survey, known)
            if planned.survey.aside:
                history = history or IsrHistory(self.cluster.sources)
                planned.acknowledged = [
                    history.acknowledged(planned.topic_id, planned.partition.partition, tail.epoch)
                    for tail in planned.survey.aside
                ]

    def _next_producer_id(self) -> int:
        ids = [each.largest_producer_id for each in self.surveys]
        ids += [max(state.producer_id, state.next_producer_id) for state in self.states]
        image = self.cluster.metadata.image
        given = None if image is None else image.table("quorum").get("producerIds")
        if given is not None:
            ids.append(given.facts["nextProducerId"])
        return (max(ids, default=-1) // _ID_BLOCK + 2) * _ID_BLOCK
