"""A model of a cluster under load, in memory: replication, elections, transactions, groups, reassignments, compaction.

What a client was told is noted, so that a recovery can be judged by it.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.recover.coordinators.coordinator_log import CoordinatorMessage
from engine.recover.metadata.records import MetadataRecord, encode_record
from engine.topics.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from engine.units import TopicPartition
from tests.disasters.replication import Entry, Partition, Replica

NODES = (1, 2, 3, 4)
REPLICAS = 3
KEYS = TopicPartition("keys", 0)
MADE_ANEW = TopicPartition("pay", 0)
DATA = (TopicPartition("orders", 0), TopicPartition("orders", 1), MADE_ANEW)
COORDINATOR = TopicPartition(TRANSACTION_STATE, 0)
GROUPS = TopicPartition(CONSUMER_OFFSETS, 0)
COMPACTED = (KEYS, COORDINATOR, GROUPS)
ALL = (*DATA, *COMPACTED)
GROUP = "g"
METADATA_EPOCH = 1
ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(1, 6)
TRANSACTION_KEY = CoordinatorMessage("transaction_log.txt", "TransactionLogKey")
TRANSACTION_VALUE = CoordinatorMessage("transaction_log.txt", "TransactionLogValue")
OFFSET_KEY = CoordinatorMessage("consumer_offsets.txt", "OffsetCommitKey")
OFFSET_VALUE = CoordinatorMessage("consumer_offsets.txt", "OffsetCommitValue")


def uuid_of(number: int) -> str:
    """Return a UUID of its own for each number."""
    return base64.urlsafe_b64encode((1 << 96 | number).to_bytes(16, "big")).decode().rstrip("=")


@dataclass
class Transaction:
    """A transaction.

    Attributes:
        values: its partitions by value.
        answer: whether a client was told that it committed or aborted; None if nothing.
        proofs: batches that show that it committed: its coordinator's records and its markers.
    """

    values: dict[bytes, TopicPartition] = field(default_factory=dict)
    answer: bool | None = None
    proofs: list[bytes] = field(default_factory=list)


class OldFolder(NamedTuple):
    """A replica of a topic that was deleted, whose folder is still there; `is_live` if its node did not know yet."""

    partition: TopicPartition
    topic_id: str
    replica: Replica
    is_live: bool


@dataclass(frozen=True)
class Load:
    """What happens in a cluster.

    Attributes:
        unclean: leaders are also elected that are not in sync.
        bumps: transactions bump the producer's epoch (transaction.version 2).
        cleans: compaction runs.
        deletes: clients delete records.
        moves: replicas are reassigned.
        makes_anew: a topic is deleted and made anew.
    """

    unclean: bool = False
    bumps: bool = True
    cleans: bool = False
    deletes: bool = False
    moves: bool = False
    makes_anew: bool = False


class Model:
    """A cluster under a random load.

    Attributes:
        partitions: by name.
        transactions: in the order in which they began.
        commits: offset in the log of each commit of the group, by its value, with the partition and the committed offset.
        metadata: batches of the metadata log, each of one record.
        made_at: length of the metadata log once a topic was made, by its id.
        old_folders: by node.
    """

    def __init__(self, seed: int, load: Load) -> None:
        self.random = random.Random(seed)
        self.load = load
        self.metadata: list[bytes] = []
        self.made_at: dict[str, int] = {}
        self.partitions: dict[TopicPartition, Partition] = {}
        self.transactions: list[Transaction] = []
        self.commits: dict[bytes, tuple[TopicPartition, int]] = {}
        self.old_folders: dict[int, list[OldFolder]] = {node: [] for node in NODES}
        self._clock = 1_700_000_000_000
        self._number = 0
        self._topics = 0
        self._epochs = {7: 0, 8: 0}
        self._steps: dict[int, Iterator[None]] = {}
        self._note("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=25)
        for topic in dict.fromkeys(each.topic for each in ALL):
            self._make_topic(topic)

    # Metadata

    def _note(self, kind: str, version: int = 0, **fields: Any) -> None:
        message = encode_record(MetadataRecord(kind, version, fields))
        record = SimpleRecord(None, message, self._clock)
        at = len(self.metadata)
        batch = records_of(record, base_offset=at, partition_leader_epoch=METADATA_EPOCH)
        self.metadata.append(bytes(batch.buffer))

    def _make_topic(self, topic: str) -> None:
        self._topics += 1
        topic_id = uuid_of(self._topics)
        self._note("TOPIC_RECORD", name=topic, topicId=topic_id)
        for partition in ALL:
            if partition.topic != topic:
                continue
            nodes = self.random.sample(NODES, REPLICAS)
            part = self.partitions[partition] = Partition(topic_id, nodes, self.random)
            self._note(
                "PARTITION_RECORD", 1, partitionId=partition.partition, topicId=topic_id,
                replicas=nodes, isr=nodes, leader=part.leader, leaderEpoch=0, partitionEpoch=0,
                directories=[uuid_of(0)] * len(nodes), removingReplicas=[], addingReplicas=[],
            )  # fmt: skip
        if TopicPartition(topic, 0) in COMPACTED:
            config = {"name": "cleanup.policy", "value": "compact"}
            self._note("CONFIG_RECORD", resourceType=2, resourceName=topic, **config)
        self.made_at[topic_id] = len(self.metadata)

    def _note_change(self, partition: TopicPartition, isr: set[int], leader: int) -> None:
        """Note in the metadata how a partition has changed."""
        part, changed = self.partitions[partition], dict[str, Any]()
        if part.isr != isr:
            changed["isr"] = sorted(part.isr)
        if part.leader != leader:
            changed["leader"] = part.leader
        if changed:
            number, topic_id = partition.partition, part.topic_id
            self._note("PARTITION_CHANGE_RECORD", partitionId=number, topicId=topic_id, **changed)

    # The load

    def run(self, steps: int) -> None:
        """Do some random steps."""
        for _ in range(steps):
            self._clock += 3
            before = {name: (set(part.isr), part.leader) for name, part in self.partitions.items()}
            self._step()
            for name, (isr, leader) in before.items():
                self._note_change(name, isr, leader)

    def _step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.25:
            self._produce()
        elif chosen < 0.63:
            self._step_of_transaction()
        elif chosen < 0.82:
            part = self.partitions[self.random.choice(ALL)]
            part.fetch(self.random.choice(NODES), self.random.randint(1, 4))
        elif chosen < 0.87:
            self._commit_offset()
        elif chosen < 0.92:
            self._checkpoint()
        elif chosen < 0.96:
            self._disturb()
        else:
            self._administer()

    def _produce(self) -> None:
        partition = self.random.choice((*DATA, KEYS))
        value: bytes | None = self._value()
        key = None
        if partition == KEYS:
            key = b"k%d" % self.random.randrange(6)
            value = value if self.random.random() < 0.8 else None
        self._append(partition, value, key)
        if self.random.random() < 0.5:
            self.partitions[partition].settle()

    def _checkpoint(self) -> None:
        for part in self.partitions.values():
            for replica in part.replicas.values():
                replica.checkpointed = replica.high_watermark
                replica.started = replica.start
                if self.random.random() < 0.4:
                    replica.flushed = replica.rolls[-1]

    def _disturb(self) -> None:
        part = self.partitions[self.random.choice(ALL)]
        if self.random.random() < 0.5 and len(part.isr) > 1:
            part.isr.discard(self.random.choice([node for node in part.isr if node != part.leader]))
            part.advance()
            return
        others = [node for node in part.replicas if node != part.leader]
        candidates = [node for node in others if node in part.isr or self.load.unclean]
        if candidates:
            part.elect(self.random.choice(candidates))

    def _administer(self) -> None:
        chosen, load = self.random.random(), self.load
        if chosen < 0.3 and load.cleans:
            replica = self._some_replica(self.random.choice(COMPACTED))
            replica.clean(0.5, self.random)
        elif chosen < 0.5 and load.deletes:
            part = self.partitions[self.random.choice(DATA)]
            part.log.start = max(part.log.start, part.log.high_watermark - 3)
            for replica in part.replicas.values():
                if self.random.random() < 0.7 and replica.end >= part.log.start:
                    replica.start = max(replica.start, part.log.start)
                    replica.drop_segments()
        elif chosen < 0.9 and load.moves:
            self._reassign(self.random.choice(ALL))
        elif load.makes_anew:
            self._make_anew()

    def _some_replica(self, partition: TopicPartition) -> Replica:
        replicas = self.partitions[partition].replicas
        return replicas[self.random.choice(list(replicas))]

    def _reassign(self, partition: TopicPartition) -> None:
        """Begin to move a replica to the free node, or end that once the new replica is in sync."""
        part = self.partitions[partition]
        if part.adding is None:
            [new] = [node for node in NODES if node not in part.replicas]
            part.removed.pop(new, None)
            part.replicas[new], part.adding = Replica(), new
            changed = {"replicas": sorted(part.replicas), "addingReplicas": [new]}
        elif part.adding in part.isr:
            old = self.random.choice([each for each in part.replicas if each != part.adding])
            if old == part.leader:
                part.elect(part.adding)
            part.isr.discard(old)
            part.removed[old] = part.replicas.pop(old)
            part.adding = None
            part.advance()
            changed = {"replicas": sorted(part.replicas), "addingReplicas": []}
        else:
            return
        number, topic_id = partition.partition, part.topic_id
        self._note("PARTITION_CHANGE_RECORD", partitionId=number, topicId=topic_id, **changed)

    def _make_anew(self) -> None:
        """Delete a topic and make it again; some nodes do not know that yet."""
        part = self.partitions[MADE_ANEW]
        for node, replica in part.replicas.items():
            live = self.random.random() < 0.4
            self.old_folders[node].append(OldFolder(MADE_ANEW, part.topic_id, replica, live))
        self._note("REMOVE_TOPIC_RECORD", topicId=part.topic_id)
        self._make_topic(MADE_ANEW.topic)
        for each in self.transactions:
            gone = [value for value, where in each.values.items() if where == MADE_ANEW]
            for value in gone:
                del each.values[value]

    def _value(self) -> bytes:
        self._number += 1
        return b"value-%06d" % self._number

    def _append(
        self,
        partition: TopicPartition,
        value: bytes | None,
        key: bytes | None = None,
        **producer: int,
    ) -> bytes:
        """Append a record on the leader; return its batch."""
        part = self.partitions[partition]
        made = records_of(
            SimpleRecord(key, value, self._clock),
            base_offset=part.log.end,
            partition_leader_epoch=part.epoch,
            is_transactional=bool(producer),
            **producer,
        )
        data = bytes(made.buffer)
        kept_key = None if producer else key  # compaction leaves transactional records alone here
        part.log.append(Entry(part.log.end, part.epoch, data, kept_key, value))
        return data

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
        partitions = self.random.sample((*DATA, GROUPS), self.random.randint(1, 3))
        self._state(producer, epoch, ONGOING, partitions, started)
        yield
        for sequence, partition in enumerate(partitions):
            value = self._offset_value(0) if partition == GROUPS else self._value()
            made.values[value] = partition
            self._write(partition, value, producer, epoch, sequence)
            yield
        for sequence, (value, partition) in enumerate(made.values.items()):
            part = self.partitions[partition]
            if all(entry.value != value for entry in part.log.entries):  # lost by an election
                self._write(partition, value, producer, epoch, sequence)
            part.settle()
        commits = self.random.random() < 0.7
        end_epoch = epoch + 1 if self.load.bumps else epoch
        status = PREPARE_COMMIT if commits else PREPARE_ABORT
        proof = self._state(producer, end_epoch, status, partitions, started)
        made.answer, made.proofs = commits, [proof]
        self._epochs[producer] = end_epoch
        yield
        markers = {}
        for partition in partitions:
            markers[partition] = self._mark(partition, producer, end_epoch, commits=commits)
            yield
        for partition, marker in markers.items():
            if all(each.data != marker for each in self.partitions[partition].log.entries):
                markers[partition] = self._mark(partition, producer, end_epoch, commits=commits)
            self.partitions[partition].settle()
        made.proofs += markers.values()
        status = COMPLETE_COMMIT if commits else COMPLETE_ABORT
        made.proofs.append(self._state(producer, end_epoch, status, [], started))
        yield

    def _write(
        self, partition: TopicPartition, value: bytes, producer: int, epoch: int, sequence: int
    ) -> None:
        key = self._offset_key(DATA[0]) if partition == GROUPS else None
        who = {"producer_id": producer, "producer_epoch": epoch}
        self._append(partition, value, key, base_sequence=sequence, **who)

    def _mark(
        self, partition: TopicPartition, producer: int, epoch: int, *, commits: bool
    ) -> bytes:
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
        data = bytes(made.buffer)
        part.log.append(Entry(part.log.end, part.epoch, data, None, None, is_marker=True))
        return data

    def _state(
        self,
        producer: int,
        epoch: int,
        status: int,
        partitions: Sequence[TopicPartition],
        started: int,
    ) -> bytes:
        """Append a record of a transaction's coordinator, and wait until it is replicated."""
        topics = [{"topic": each.topic, "partitionIds": [each.partition]} for each in partitions]
        fields = {
            "producerId": producer,
            "producerEpoch": epoch,
            "transactionTimeoutMs": 60_000,
            "transactionStatus": status,
            "transactionPartitions": topics,
            "transactionLastUpdateTimestampMs": self._clock,
            "transactionStartTimestampMs": started,
            "clientTransactionVersion": 2 if self.load.bumps else 0,
        }
        key = TRANSACTION_KEY.write({"transactionalId": f"tid-{producer}"}, b"\0\0")
        data = self._append(COORDINATOR, TRANSACTION_VALUE.write(fields, b"\0\1"), key)
        self.partitions[COORDINATOR].settle()
        return data

    # Groups

    def _commit_offset(self) -> None:
        partition = self.random.choice(DATA[1:])
        offset = self.partitions[partition].log.high_watermark
        value = self._offset_value(offset)
        self._append(GROUPS, value, self._offset_key(partition))
        self.partitions[GROUPS].settle()
        self.commits[value] = partition, offset

    def _offset_key(self, partition: TopicPartition) -> bytes:
        fields = {"group": GROUP, "topic": partition.topic, "partition": partition.partition}
        return OFFSET_KEY.write_key(fields, 1)

    def _offset_value(self, offset: int) -> bytes:
        self._number += 1
        metadata, fields = (
            f"commit {self._number}",
            {"leaderEpoch": -1, "commitTimestamp": self._clock},
        )
        return OFFSET_VALUE.write({"offset": offset, "metadata": metadata, **fields}, b"\0\3")
