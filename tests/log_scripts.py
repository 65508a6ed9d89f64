"""Scripts of calls to a log, run by our engine: the same ones Kafka's classes run in tests/kafka/judge.

A script is JSON:

    {"config": {Kafka's topic properties}, "now_ms": 1700000000000, "topic_id": null, "clean": true,
     "log_start": 0, "recovery_point": 0, "steps": [step, ...]}

A step is {"call": name, ...}: append_as_leader (data, epoch, origin), append_as_follower (data, epoch),
sleep (ms), roll, flush, high_watermark (offset), delete_records (offset), delete_old_segments, truncate_to
(offset), truncate_fully (offset, log_start), assign_epoch (epoch, offset), take_snapshot, clean (offset: the first that is dirty),
reopen (clean). `data` is batches in base64. The clock stands still but for sleep.

What comes of it: an answer for each step ({"error": Kafka's name of it} where it was refused), the state at
the end, and what the closed log's files are.
"""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.broker.append.log_append_info import LogAppendInfo
from engine.broker.cleaning.cleaner import Cleaner
from engine.broker.cleaning.log_to_clean import LogToClean
from engine.broker.cleaning.throttler import Throttler
from engine.broker.log.unified_log import UnifiedLog
from engine.index.offset_map import HashedOffsetMap
from engine.log.segment.fetch import FetchIsolation
from engine.record.control_records import ControlRecordType, parse_control_key
from engine.record.memory_records import MemoryRecords
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.writing.log_config import LogConfig
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.producer_state_manager import ProducerStateManagerConfig
from tests.clocks import MockClock, MockScheduler

START = 1_700_000_000_000
FETCH = 1 << 20
_NAMES = {
    "ValueError": "IllegalArgumentException",
    "StateError": "IllegalStateException",
    "InvalidOffsetError": "IllegalArgumentException",
    "UnexpectedAppendOffsetError": "UnexpectedAppendOffsetException",
    "OffsetsOutOfOrderError": "OffsetsOutOfOrderException",
}
Answer = dict[str, Any]


def encoded(*batches: bytes) -> str:
    """Batches as a step has them."""
    return base64.b64encode(b"".join(batches)).decode()


def failure(error: Exception) -> Answer:
    """An error by Kafka's name."""
    name = type(error).__name__
    return {"error": _NAMES.get(name, name.removesuffix("Error") + "Exception")}


def files_in(folder: Path) -> dict[str, list[Any]]:
    """Size and SHA-256 of each file, by name."""
    return {
        path.name: [len(data), hashlib.sha256(data).hexdigest()]
        for path in sorted(folder.iterdir())
        if path.is_file()
        for data in [path.read_bytes()]
    }


def state_of(log: UnifiedLog) -> Answer:
    """What a log knows of itself, in lists as JSON has them."""
    producers = log.producer_state.active_producers
    aborted = log.collect_aborted_transactions(log.log_start_offset, log.log_end_offset)
    return {
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "recovery_point": log.recovery_point,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "first_unstable_offset": log.watermarks.first_unstable_offset,
        "segments": [segment.base_offset for segment in log.segments],
        "epochs": [list(entry) for entry in log.leader_epoch_cache.epoch_entries],
        "producers": [_producer(producers[producer]) for producer in sorted(producers)],
        "aborted": [
            [txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset]
            for txn in aborted
        ],
    }


def _producer(entry: Any) -> list[Any]:
    first = entry.current_txn_first_offset
    return [
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        -1 if first is None else first,
        [list(batch) for batch in entry.batches],
    ]


