"""A leader takes, changes and refuses the records that Kafka's LogValidator does, with the same counts and places."""

from __future__ import annotations

import base64
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from engine.broker.append.log_validator import LogValidator
from engine.broker.append.validation_result import OffsetCounter, ValidationMetrics
from engine.coding.compression import Compression, CompressionType
from engine.errors import KafkaStorageError, RecordValidationError
from engine.record.attributes import TimestampType
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT64, TopicPartition
from engine.writing.state.append_origin import AppendOrigin
from tests import builders
from tests.builders import CODECS, Producer, Rec
from tests.clocks import MockClock
from tests.kafka.conftest import SEED
from tests.kafka.judge import Judge
from tests.log_scripts import START as NOW, encoded, failure

ROUNDS = int(os.environ.get("KAFKAFS_JUDGED_SCRIPTS") or 40)
IN_A_ROUND = 40
NONE = CompressionType.NONE
ACCIDENTS = ("IllegalArgumentException", "UnsupportedOperationException")
"""What Kafka stumbles over before it comes to a refusal of its own."""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as running:
        yield running


class Append:
    """An append that nobody thought of, to be validated."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        rng = self.random
        self.magic = rng.choice([0, 1, 2, 2, 2])
        self.codec = rng.choice([codec for codec in CODECS if self.magic == 2 or codec != 4])
        self.compact = rng.random() < 0.2
        self.data = b"".join(self._batch() for _ in range(rng.choice([1, 1, 1, 1, 1, 2])))
        self.is_spoilt = rng.random() < 0.25
        if self.is_spoilt:
            self.data = self._spoilt(self.data)
        self.asked = {
            "data": encoded(self.data),
            "offset": rng.choice([0, 1234567]),
            "now_ms": NOW,
            "source": self.codec.name.lower(),
            "target": rng.choice([self.codec, self.codec, NONE, *CODECS]).name.lower(),
            "compact": self.compact,
            "to_magic": rng.choice([self.magic, 2, 2, 0, 1]),
            "timestamp_type": rng.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
            "before_ms": rng.choice([1000, MAX_INT64]),
            "after_ms": rng.choice([1000, 3_600_000]),
            "epoch": rng.choice([-1, 7]),
            "origin": rng.choice(["CLIENT", "CLIENT", "CLIENT", "COORDINATOR"]),
        }
        if self.asked["to_magic"] < 2 and self.asked["target"] == "zstd":
            self.asked["target"] = "gzip"

    def _records(self) -> list[Rec]:
        rng = self.random
        times = [NOW, NOW, NOW + 1, NOW - 900] + (
            [-1, NOW - 1001, NOW + 1001] * (rng.random() < 0.3)
        )
        keyless = 0.1 if self.compact else 0.4
        return [
            Rec(
                rng.choice([None, b"", b"value", bytes(200)]),
                None if rng.random() < keyless else b"key",
                rng.choice(times),
                [(b"h", b"v")] if self.magic == 2 and rng.random() < 0.1 else (),
            )
            for _ in range(rng.choice([1, 1, 2, 5]))
        ]

    def _batch(self) -> bytes:
        rng = self.random
        base = rng.choice([0, 0, 0, 0, 50])
        kind = builders.LOG_APPEND_TIME if rng.random() < 0.1 else builders.CREATE_TIME
        if self.magic < 2:
            records = [each._replace(headers=()) for each in self._records()]
            return builders.message_set(
                records,
                base,
                self.codec,
                magic=self.magic,
                timestamp_type=kind,
                log_append_time=NOW - 5,
            )
        producer = builders.NO_PRODUCER
        if rng.random() < 0.3:
            producer = Producer(id=9, epoch=0, sequence=rng.choice([0, 5, 2**31 - 1, -1]))
        if rng.random() < 0.08:
            return builders.end_marker(base, Producer(id=9), commit=True, timestamp=NOW)
        odd = {"last_offset_delta": rng.choice([0, 3])} if rng.random() < 0.1 else {}
        return builders.batch(
            self._records(),
            base,
            self.codec,
            producer=producer,
            transactional=producer.id > 0 and rng.random() < 0.5,
            timestamp_type=kind,
            log_append_time=NOW - 5,
            **odd,
        )

    def _spoilt(self, data: bytes) -> bytes:
        """A byte of the records changed: the batch's own checksum is of no matter here."""
        changed = bytearray(data)
        start = 61 if self.magic == 2 else 26
        if len(changed) > start:
            changed[self.random.randrange(start, len(changed))] ^= 1 << self.random.randrange(8)
        return bytes(changed)

    def ours(self) -> dict[str, Any]:
        """What our validator says, in the judge's words."""
        asked, metrics = self.asked, ValidationMetrics()
        counter = OffsetCounter(asked["offset"])
        kind = TimestampType.CREATE_TIME
        if asked["timestamp_type"] == "LogAppendTime":
            kind = TimestampType.LOG_APPEND_TIME
        validator = LogValidator(
            MemoryRecords(self.data),
            TopicPartition("topic", 0),
            MockClock(NOW),
            self.codec,
            Compression(CompressionType[asked["target"].upper()]),
            asked["compact"],
            asked["to_magic"],
            kind,
            asked["before_ms"],
            asked["after_ms"],
            asked["epoch"],
            AppendOrigin[asked["origin"]],
        )
        answer: dict[str, Any] = {}
        try:
            result = validator.validate(counter, metrics)
        except RecordValidationError as error:
            answer["refused"] = failure(error.__cause__ or error)["error"]
            answer["places"] = [place for place, _ in error.batch_index_errors]
        except (KafkaStorageError, ValueError) as error:
            answer["refused"] = failure(error)["error"]
        else:
            answer = {
                "data": encoded(bytes(result.records.buffer)),
                "next_offset": counter.value,
                "max_timestamp": result.max_timestamp_ms,
                "changed": result.message_size_maybe_changed,
                "converted": result.conversion_stats.records_converted,
                "memory": result.conversion_stats.temporary_memory_bytes,
            }
        counts = metrics
        answer["metrics"] = [
            counts.invalid_magic,
            counts.invalid_offset,
            counts.invalid_sequence,
            counts.invalid_checksums,
            counts.no_key_compacted_topic,
        ]
        return answer


