"""What the tree of a condition is told of records: by their columns and bytes, by the headers of batches, by offsets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping

import numpy as np

from engine import kernel
from engine.columns.matching import Fields
from engine.log.segment.scan import BatchRun
from engine.units import MAX_INT64, Offset, TopicPartition
from kafkafs.records.conditions.condition import (
    UNKNOWN,
    BytesTruth,
    Interval,
    Known,
    Marks,
    Truth,
    narrowed_offsets,
)

_SIDES = {"key": Fields.KEY, "value": Fields.VALUE}


def known_of(partition: TopicPartition, columns: kernel.Columns, *, is_plain: bool) -> Known:
    """Return what is known of records.

    Args:
        is_plain: whether keys and values are shown as the JSON or the text that their bytes are.
    """
    numbers = {name: (columns.table[name],) * 2 for name in ("offset", "timestamp")}
    return _known(partition, numbers, _bytes_truth(columns) if is_plain else None)


def narrowed_run(
    truth: Callable[[Known], Truth], run: BatchRun, partition: TopicPartition
) -> BatchRun:
    """Return the batches of a run that may hold a record of which a condition is true."""
    table = run.table
    base, last, lowest = table["base_offset"], table["last_offset"], np.int64(-MAX_INT64 - 1)
    # A message of magic 0 or 1 may be a wrapper with a wrong timestamp, and without a first offset;
    # of a header that contradicts itself the records decide.
    is_stated = (table["magic"] >= 2) & (base <= last)
    first, last = np.where(is_stated, base, lowest), np.where(is_stated, last, MAX_INT64)
    latest = np.where(is_stated, table["max_timestamp"], MAX_INT64)
    numbers = {"offset": (first, last), "timestamp": (lowest, latest)}
    possible = truth(_known(partition, numbers)).is_possible
    return run if possible.all() else run.with_table(table[np.broadcast_to(possible, table.shape)])


def wanted_offsets(
    truth: Callable[[Known], Truth], partition: TopicPartition, start: Offset, stop: Offset
) -> tuple[Offset, Offset]:
    """Return the smallest part of [start, stop) outside of which a condition is true of no record."""

    def may_match(first: Offset, last: Offset) -> bool:
        known = _known(partition, {"offset": (np.int64(first), np.int64(last))})
        return bool(truth(known).is_possible)

    return narrowed_offsets(may_match, start, stop)


def _known(
    partition: TopicPartition,
    numbers: Mapping[str, Interval],
    by_bytes: BytesTruth | None = None,
) -> Known:
    topic, number = partition
    shown = topic.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return Known({"topic": shown}, {"partition": (number, number), **numbers}, by_bytes)


def _bytes_truth(columns: kernel.Columns) -> BytesTruth:
    def truth(path: tuple[str, ...], text: str) -> Truth:
        side, *inner = path
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return UNKNOWN
        if side not in _SIDES or not data or data.lstrip()[:1] in (b"{", b"["):
            return UNKNOWN
        if not inner:
            found = _are(columns, side, data) | _are(columns, side, _encoded(text))
            return Truth(found, found)
        # In JSON the text may have escapes; what is no object is left to the line, which counts it.
        sizes, arena = columns.table[f"{side}_size"], np.frombuffer(columns.arena, np.uint8)
        is_object = np.zeros(len(sizes), np.bool_)
        filled = np.flatnonzero(sizes > 0)
        is_object[filled] = arena[columns.table[f"{side}_start"][filled]] == ord("{")
        possible = ~is_object | _have(columns, side, data) | _have(columns, side, b"\\")
        return Truth(np.False_, possible, may_fail=True)

    return truth


def _are(columns: kernel.Columns, side: str, data: bytes | None) -> Marks:
    if data is None:
        return np.False_
    same_size: Marks = columns.table[f"{side}_size"] == len(data)
    return _have(columns, side, data) & same_size


def _have(columns: kernel.Columns, side: str, data: bytes) -> Marks:
    found: Marks = kernel.matching(columns, _SIDES[side], data) != 0
    return found


def _encoded(text: str) -> bytes | None:
    """Return the bytes that are shown as a text in Base64, as they are not UTF-8; None if none are."""
    try:
        data = base64.b64decode(text, validate=True)
        data.decode()
    except UnicodeDecodeError:
        return data if base64.b64encode(data) == text.encode() else None
    except (binascii.Error, ValueError):
        pass
    return None
