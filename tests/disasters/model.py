"""A model of a cluster under load, in memory: replication, elections, transactions, groups; then its disks after a disaster.

What a client was told is noted, so that a recovery can be judged by it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from engine.checkpoint.leader_epoch_checkpoint import render
from engine.checkpoint.offset_checkpoint import render_offset_checkpoint
from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.recover.coordinators.coordinator_log import CoordinatorMessage
from engine.topics.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from engine.units import EpochEntry, TopicPartition

NODES = (1, 2, 3)
DATA = tuple(TopicPartition(topic, number) for topic in ("orders", "pay") for number in range(2))
COORDINATOR = TopicPartition(TRANSACTION_STATE, 0)
GROUPS = TopicPartition(CONSUMER_OFFSETS, 0)
ALL = (*DATA, COORDINATOR, GROUPS)
GROUP = "g"
IDS = {node: f"AAAAAAAAAAAAAAAAAAAA{node}Q" for node in NODES}
TOPIC_IDS = {
    "orders": "AAAAAAAAAAAAAAAAAAAAEQ",
    "pay": "AAAAAAAAAAAAAAAAAAAAEg",
    TRANSACTION_STATE: "AAAAAAAAAAAAAAAAAAAAEw",
    CONSUMER_OFFSETS: "AAAAAAAAAAAAAAAAAAAAFA",
}
ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(1, 6)


class Entry(NamedTuple):
    """A batch in a log: offset of its one record, leader epoch, bytes, and its value if it is data."""

    offset: int
    epoch: int
    data: bytes
    value: bytes | None


@dataclass
class Replica:
    """A replica's log: all offsets from 0 on, leader epochs, the high watermark that it knows, and the checkpointed one."""

    entries: list[Entry] = field(default_factory=list)
    epochs: list[EpochEntry] = field(default_factory=list)
    high_watermark: int = 0
    checkpointed: int = 0

    @property
    def end(self) -> int:
        """Log end offset."""
        return len(self.entries)

    def append(self, entry: Entry) -> None:
        """Append an entry at the log end."""
        if not self.epochs or self.epochs[-1].epoch < entry.epoch:
            self.epochs.append(EpochEntry(entry.epoch, entry.offset))
        self.entries.append(entry)

    def truncate(self, end: int) -> None:
        """Drop the entries from an offset on."""
        del self.entries[end:]
        self.epochs = [each for each in self.epochs if each.start_offset < end]
        self.high_watermark = min(self.high_watermark, end)


class Partition:
    """A partition of three replicas.

    Attributes:
        acknowledged: values that acks=all has acknowledged, by offset; without what an unclean election lost.
        overwritten: acknowledged values that an unclean election lost.
    """

    def __init__(self, chooser: random.Random) -> None:
        self.replicas = {node: Replica() for node in NODES}
        self.leader = chooser.choice(NODES)
        self.epoch = 0
        self.isr = set(NODES)
        self.acknowledged: dict[int, bytes] = {}
        self.overwritten: dict[int, bytes] = {}

    @property
    def log(self) -> Replica:
        """The leader's log."""
        return self.replicas[self.leader]

    def append(self, data: Entry) -> None:
        """Append an entry on the leader."""
        self.log.append(data)

    def fetch(self, node: int, most: int) -> None:
        """Let a follower truncate where it diverges, and take some entries of the leader."""
        own, leader = self.replicas[node], self.log
        if node == self.leader:
            return
        common = next(
            (
                at
                for at, (mine, theirs) in enumerate(zip(own.entries, leader.entries, strict=False))
                if mine != theirs
            ),
            min(own.end, leader.end),
        )
        own.truncate(common)
        for entry in leader.entries[common : common + most]:
            own.append(entry)
        self._advance()
        own.high_watermark = min(leader.high_watermark, own.end)
        if own.end >= leader.high_watermark:
            self.isr.add(node)

    def settle(self) -> None:
        """Replicate all to the in-sync replicas."""
        for node in tuple(self.isr):
            self.fetch(node, 1000)
        self._advance()

    def elect(self, node: int) -> None:
        """Make another node the leader; an unclean election if it is not in sync."""
        if node not in self.isr:
            end = self.replicas[node].end
            lost = {offset: value for offset, value in self.acknowledged.items() if offset >= end}
            kept = {entry.value for entry in self.replicas[node].entries}
            lost |= {o: v for o, v in self.acknowledged.items() if v not in kept}
            self.overwritten |= lost
            for offset in lost:
                self.acknowledged.pop(offset, None)
            self.isr = {node}
        self.leader = node
        self.epoch += 1
        self._advance()

    def _advance(self) -> None:
        ends = [self.replicas[node].end for node in self.isr]
        self.log.high_watermark = max(self.log.high_watermark, min(ends))
        for entry in self.log.entries[: self.log.high_watermark]:
            if entry.value is not None:
                self.acknowledged.setdefault(entry.offset, entry.value)