def comparable(answer: dict[str, Any], *, is_recompressed: bool) -> dict[str, Any]:
    """Codecs' libraries differ in what they make of the same bytes: then headers and records count."""
    found = {key: value for key, value in answer.items() if key != "message"}
    if is_recompressed and "data" in found:
        records = MemoryRecords(base64.b64decode(found.pop("data")))
        batches = list(records.batches())
        found["records"] = list(records.records())
        found["batches"] = [
            (batch.magic, batch.base_offset, batch.last_offset, batch.attributes)
            for batch in batches
        ]
        found["producers"] = [
            (batch.producer_id, batch.base_sequence, batch.leader_epoch, batch.max_timestamp)
            for batch in batches
        ]
    return found


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
def test_the_same_records_are_taken_changed_and_refused(judge: Judge, seed: int) -> None:
    for number in range(IN_A_ROUND):
        append = Append(f"{seed} {number}")
        kafkas, ours = judge.ask("validate", **append.asked), append.ours()
        if append.is_spoilt and "refused" in ours:
            continue  # Kafka does not look into keys and values that it need not write anew
        if append.is_spoilt and append.codec and kafkas.get("refused") == "KafkaException":
            continue  # releases of a codec's library differ in what they notice
        if append.is_spoilt and kafkas.get("refused") == "OutOfMemoryError":
            continue  # Kafka makes room for the size that a message states before it reads the message
        if kafkas.get("refused") in ACCIDENTS:
            assert "refused" in ours, append.asked
            continue
        is_recompressed = bool(kafkas.get("changed")) and append.asked["target"] != "none"
        assert comparable(ours, is_recompressed=is_recompressed) == comparable(
            kafkas, is_recompressed=is_recompressed
        ), append.asked
