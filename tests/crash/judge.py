"""What is wrong with a log that was loaded after a crash."""

from __future__ import annotations

import logging
import shutil
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import DISK, Disk
from engine.record.control_records import ControlRecordType, end_marker_of
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from engine.units import MAX_INT64
from engine.writing.log_config import LogConfig
from tests.crash.driver import CONFIG, Batch, Promise, batches_in, open_log
from tests.crash.recording import Recording, State, materialize


@contextmanager
def quiet() -> Iterator[None]:
    """No log lines: damage is what these tests are about."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def promise_at(recording: Recording, crash: int) -> Promise:
    """What is promised when the call number `crash` does not take place."""
    promises = [each for each in recording.marks_before(crash) if isinstance(each, Promise)]
    return promises[-1] if promises else Promise(0, 0, ([],))


def judge_state(
    state: State, promise: Promise, work: Path, config: LogConfig = CONFIG
) -> list[str]:
    """Make a state, load it, and say which promises do not hold; `work` is left empty."""
    root = work / "state"
    materialize(state.tree, root)
    try:
        return judge_folder(root, promise, config)
    finally:
        shutil.rmtree(root)


def judge_folder(root: Path, promise: Promise, config: LogConfig = CONFIG) -> list[str]:
    """Load a log dir, twice, and say which promises do not hold."""
    with quiet():
        try:
            wrong, loaded = _load(root, promise, config)
            again, reloaded = _load(root, promise, config)
        except Exception:  # noqa: BLE001  that is what is looked for
            return [traceback.format_exc()]
    if loaded != reloaded:
        wrong.append(f"loaded again it has {brief(reloaded)} for {brief(loaded)}")
    return wrong or again


def _load(root: Path, promise: Promise, config: LogConfig) -> tuple[list[str], list[Batch]]:
    opened = open_log(root, DISK, config)
    log = opened.log
    try:
        loaded = batches_in(log)
        wrong = judge_records(log, loaded, promise)
        if not wrong:
            wrong = [
                *judge_look_ups(log, promise),
                *judge_state_of(log, promise),
                *judge_files(log),
            ]
        if not wrong:
            end = log.log_end_offset
            wrong = judge_append(log)
            log.truncate_to(end)
        return wrong, loaded
    finally:
        log.close()


def brief(batches: list[Batch]) -> str:
    return ", ".join(f"{batch.base_offset}-{batch.last_offset}" for batch in batches) or "nothing"


def judge_records(log: UnifiedLog, loaded: list[Batch], promise: Promise) -> list[str]:
    """Whether nothing flushed is lost, and what is there is one piece of what was written."""
    wrong = []
    end = loaded[-1].last_offset + 1 if loaded else log.log_start_offset
    if log.log_end_offset != end and log.log_end_offset not in promise.ends:
        wrong.append(f"the log end is {log.log_end_offset}, the last record's is {end}")
    if end < promise.stable:
        wrong.append(f"flushed up to {promise.stable}, and there are {brief(loaded)}")
    if log.log_start_offset > promise.start:
        wrong.append(f"the log start is {log.log_start_offset}, above {promise.start}")
    if loaded and loaded[0].base_offset > log.log_start_offset:
        wrong.append(f"the log starts at {log.log_start_offset}, with {loaded[0].base_offset}")
    kept = [batch for batch in loaded if batch.last_offset >= promise.start]
    fitting = [
        version
        for version in promise.versions
        if _is_part(kept, version) or (promise.open_ended and _is_part(kept[:-1], version))
    ]
    if not fitting:
        versions = " or ".join(brief(version) for version in promise.versions)
        wrong.append(f"there are {brief(loaded)}, no part of {versions}")
    if promise.exact and loaded not in promise.versions:
        wrong.append(f"there are {brief(loaded)} for {brief(promise.versions[-1])}")
    return wrong


def _is_part(loaded: list[Batch], version: list[Batch]) -> bool:
    if not loaded:
        return True
    starts = [at for at, batch in enumerate(version) if batch == loaded[0]]
    return any(version[at : at + len(loaded)] == loaded for at in starts)


def judge_look_ups(log: UnifiedLog, promise: Promise) -> list[str]:
    """Whether the indexes lead to the records."""
    wrong = []
    start = max(log.log_start_offset, promise.start)
    batches = [batch for segment in log.segments for batch in segment.log.batches()]
    for batch in batches[:: max(len(batches) // 6, 1)] + batches[-2:]:
        if batch.last_offset < start:
            continue
        offset = max(batch.base_offset, start)
        found = next(iter(log.read(offset, 1).records.batches()), None)
        if found is None or found.base_offset != batch.base_offset:
            wrong.append(f"offset {offset} leads to {found and found.base_offset}")
        target = batch.max_timestamp
        expected = min(
            record.offset
            for each in batches
            if each.max_timestamp >= target
            for record in each.records()
            if record.timestamp >= target and record.offset >= log.log_start_offset
        )
        timed = log.fetch_offset_by_timestamp(target)
        if timed is None or timed.offset != expected:
            wrong.append(f"time {target} leads to {timed}, not to {expected}")
    return wrong


def judge_state_of(log: UnifiedLog, promise: Promise) -> list[str]:
    """Whether epochs, producers and transactions are those that the batches have."""
    wrong = []
    start = max(log.log_start_offset, promise.start)
    begun: dict[int, int] = {}
    aborted = []
    last: dict[int, RecordBatch] = {}
    for segment in log.segments:
        for batch in segment.log.batches():
            if (
                log.leader_epoch_cache.epoch_for_offset(batch.base_offset) != batch.leader_epoch
                and batch.base_offset >= start
            ):
                wrong.append(f"the epoch of {batch.base_offset} is not {batch.leader_epoch}")
            if batch.is_control:
                kind = end_marker_of(next(iter(batch.records()))).type
                first = begun.pop(batch.producer_id, None)
                if kind is ControlRecordType.ABORT and first is not None:
                    aborted.append((batch.producer_id, first, batch.last_offset))
            elif batch.producer_id >= 0:
                last[batch.producer_id] = batch
                if batch.is_transactional:
                    begun.setdefault(batch.producer_id, batch.base_offset)
    known = log.producer_state.active_producers
    for producer, batch in last.items():
        entry = known.get(producer)
        if batch.base_offset >= start and (
            entry is None or entry.last_sequence != batch.last_sequence
        ):
            wrong.append(f"producer {producer} ended with {batch.last_sequence}, not {entry}")
    known_aborted = {
        (each.producer_id, each.last_offset): each.first_offset
        for segment in log.segments
        for each in segment.txn_index.all_aborted_txns()
    }
    for producer, first_seen, end in aborted:  # it may have begun in a segment that is gone
        if end >= start and known_aborted.get((producer, end), MAX_INT64) > max(first_seen, start):
            wrong.append(f"not in the index: {producer} aborted {first_seen} to {end}")
    ended = {(producer, end) for producer, _, end in aborted}
    if {each for each in known_aborted if each[1] >= start} - ended:
        wrong.append(f"never aborted: {known_aborted}, but {aborted}")
    log.update_high_watermark(log.log_end_offset)
    stable = min([log.log_end_offset, *begun.values()])
    is_whole = log.segments[0].base_offset == 0
    if stable >= start and not (
        log.last_stable_offset == stable
        or (log.last_stable_offset < stable and begun and not is_whole)
    ):
        wrong.append(f"the last stable offset is {log.last_stable_offset}, not {stable}")
    return wrong


def judge_files(log: UnifiedLog) -> list[str]:
    """Whether nothing is left over."""
    suffixes = (".cleaned", ".swap", ".part")
    return [f"{name} is left over" for name in DISK.list(log.folder) if name.endswith(suffixes)]


def judge_append(log: UnifiedLog) -> list[str]:
    """Whether the log can be appended to."""
    end = log.log_end_offset
    epoch = log.leader_epoch_cache.latest_epoch or 0
    info = log.append_as_leader(
        records_of(SimpleRecord(b"k", b"after", log.log_folder.clock.now_ms())), epoch
    )
    assert isinstance(info.first_offset, int)
    found = log.read(end, 1).records
    assert isinstance(found, MemoryRecords) or found.size
    return [] if info.first_offset == end else [f"appended at {info.first_offset}, not at {end}"]


__all__ = ["Disk", "judge_folder", "judge_state", "promise_at", "quiet"]