class ScriptRun:
    """A script on its way through our engine.

    Args:
        folder: of the partition; made if it is not there.
        script: its head; steps come through `do`.
    """

    def __init__(self, folder: Path, script: Answer) -> None:
        self.folder = folder
        self.clock = MockClock(script.get("now_ms", START))
        self.config = LogConfig.from_properties(script["config"])
        self.topic_id = script.get("topic_id")
        self.log = self._open(
            script.get("log_start", 0),
            script.get("recovery_point", 0),
            clean=script.get("clean", True),
        )

    def _open(self, log_start: int, recovery_point: int, *, clean: bool) -> UnifiedLog:
        self.clock.listeners.clear()
        return UnifiedLog.create(
            self.folder,
            self.config,
            MockScheduler(self.clock),
            log_start_offset=log_start,
            recovery_point=recovery_point,
            clock=self.clock,
            max_transaction_timeout_ms=300_000,
            producer_state_config=ProducerStateManagerConfig(86_400_000),
            producer_id_expiration_check_interval_ms=600_000,
            last_shutdown_clean=clean,
            topic_id=self.topic_id,
        )

    def do(self, step: Answer) -> Any:
        """One step's answer."""
        try:
            return getattr(self, "_" + step["call"])(step)
        except Exception as error:
            if type(error).__name__ in (
                "AssertionError",
                "AttributeError",
                "TypeError",
                "KeyError",
            ):
                raise
            return failure(error)

    def finish(self) -> Answer:
        """State and files at the end."""
        state = state_of(self.log)
        self.log.close()
        return {"state": state, "files": files_in(self.folder)}

    def _append_as_leader(self, step: Answer) -> list[int]:
        origin = AppendOrigin[step.get("origin", "CLIENT")]
        version = step.get("transaction_version", 0)
        records = MemoryRecords(base64.b64decode(step["data"]))
        return _info(
            self.log.append_as_leader(
                records, step.get("epoch", 0), origin, transaction_version=version
            )
        )

    def _append_as_follower(self, step: Answer) -> list[int]:
        records = MemoryRecords(base64.b64decode(step["data"]))
        return _info(self.log.append_as_follower(records, step.get("epoch", 0)))

    def _sleep(self, step: Answer) -> None:
        self.clock.sleep(step["ms"])

    def _roll(self, step: Answer) -> None:
        self.log.roll()

    def _flush(self, step: Answer) -> None:
        self.log.flush(force_active_segment=True)

    def _high_watermark(self, step: Answer) -> int:
        return self.log.update_high_watermark(step["offset"])

    def _delete_records(self, step: Answer) -> bool:
        return self.log.maybe_increment_log_start_offset(step["offset"], "records were deleted")

    def _delete_old_segments(self, step: Answer) -> int:
        return self.log.delete_old_segments()

    def _truncate_to(self, step: Answer) -> bool:
        return self.log.truncate_to(step["offset"])

    def _truncate_fully(self, step: Answer) -> None:
        self.log.truncate_fully_and_start_at(step["offset"], step.get("log_start"))

    def _assign_epoch(self, step: Answer) -> None:
        self.log.leader_epoch_cache.assign(step["epoch"], step["offset"])

    def _take_snapshot(self, step: Answer) -> None:
        self.log.producer_state.take_snapshot()

    def _clean(self, step: Answer) -> int:
        cleaner = Cleaner(
            HashedOffsetMap(step.get("map_bytes", 1 << 20)),
            self.clock,
            io_buffer_size=step.get("buffer", 1 << 16),
            load_factor=0.75,
            throttler=Throttler(math.inf, self.clock),
            check_done=lambda _: None,
        )
        end = min(self.log.last_stable_offset, self.log.active_segment.base_offset)
        return cleaner.clean(LogToClean.of(self.log, step["offset"], end))[0]

    def _reopen(self, step: Answer) -> None:
        before = self.log
        clean = step.get("clean", True)
        if clean:
            before.close()
        self.log = self._open(
            step.get("log_start", before.log_start_offset),
            step.get("recovery_point", before.recovery_point),
            clean=clean,
        )
        if not clean:
            before.close_handlers()


def _info(info: LogAppendInfo) -> list[int]:
    return [info.first_offset, info.last_offset, info.max_timestamp, info.log_append_time]


def run(folder: Path, script: Answer) -> Answer:
    """A script from its begin to its end."""
    running = ScriptRun(folder, script)
    steps = [running.do(step) for step in script["steps"]]
    return {"steps": steps, **running.finish()}


def load(folder: Path, head: Answer, reads: Sequence[tuple[int, str]] = ()) -> Answer:
    """What our engine makes of a folder, which it changes: see `tests.kafka.judge.Judge.load`."""
    loaded = ScriptRun(folder, head)
    state = state_of(loaded.log)
    if reads:
        loaded.log.update_high_watermark(loaded.log.log_end_offset)
    served = [served_from(loaded.log, start, isolation) for start, isolation in reads]
    loaded.log.close()
    return {"state": state, "reads": served, "files": files_in(folder)}


def served_from(log: UnifiedLog, start: int, isolation: str) -> list[list[Any]]:
    """What a consumer gets: offset, timestamp, CRC-32 of key and of value (None for null) of each record."""
    records: list[list[Any]] = []
    offset = start
    while offset < log.log_end_offset:
        fetched = log.read(offset, FETCH, FetchIsolation[isolation])
        aborted = sorted(fetched.aborted_transactions or [], key=lambda txn: -txn.first_offset)
        still_open: set[int] = set()
        before = offset
        for batch in fetched.records.batches():
            while aborted and aborted[-1].first_offset <= batch.last_offset:
                still_open.add(aborted.pop().producer_id)
            offset = batch.next_offset
            if batch.is_control:
                if control_type_of(batch) is ControlRecordType.ABORT:
                    still_open.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in still_open):
                records += [_facts(record) for record in batch.records() if record.offset >= start]
        if offset == before:
            break
    return records


def control_type_of(batch: RecordBatch) -> ControlRecordType | None:
    """None for a batch that a cleaner has emptied."""
    for record in batch.records():
        return parse_control_key(record.key).type
    return None


def _facts(record: Record) -> list[Any]:
    key, value = record.key, record.value
    return [
        record.offset,
        record.timestamp,
        None if key is None else zlib.crc32(key),
        None if value is None else zlib.crc32(value),
    ]


def without_messages(answer: Answer) -> Answer:
    """The words of errors are each side's own."""

    def plain(step: Any) -> Any:
        return {"error": step["error"]} if isinstance(step, dict) else step

    return {**answer, "steps": [plain(step) for step in answer.get("steps", [])]}


def without_empty_indexes(answer: Answer) -> Answer:
    """From 4.4 on Kafka makes the indexes of an empty active segment when it closes it; we do not make them."""
    if "files" not in answer:
        return answer
    kept = {
        name: each
        for name, each in answer["files"].items()
        if each[0] or not name.endswith((".index", ".timeindex"))
    }
    return {**answer, "files": kept}
