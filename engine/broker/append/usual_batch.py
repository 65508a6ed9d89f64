"""Assign offsets to a producer's batch by facts about it, if these show that nothing about it is unusual.

Nearly all batches of producers are so. `LogValidator` does the same with any batches, and names what it refuses.
"""

from __future__ import annotations

from typing import NamedTuple

from engine import kernel
from engine.broker.append.append_analysis import AppendedRun, AppendTerms
from engine.broker.append.validation_result import RecordValidationStats
from engine.budgets import DEFAULT_BUDGETS
from engine.coding.fixed_width import read_int32
from engine.columns.batch_facts import RunFacts
from engine.columns.batch_summary import AppendFacts
from engine.record.attributes import CONTROL_MASK, TIMESTAMP_TYPE_MASK, TimestampType
from engine.record.batch_frame import CURRENT_MAGIC, HEAD, HEADER, LOG_OVERHEAD
from engine.record.encoding.batch_encoding import BATCH_OVERHEAD
from engine.record.memory_records import MemoryRecords
from engine.units import NO_TIMESTAMP, Offset, Timestamp
from engine.writing.log_config import LogConfig

_BASE_SEQUENCE = HEADER.position_of("base_sequence")
_NO_STATS = RecordValidationStats()


class StampedBatch(NamedTuple):
    """A batch with its offsets, in a new buffer.

    Attributes:
        records: the batch.
        run: what the parts of a log need to know of it.
        last_offset: offset of its last record.
        stats: cost of the validation.
    """

    records: MemoryRecords
    run: AppendedRun
    last_offset: Offset
    stats: RecordValidationStats


def stamp(
    records: MemoryRecords,
    facts: RunFacts,
    terms: AppendTerms,
    config: LogConfig,
    offset: Offset,
    now: Timestamp,
) -> StampedBatch | None:
    """Return a batch with offsets from `offset` on and the leader's epoch; None if anything about it is unusual.

    Args:
        records: one batch, and nothing else.
        facts: facts about it.
        terms: terms of the append.
        config: configuration of the log.
        offset: first offset.
        now: time of the leader's clock.
    """
    if not _stays_as_it_is(facts, terms, config):
        return None
    buffer = records.buffer
    found = kernel.record_facts(buffer, budgets=DEFAULT_BUDGETS)
    if found is None or not _are_allowed(found, facts, config, now):
        return None
    if facts.has_producer and read_int32(buffer, _BASE_SEQUENCE) < 0:
        return None
    stamped = bytearray(buffer)
    length = facts.size - LOG_OVERHEAD
    HEAD.pack_into(stamped, 0, offset, length, terms.leader_epoch, CURRENT_MAGIC)
    last_offset = offset + facts.last_offset
    return StampedBatch(
        MemoryRecords(stamped),
        AppendedRun(
            [(last_offset, facts.max_timestamp, facts.size)],
            [(terms.leader_epoch, offset)],
            facts.has_producer,
        ),
        last_offset,
        RecordValidationStats(BATCH_OVERHEAD + found.size) if facts.codec_id else _NO_STATS,
    )


def _stays_as_it_is(facts: RunFacts, terms: AppendTerms, config: LogConfig) -> bool:
    """Return whether only offset and epoch change in the one batch of an append, as its header shows."""
    if terms.to_magic != CURRENT_MAGIC or len(facts.heads) != 1 or facts.first_offset != 0:
        return False
    if config.message_timestamp_type is not TimestampType.CREATE_TIME:
        return False
    if facts.attributes & (TIMESTAMP_TYPE_MASK | CONTROL_MASK):
        return False
    target = config.compression
    return target is None or target[0] == facts.codec_id


def _are_allowed(found: AppendFacts, facts: RunFacts, config: LogConfig, now: Timestamp) -> bool:
    """Return whether a leader allows all records of a batch, and they agree with its header."""
    count, first, last, low, high, without_key, descents, _ = found
    if first != 0 or last != count - 1 or last != facts.last_offset or descents:
        return False
    if high != facts.max_timestamp or low <= NO_TIMESTAMP or (without_key and config.compact):
        return False
    earliest = now - config.message_timestamp_before_max_ms
    return earliest <= low and high <= now + config.message_timestamp_after_max_ms
