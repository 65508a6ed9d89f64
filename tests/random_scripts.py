"""Scripts of `tests.log_scripts` that nobody thought of: each step is chosen by what the log looks like then."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.coding.compression import CompressionType
from tests.builders import Producer, Rec, batch, end_marker
from tests.log_scripts import START, Answer, ScriptRun, encoded

PRODUCERS = (1, 2, 3, 20, 33, 1_000_000_000_000)
CODECS = (CompressionType.NONE,) * 6 + tuple(CompressionType)


class RandomScript:
    """A script, made while our engine runs it.

    Args:
        seed: the same gives the same script.
        folder: of the partition, for our engine.
        steps: how many.
        config: topic properties beside the random ones.
        one_leader: neither leaders change nor are there gaps between a follower's batches.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        steps: int,
        config: dict[str, str] | None = None,
        *,
        one_leader: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self._several = not one_leader
        self.script: Answer = {
            "config": self._config() | (config or {}),
            "now_ms": START,
            "topic_id": self.random.choice([None, "cmVjb3JkcyBvZiBsb2dzIQ"]),
            "steps": [],
        }
        self.is_compacted = "compact" in self.script["config"]["cleanup.policy"]
        self.epoch = self.random.randrange(3) * self._several
        self._cleaned = 0
        self._running = ScriptRun(folder, self.script)
        self.answers: list[Any] = []
        while len(self.answers) < steps and not self.is_over:
            self.answers.append(self._step())

    @property
    def is_over(self) -> bool:
        """Whether the log dir is offline, or the log could not be opened again.

        Then the log before it has lost its files to the attempt.
        """
        last = self.answers[-1] if self.answers else None
        is_error = isinstance(last, dict) and "error" in last
        was_reopened = bool(self.answers) and self.script["steps"][-1]["call"] == "reopen"
        return is_error and (was_reopened or last == {"error": "KafkaStorageException"})

    def finish(self) -> Answer:
        """Close the log: what our engine says, as `tests.log_scripts.run` gives it."""
        return {"steps": self.answers, **self._running.finish()}

    def _config(self) -> dict[str, str]:
        pick = self.random.choice
        return {
            "internal.segment.bytes": pick(["400", "1000", "4000", "1000000"]),
            "index.interval.bytes": pick(["0", "100", "1000", "4096"]),
            "segment.index.bytes": pick(["100", "1000", "10485760"]),
            "segment.ms": pick(["20000", "604800000"]),
            "retention.ms": pick(["60000", "604800000", "-1"]),
            "retention.bytes": pick(["-1", "3000"]),
            "message.timestamp.type": pick(["CreateTime", "CreateTime", "LogAppendTime"]),
            "file.delete.delay.ms": pick(["0", "1000", "60000"]),
            "flush.messages": pick(["1", "20", "9223372036854775807"]),
            "cleanup.policy": pick(["delete", "delete", "compact", "compact,delete"]),
            "delete.retention.ms": pick(["0", "40000", "86400000"]),
            "preallocate": pick(["false", "false", "true"]),
        }

    def _step(self) -> Any:
        kinds: dict[Callable[[], Answer], int] = {
            self._append: 30,
            self._append_idempotent: 12,
            self._append_transactional: 18,
            self._end_transaction: 14,
            self._append_as_follower: 12,
            self._sleep: 8,
            self._high_watermark: 10,
            self._delete_records: 4,
            self._truncate_to: 3,
            self._truncate_fully: 1,
            self._reopen: 4,
            self._assign_epoch: 1,
            self._plain_call: 12,
            self._clean: 8 if self.is_compacted else 0,
        }
        (kind,) = self.random.choices(list(kinds), list(kinds.values()))
        step = kind()
        self.script["steps"].append(step)
        return self._running.do(step)

    @property
    def head(self) -> Answer:
        """How to open the log again as it is now."""
        log = self._log
        return {
            "config": self.script["config"],
            "now_ms": self._now,
            "log_start": log.log_start_offset,
            "recovery_point": log.recovery_point,
        }

    @property
    def _log(self) -> Any:
        return self._running.log

    @property
    def _now(self) -> int:
        return self._running.clock.ms

    def _records(self) -> list[Rec]:
        rng = self.random
        keyless = 0.01 if self.is_compacted else 0.3
        return [
            Rec(
                None if rng.random() < 0.1 else rng.randbytes(rng.choice([0, 5, 30, 150])),
                None if rng.random() < keyless else b"key%d" % rng.randrange(8),
                self._now + rng.choice([0, 0, -1, 1, -3000, 3000]) if rng.random() < 0.95 else -1,
                [(b"name", rng.choice([None, b"", b"text"]))] if rng.random() < 0.2 else (),
            )
            for _ in range(rng.choice([1, 1, 2, 3, 8]))
        ]

    def _leader_step(self, data: bytes, origin: str = "CLIENT") -> Answer:
        if self.random.random() < 0.05:
            self.epoch += self._several
        return {
            "call": "append_as_leader",
            "data": encoded(data),
            "epoch": self.epoch,
            "origin": origin,
        }

    def _append(self) -> Answer:
        # A cleaner compresses anew, and codecs' libraries differ in what they make of the same bytes.
        codec = CODECS[0] if self.is_compacted else self.random.choice(CODECS)
        return self._leader_step(batch(self._records(), 0, codec))

    def _producer(self) -> Producer:
        """With the sequence that comes next, and now and then another or another epoch."""
        rng = self.random
        producer_id = rng.choice(PRODUCERS)
        entry = self._log.producer_state.last_entry(producer_id)
        if entry is None or entry.is_empty:
            epoch = 0 if entry is None else max(0, entry.producer_epoch)
            return Producer(id=producer_id, epoch=epoch, sequence=0)
        epoch, sequence = entry.producer_epoch, entry.last_sequence + 1
        luck = rng.random()
        if luck < 0.05:
            return Producer(id=producer_id, epoch=epoch + 1, sequence=0)
        if luck < 0.1:
            return Producer(id=producer_id, epoch=max(0, epoch - 1), sequence=sequence)
        if luck < 0.15:
            return Producer(id=producer_id, epoch=epoch, sequence=sequence + 3)
        if luck < 0.2:
            return Producer(id=producer_id, epoch=epoch, sequence=entry.first_sequence)
        return Producer(id=producer_id, epoch=epoch, sequence=sequence)

    def _append_idempotent(self) -> Answer:
        return self._leader_step(batch(self._records(), producer=self._producer()))

    def _append_transactional(self) -> Answer:
        producer = self._producer()
        return self._leader_step(batch(self._records(), producer=producer, transactional=True))

    def _end_transaction(self) -> Answer:
        rng = self.random
        entries = self._log.producer_state.active_producers
        waiting = [pid for pid, entry in entries.items() if entry.current_txn_first_offset]
        producer_id = rng.choice(waiting or PRODUCERS)
        entry = entries.get(producer_id)
        epoch = 0 if entry is None else max(0, entry.producer_epoch)
        marker = end_marker(
            0,
            Producer(id=producer_id, epoch=max(0, epoch + rng.choice([0, 0, 0, 0, 1, -1]))),
            commit=rng.random() < 0.5,
            coordinator_epoch=rng.choice([0, 0, 0, 1]),
            timestamp=self._now,
        )
        return self._leader_step(marker, "COORDINATOR")

    def _append_as_follower(self) -> Answer:
        rng = self.random
        end = self._log.log_end_offset
        epoch = max(self.epoch, self._log.leader_epoch_cache.latest_epoch or 0)
        data = []
        for _ in range(rng.choice([1, 1, 2])):
            base = end + rng.choice([0, 0, 0, 0, 5]) * self._several
            if rng.random() < 0.03:
                base = max(0, base - 3)
            epoch += self._several and rng.random() < 0.1
            records = self._records()
            data.append(batch(records, base, leader_epoch=epoch))
            end = base + len(records)
        self.epoch = epoch
        return {"call": "append_as_follower", "data": encoded(*data), "epoch": epoch}

    def _sleep(self) -> Answer:
        return {"call": "sleep", "ms": self.random.choice([1, 500, 1000, 30_000, 70_000, 700_000])}

    def _between(self, low: int, high: int) -> int:
        return self.random.randint(low, max(low, high))

    def _high_watermark(self) -> Answer:
        offset = self._between(self._log.high_watermark, self._log.log_end_offset)
        return {"call": "high_watermark", "offset": offset}

    def _delete_records(self) -> Answer:
        offset = self._between(self._log.log_start_offset, self._log.high_watermark + 1)
        return {"call": "delete_records", "offset": offset}

    def _truncate_to(self) -> Answer:
        low = max(self._log.log_start_offset, self._log.log_end_offset - 20)
        return {"call": "truncate_to", "offset": self._between(low, self._log.log_end_offset + 1)}

    def _truncate_fully(self) -> Answer:
        offset = self._log.log_end_offset + self.random.choice([0, 10])
        start = self.random.choice([None, offset, offset + 2])
        return {"call": "truncate_fully", "offset": offset, "log_start": start}

    def _reopen(self) -> Answer:
        step: Answer = {"call": "reopen", "clean": self.random.random() < 0.5}
        if self.random.random() < 0.3:
            step["recovery_point"] = 0
        return step

    def _assign_epoch(self) -> Answer:
        self.epoch += self._several
        return {"call": "assign_epoch", "epoch": self.epoch, "offset": self._log.log_end_offset}

    def _clean(self) -> Answer:
        start = self._log.log_start_offset
        end = min(self._log.last_stable_offset, self._log.active_segment.base_offset)
        if end <= start:
            return {"call": "high_watermark", "offset": self._log.log_end_offset}
        if self._cleaned not in range(start, end) or self.random.random() < 0.3:
            self._cleaned = start
        step = {"call": "clean", "offset": self._cleaned}
        self._cleaned = end
        return step

    def _plain_call(self) -> Answer:
        calls = ["roll", "flush", "delete_old_segments", "delete_old_segments", "take_snapshot"]
        return {"call": self.random.choice(calls)}