@dataclass
class Transaction:
    """A transaction: its values by partition, and whether a client was told that it committed or aborted."""

    values: dict[bytes, TopicPartition] = field(default_factory=dict)
    answer: bool | None = None


class Model:
    """A cluster under a random load.

    Args:
        seed: of the load.
        unclean: whether leaders are also elected that are not in sync.
        bumps: whether transactions bump the producer's epoch (transaction.version 2).
    """

    def __init__(self, seed: int, *, unclean: bool, bumps: bool) -> None:
        self.random = random.Random(seed)
        self.partitions = {partition: Partition(self.random) for partition in ALL}
        self.transactions: list[Transaction] = []
        self.committed_offsets: dict[TopicPartition, int] = {}
        self._unclean = unclean
        self._bumps = bumps
        self._clock = 1_700_000_000_000
        self._number = 0
        self._epochs = {7: 0, 8: 0}
        self._steps: dict[int, Iterator[None]] = {}
        self._keys = CoordinatorMessage("transaction_log.txt", "TransactionLogKey")
        self._states = CoordinatorMessage("transaction_log.txt", "TransactionLogValue")

    def run(self, steps: int) -> None:
        """Do some random steps."""
        for _ in range(steps):
            self._clock += 3
            chosen = self.random.random()
            if chosen < 0.25:
                self._produce()
            elif chosen < 0.65:
                self._step_of_transaction()
            elif chosen < 0.85:
                part = self.partitions[self.random.choice(ALL)]
                part.fetch(self.random.choice(NODES), self.random.randint(1, 4))
            elif chosen < 0.9:
                self._commit_offset()
            elif chosen < 0.95:
                for part in self.partitions.values():
                    for replica in part.replicas.values():
                        replica.checkpointed = replica.high_watermark
            else:
                self._disturb()

    def _produce(self) -> None:
        partition = self.random.choice(DATA)
        self._append(partition, self._value())
        if self.random.random() < 0.5:
            self.partitions[partition].settle()

    def _disturb(self) -> None:
        part = self.partitions[self.random.choice(ALL)]
        if self.random.random() < 0.5 and len(part.isr) > 1:
            part.isr.discard(self.random.choice([node for node in part.isr if node != part.leader]))
            return
        others = [node for node in NODES if node != part.leader]
        candidates = [node for node in others if node in part.isr or self._unclean]
        if candidates:
            part.elect(self.random.choice(candidates))

    def _value(self) -> bytes:
        self._number += 1
        return b"value-%06d" % self._number

    def _append(
        self, partition: TopicPartition, value: bytes, key: bytes | None = None, **producer: int
    ) -> None:
        part = self.partitions[partition]
        made = records_of(
            SimpleRecord(key, value, self._clock),
            base_offset=part.log.end,
            partition_leader_epoch=part.epoch,
            is_transactional=bool(producer),
            **producer,
        )
        shown = value if partition in DATA else None
        part.append(Entry(part.log.end, part.epoch, bytes(made.buffer), shown))

    # Transactions

    def _step_of_transaction(self) -> None:
        producer = self.random.choice(list(self._epochs))
        steps = self._steps.setdefault(producer, self._transaction(producer))
        if next(steps, self) is self:
            del self._steps[producer]

    def _transaction(self, producer: int) -> Iterator[None]:
        """Yield after each step of a transaction of a producer."""
        made = Transaction()
        self.transactions.append(made)
        epoch, started = self._epochs[producer], self._clock
        partitions = self.random.sample(DATA, self.random.randint(1, 3))
        self._state(producer, epoch, ONGOING, partitions, started)
        yield
        for sequence, partition in enumerate(partitions):
            value = self._value()
            made.values[value] = partition
            self._write(partition, value, producer, epoch, sequence)
            yield
        for sequence, (value, partition) in enumerate(made.values.items()):
            part = self.partitions[partition]
            if all(entry.value != value for entry in part.log.entries):  # lost by an election
                self._write(partition, value, producer, epoch, sequence)
            part.settle()
        commits = self.random.random() < 0.7
        marker_epoch = epoch + 1 if self._bumps else epoch
        self._state(
            producer,
            marker_epoch,
            PREPARE_COMMIT if commits else PREPARE_ABORT,
            partitions,
            started,
        )
        made.answer = commits
        self._epochs[producer] = marker_epoch
        yield
        markers = {}
        for partition in partitions:
            markers[partition] = self._mark(partition, producer, marker_epoch, commits=commits)
            yield
        for partition, marker in markers.items():
            part = self.partitions[partition]
            if marker not in part.log.entries:
                self._mark(partition, producer, marker_epoch, commits=commits)
            part.settle()
        status = COMPLETE_COMMIT if commits else COMPLETE_ABORT
        self._state(producer, marker_epoch, status, [], started)
        yield

    def _write(
        self, partition: TopicPartition, value: bytes, producer: int, epoch: int, sequence: int
    ) -> None:
        self._append(
            partition, value, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
        )

    def _mark(
        self, partition: TopicPartition, producer: int, epoch: int, *, commits: bool
    ) -> Entry:
        part = self.partitions[partition]
        kind = ControlRecordType.COMMIT if commits else ControlRecordType.ABORT
        made = end_transaction_marker(
            EndTransactionMarker(kind, self.partitions[COORDINATOR].epoch),
            producer_id=producer,
            producer_epoch=epoch,
            timestamp=self._clock,
            base_offset=part.log.end,
            partition_leader_epoch=part.epoch,
        )
        entry = Entry(part.log.end, part.epoch, bytes(made.buffer), None)
        part.append(entry)
        return entry

    def _state(
        self,
        producer: int,
        epoch: int,
        status: int,
        partitions: Sequence[TopicPartition],
        started: int,
    ) -> None:
        key = self._keys.write({"transactionalId": f"tid-{producer}"}, b"\0\0")
        topics = [{"topic": each.topic, "partitionIds": [each.partition]} for each in partitions]
        fields = {
            "producerId": producer,
            "producerEpoch": epoch,
            "transactionTimeoutMs": 60_000,
            "transactionStatus": status,
            "transactionPartitions": topics,
            "transactionLastUpdateTimestampMs": self._clock,
            "transactionStartTimestampMs": started,
            "clientTransactionVersion": 2 if self._bumps else 0,
        }
        value = self._states.write(fields, b"\0\1")
        self._append(COORDINATOR, value, key)
        self.partitions[COORDINATOR].settle()

    # Groups

    def _commit_offset(self) -> None:
        partition = self.random.choice(DATA)
        offset = self.partitions[partition].log.high_watermark
        key_message = CoordinatorMessage("consumer_offsets.txt", "OffsetCommitKey")
        fields = {"group": GROUP, "topic": partition.topic, "partition": partition.partition}
        key = key_message.write_key(fields, 1)
        value_message = CoordinatorMessage("consumer_offsets.txt", "OffsetCommitValue")
        values = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1}
        self._append(GROUPS, value_message.write(values, b"\0\3"), key)
        self.partitions[GROUPS].settle()
        self.committed_offsets[partition] = offset

    # Disks

    def cut(self, *, most_disks: int) -> None:
        """Cut the tails of some disks, as a power failure does; the checkpoints stay."""
        for node in self.random.sample(NODES, self.random.randint(0, most_disks)):
            is_short = self.random.random() < 0.5
            for part in self.partitions.values():
                replica = part.replicas[node]
                if self.random.random() < 0.7 and replica.entries:
                    low = max(replica.end - 4, 0) if is_short else 0
                    del replica.entries[self.random.randint(low, replica.end) :]

    def write(self, folder: Path) -> list[str]:
        """Write the log dirs of all nodes; return their paths."""
        paths = []
        for node in NODES:
            log_dir = folder / f"node-{node}"
            log_dir.mkdir()
            properties = f"version=1\ncluster.id=c\nnode.id={node}\ndirectory.id={IDS[node]}\n"
            (log_dir / "meta.properties").write_text(properties)
            marks = {}
            for partition, part in self.partitions.items():
                replica = part.replicas[node]
                marks[partition] = replica.checkpointed
                _write_replica(log_dir / str(partition), partition, replica)
            name = "replication-offset-checkpoint"
            (log_dir / name).write_bytes(render_offset_checkpoint(marks))
            paths.append(str(log_dir))
        return paths


def _write_replica(folder: Path, partition: TopicPartition, replica: Replica) -> None:
    folder.mkdir()
    data = b"".join(entry.data for entry in replica.entries)
    (folder / "00000000000000000000.log").write_bytes(data)
    (folder / "leader-epoch-checkpoint").write_bytes(render(replica.epochs))
    identity = PartitionMetadata(0, TOPIC_IDS[partition.topic])
    (folder / "partition.metadata").write_bytes(render_partition_metadata(identity))
