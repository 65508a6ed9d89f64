"""What librdkafka's clients see of a broker: the judge of what the tree must show."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from tests.fixtures_data import TruthRecord

ANSWER_SECONDS = 120
NO_OFFSET = -1
STARTING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
QUIET = {"log_level": 0}  # brokers come and go here


def now() -> int:
    """The time in ms, as brokers and producers take it for retention and timestamps."""
    return time.time_ns() // 1_000_000


def admin(bootstrap: str) -> AdminClient:
    """An admin client."""
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def create_topic(
    bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, object] | None = None
) -> None:
    """Creates a topic and waits until the broker leads its partitions."""
    client = admin(bootstrap)
    texts = {key: str(value) for key, value in (config or {}).items()}
    client.create_topics([NewTopic(name, partitions, 1, config=texts)])[name].result(ANSWER_SECONDS)
    end = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < end:
        topic = client.list_topics(name, timeout=ANSWER_SECONDS).topics.get(name)
        parts = topic.partitions.values() if topic else ()
        if len(parts) == partitions and all(part.leader >= 0 for part in parts):
            return
        time.sleep(0.05)
    raise TimeoutError(f"topic {name} got no leader")


def set_topic_config(bootstrap: str, topic: str, key: str, value: object) -> None:
    """Changes one setting of a topic."""
    entry = ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = admin(bootstrap)  # the answer never comes when the client is gone
    client.incremental_alter_configs([resource])[resource].result(ANSWER_SECONDS)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Deletes a topic; its folders become NAME.<id>-delete."""
    client = admin(bootstrap)
    client.delete_topics([topic])[topic].result(ANSWER_SECONDS)


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    """Moves the log start offset to `before`."""
    client = admin(bootstrap)
    for answer in client.delete_records([TopicPartition(topic, partition, before)]).values():
        answer.result(ANSWER_SECONDS)


def producer(bootstrap: str, **settings: object) -> Producer:
    """A producer; settings with _ for the dots of their names."""
    own = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, **QUIET, **own})


def partitions_of(bootstrap: str) -> list[tuple[str, int]]:
    """Every topic's partitions, internal topics included."""
    topics = admin(bootstrap).list_topics(timeout=ANSWER_SECONDS).topics
    return sorted((name, part) for name, topic in topics.items() for part in topic.partitions)


class Reader:
    """A consumer at one isolation level, without a group."""

    def __init__(self, bootstrap: str, *, committed: bool = False) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                **QUIET,
                "group.id": "kafkafs-tests",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": 9_000_000,
                "fetch.wait.max.ms": 5,  # other requests wait behind a fetch on the same connection
                "fetch.queue.backoff.ms": 5,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The log start offset, and the high watermark or the last stable offset."""
        at = TopicPartition(topic, partition)
        end = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(at, timeout=ANSWER_SECONDS)
                return low, high
            except KafkaException as error:  # a broker that has just started leads nothing yet
                if error.args[0].code() not in STARTING or time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """ListOffsets' answer; NO_OFFSET where no record is that late, None where the format has no times."""
        at = TopicPartition(topic, partition, timestamp)
        try:
            return int(self._consumer.offsets_for_times([at], timeout=ANSWER_SECONDS)[0].offset)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                return None
            raise

    def records(self, topic: str, partition: int) -> list[TruthRecord]:
        """Every record from the log start to the end, in order."""
        self._consumer.assign([TopicPartition(topic, partition, self.bounds(topic, partition)[0])])
        found: list[TruthRecord] = []
        while True:
            message = self._consumer.poll(ANSWER_SECONDS)
            if message is None:
                raise TimeoutError(f"no answer about {topic}-{partition}")
            if message.error() is None:
                found.append(record_of(message))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._consumer.unassign()
                return found
            else:
                raise KafkaException(message.error())

    def offsets_for_times(
        self, topic: str, partition: int, timestamps: Iterable[int]
    ) -> dict[int, int]:
        """ListOffsets' answers, by timestamp."""
        asked = ((stamp, self.offset_for_time(topic, partition, stamp)) for stamp in timestamps)
        return {stamp: offset for stamp, offset in asked if offset is not None}


def probe_times(records: list[TruthRecord]) -> list[int]:
    """Timestamps worth asking for: around the first, the last and some between."""
    stamps = sorted({record.timestamp for record in records})
    if not stamps or stamps[0] < 0:
        return []
    middle = [stamps[len(stamps) * part // 7] + part % 2 for part in range(1, 7)]
    return [max(stamps[0] - 5, 0), stamps[0], *middle, stamps[-1], stamps[-1] + 1]


def record_of(message: Any) -> TruthRecord:
    """The record of a message of librdkafka."""
    kind, stamp = message.timestamp()
    return TruthRecord(
        message.offset(),
        kind,
        stamp if kind else -1,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        -1 if message.leader_epoch() is None else message.leader_epoch(),
    )


class Group:
    """A member of a consumer group that commits offsets, for the internal topics' sake; settings with _ for dots."""

    def __init__(self, bootstrap: str, name: str, **settings: object) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                **QUIET,
                "group.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def metadata(self) -> Any:
        """What a transaction takes to commit offsets for the group."""
        return self._consumer.consumer_group_metadata()

    def read_and_commit(self, topic: str, count: int) -> None:
        """Reads that many records, committing after each tenth."""
        self._consumer.subscribe([topic])
        for index in range(count):
            message = self._consumer.poll(ANSWER_SECONDS)
            if message is not None and message.error() is None and index % 10 == 9:
                self._consumer.commit(message, asynchronous=False)
