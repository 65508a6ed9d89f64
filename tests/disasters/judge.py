"""Judge the plan of a recovery by what clients of a model were told, with Jepsen's anomalies for Kafka.

Lost writes, duplicates, aborted reads, torn transactions, offsets beyond a log or back in time, and records that were
acknowledged and are said not to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.log.view.transactions import TransactionState, events
from engine.rebuild.assembly.pieces import Piece
from engine.record.fate import Fate
from engine.recover.coordinators.coordinator_log import coordinator_records
from engine.recover.coordinators.group_offsets import GroupState
from engine.recover.evidence import OffsetClass
from engine.recover.partitions.saved_pieces import CopyFiles
from engine.recover.partitions.survey import readable
from engine.recover.planning import PlannedPartition, RecoveryPlan
from engine.replay.partition_records import ReplayedRecord
from engine.units import TopicPartition
from tests.disasters.disks import NodeDisk, held
from tests.disasters.model import COMPACTED, GROUPS, KEYS, MADE_ANEW, Model
from tests.disasters.replication import Partition, Replica


@dataclass(frozen=True)
class Expected:
    """What a recovery may be asked for.

    Attributes:
        whole_transactions: whether none may be torn; unclean elections tear them by themselves.
        newest_topics: whether the metadata that is left has the newest topics.
    """

    whole_transactions: bool = True
    newest_topics: bool = True


def problems(
    model: Model, disks: Sequence[NodeDisk], plan: RecoveryPlan, expected: Expected
) -> list[str]:
    """Return what is wrong with the plan of a recovery from the disks of a model."""
    return list(_Judge(model, disks, plan, expected).problems())


class _Judge:
    def __init__(
        self, model: Model, disks: Sequence[NodeDisk], plan: RecoveryPlan, expected: Expected
    ) -> None:
        self.model, self.disks, self.plan, self.expected = model, disks, plan, expected
        self.held = held(disks)
        self.fates: dict[bytes, Fate] = {}
        self.logs: dict[TopicPartition, Mapping[int, ReplayedRecord]] = {}

    def problems(self) -> Iterator[str]:
        for partition, part in self.model.partitions.items():
            planned = self.plan.partitions.get(partition)
            if planned is None or not planned.has_log:
                if self._replicas(partition) and self._is_same(part, planned):
                    yield f"{partition}: a disk has a copy of it, and it has no log"
                continue
            if not self._is_same(part, planned):
                if self.expected.newest_topics:
                    yield f"{partition}: it is of an older topic"
                continue
            pieces = self._pieces(planned)
            self.logs[partition] = {
                record.offset: record
                for record in coordinator_records(pieces, str(partition))
                if isinstance(record, ReplayedRecord)
            }
            yield from self._log_problems(part, planned, pieces)
            yield from self._class_problems(part, planned)
        yield from self._group_problems()
        yield from self._transaction_problems()

    def _is_same(self, part: Partition, planned: PlannedPartition | None) -> bool:
        if planned is None:
            return self.expected.newest_topics
        return planned.topic_id == part.topic_id

    def _pieces(self, planned: PlannedPartition) -> list[Piece]:
        copies = readable(self.plan.cluster.found.copies[planned.partition])
        files = CopyFiles([copy.log for copy in copies])
        return files.restored(planned.survey.pieces) + planned.appended

    def _log_problems(
        self, part: Partition, planned: PlannedPartition, pieces: list[Piece]
    ) -> Iterator[str]:
        """Yield lost writes, duplicates, deleted records that are back, epochs that go back, and open transactions."""
        partition = planned.partition
        if not planned.places:
            yield f"{partition}: nobody leads it"
        log = self.logs[partition]
        epochs = [each.epoch for each in planned.survey.epochs]
        if epochs != sorted(epochs) or (epochs and planned.leader_epoch < epochs[-1]):
            yield f"{partition}: the leader epochs are {epochs}, then {planned.leader_epoch}"
        values = Counter(
            each.value for each in log.values() if each.value and each.offset < planned.survey.end
        )
        if partition not in COMPACTED:
            twice = [value for value, count in values.items() if count > 1]
            if twice and self.expected.whole_transactions:
                yield f"{partition}: {twice} is there twice"
            started = self._started(partition)
            if planned.survey.start < started:
                yield f"{partition}: records below {started} were deleted, and are back"
        yield from self._lost(part, planned, log)
        if partition == KEYS:
            yield from self._key_problems(part, planned, log)
        yield from self._open(partition, pieces)

    def _started(self, partition: TopicPartition) -> int:
        """Return the largest log start in the checkpoints of the disks."""
        return max((each.started for each in self._replicas(partition)), default=0)

    def _replicas(self, partition: TopicPartition) -> list[Replica]:
        """Return the replicas of the disks, without those of an older topic of that name."""
        wanted = self.model.partitions[partition].topic_id
        found = (each.replicas.get(partition, ("", None)) for each in self.disks)
        return [each for topic_id, each in found if each is not None and topic_id == wanted]

    def _lost(
        self, part: Partition, planned: PlannedPartition, log: Mapping[int, ReplayedRecord]
    ) -> Iterator[str]:
        newest = {each.key: each.offset for each in part.acknowledged.values()}
        later = {record.key: record.offset for record in log.values()}
        tails = planned.survey.aside
        start = max(part.log.start, self._started(planned.partition))
        for offset, entry in part.acknowledged.items():
            if entry.is_marker or entry.data not in self.held or offset < start:
                continue
            record = log.get(offset)
            is_aside = any(each.first_offset <= offset < each.next_offset for each in tails)
            if is_aside and self.model.load.unclean:
                continue
            if record is not None and record.value != entry.value:
                yield f"{planned.partition}: {offset} is {record.value!r}, and was {entry.value!r}"
            may_be_cleaned = entry.key is not None and planned.partition in COMPACTED
            is_cleaned = (
                entry.value is None
                or newest[entry.key] > offset
                or later.get(entry.key, -1) > offset
            )
            if record is None and not (may_be_cleaned and is_cleaned):
                yield f"{planned.partition}: the acknowledged record at {offset} is lost"
        for offset, entry in part.overwritten.items():
            record = log.get(offset)
            is_there = record is not None and record.value == entry.value
            is_aside = any(each.first_offset <= offset < each.next_offset for each in tails)
            is_held = entry.data in self.held and not entry.is_marker and entry.key is None
            if is_held and offset >= start and not (is_there or is_aside):
                yield f"{planned.partition}: the overwritten record at {offset} is not set aside"

    def _key_problems(
        self, part: Partition, planned: PlannedPartition, log: Mapping[int, ReplayedRecord]
    ) -> Iterator[str]:
        """Yield keys whose deletion was acknowledged, and that are back."""
        newest = {entry.key: entry for _, entry in sorted(part.acknowledged.items())}
        shown = {record.key: record for _, record in sorted(log.items())}
        replicas = self._replicas(KEYS)
        for key, entry in newest.items():
            record = None if key is None or entry.value is not None else shown.get(key)
            is_known = entry.data in self.held or any(
                each.cleaned > entry.offset for each in replicas
            )
            if record is None or record.value is None or not is_known:
                continue
            if record.offset < entry.offset < planned.survey.end:
                yield (
                    f"{planned.partition}: the key {key!r}, deleted at {entry.offset}, is back at"
                    f" {record.offset}"
                )

    def _class_problems(self, part: Partition, planned: PlannedPartition) -> Iterator[str]:
        for offset, entry in part.acknowledged.items():
            if entry.data in self.held and any(
                each.kind is OffsetClass.NOT_ACKNOWLEDGED and each.first <= offset < each.next
                for each in planned.classes
            ):
                yield f"{planned.partition}: {offset} was acknowledged, and is said not to be"

    def _open(self, partition: TopicPartition, pieces: Sequence[Piece]) -> Iterator[str]:
        """Note the fate of each transactional value of a partition; yield the transactions that stay open."""
        state, log = TransactionState(), self.logs[partition]
        waiting: dict[int, list[bytes]] = {}
        for piece in pieces:
            for run in piece.runs():
                state.apply(run)
                for event in events(run):
                    if event.ended is None:
                        record = log.get(event.base_offset)
                        value = b"" if record is None else record.value or b""
                        waiting.setdefault(event.producer_id, []).append(value)
                        continue
                    for value in waiting.pop(event.producer_id, []):
                        self.fates[value] = event.ended
        if state.ongoing:
            yield f"{partition}: transactions stay open: {state.ongoing}"

    def _transaction_problems(self) -> Iterator[str]:
        if not self.expected.whole_transactions:
            return
        for each in self.model.transactions:
            found = {self.fates[value] for value in each.values if value in self.fates}
            told = f"{[(value, self.fates.get(value)) for value in each.values]}"
            if len(found) > 1:
                yield f"a transaction is torn: {told}"
            if each.answer is False and Fate.COMMITTED in found:
                yield f"an aborted transaction is committed: {told}"
            if each.answer is None and Fate.COMMITTED in found:
                yield f"a transaction that nobody committed is committed: {told}"
            if each.answer and Fate.ABORTED in found and _any_in(each.proofs, self.held):
                yield f"a committed transaction is aborted: {told}"

    def _group_problems(self) -> Iterator[str]:
        """Yield offsets of the group past the end of a log, and those that went back."""
        planned = self.plan.partitions.get(GROUPS)
        if planned is None or GROUPS not in self.logs:
            return
        state = GroupState(self._pieces(planned), str(GROUPS), {})
        offsets = {each.partition: each.offset for each in state.offsets()}
        for partition, offset in offsets.items():
            if partition in self.plan.partitions and offset > self.plan.partitions[partition].end:
                yield f"the group has {offset}, past the end of {partition}"
        for _, entry in sorted(self.model.partitions[GROUPS].acknowledged.items()):
            partition, committed = self.model.commits.get(entry.value or b"", (MADE_ANEW, 0))
            if partition == MADE_ANEW or entry.data not in self.held:
                continue
            end = self.plan.partitions[partition].end if partition in self.plan.partitions else 0
            if self.expected.whole_transactions and offsets.get(partition, 0) < min(committed, end):
                yield f"the group had committed {committed} of {partition}, and has {offsets}"


def _any_in(these: Collection[bytes], those: Collection[bytes]) -> bool:
    return any(each in those for each in these)
