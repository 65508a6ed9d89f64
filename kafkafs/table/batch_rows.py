"""view=batches: one row for each batch, from its header alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.columns.batch_table import holds_control, holds_transactional
from engine.json_facts import facts_of
from engine.log.segment.scan import BatchRun, Damage, Disorder
from engine.record.attributes import (
    COMPRESSION_MASK,
    TIMESTAMP_TYPE_MASK,
    codec_labels,
)
from engine.record.fate import STATES
from engine.units import NO_TIMESTAMP, Offset, TopicPartition
from kafkafs.decode.error_line import damage_facts
from kafkafs.forms.arrow.arrow_rows import MOST_MILLISECONDS, one_row, rows_without_columns
from kafkafs.records.visible import SeenRun, Wanted
from kafkafs.table.row_options import RowOptions
from kafkafs.table.splits.header_facts import (
    HeaderFacts,
    Numbers,
    Table,
    base_timestamps,
    delete_horizons,
    header_facts,
    own_batches,
)
from kafkafs.table.splits.split import Split
from kafkafs.table.splits.split_scan import Scanned, is_hole, scan_split

_TRANSACTIONS = pa.array(STATES, pa.string())
_CODECS = pa.array(codec_labels("unknown {}"), pa.string())
_NO_TIMESTAMP_TYPE = -1


@dataclass(frozen=True, slots=True)
class HeaderRun:
    """Some batches of one segment.

    Attributes:
        partition: partition of the batches.
        segment: base offset of the segment.
        table: rows of the batches, of BATCH_ROW.
        facts: facts of each batch.
        fates: fate of each batch; None when none is transactional or fates are not needed.
    """

    partition: TopicPartition
    segment: Offset
    table: Table
    facts: HeaderFacts
    fates: npt.NDArray[np.uint8] | None

    def __len__(self) -> int:
        return len(self.table)


class BatchHeaderRows:
    """The batches of splits, a row for each.

    Args:
        schema: schema of the record batches.
        options: see `RowOptions`.
    """

    def __init__(self, schema: pa.Schema, options: RowOptions) -> None:
        self._schema = schema
        self._options = options
        self._asks_fates = "transaction" in schema.names

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the wanted batches of a split, and its holes with `on_corrupt` "row".

        Raises:
            LostRecordsError: the segment is gone, and `fail_on_data_loss` is true.
            CorruptBatchError: the segment is damaged, and `on_corrupt` is fail.
        """
        for scanned in scan_split(split, fail_on_data_loss=self._options.fail_on_data_loss):
            if isinstance(scanned.item, BatchRun):
                yield from self._run(scanned)
            elif is_hole(scanned.split, scanned.item, on_corrupt=self._options.on_corrupt):
                yield from self._hole(scanned.split, scanned.item)

    def _run(self, scanned: Scanned) -> Iterator[pa.RecordBatch]:
        view, segment, split, run = scanned
        assert isinstance(run, BatchRun)
        facts = header_facts(run, self._options.budgets)
        wanted = own_batches(split, run.table, facts)
        seen = SeenRun(view, segment, run, Wanted(committed=self._options.committed, control=True))
        wanted &= ~seen.left
        fates = seen.all_fates if self._asks_fates else None
        if not wanted.any():
            return
        batches = HeaderRun(
            split.partition,
            segment.base_offset,
            run.table[wanted],
            facts.of(wanted),
            None if fates is None else fates[wanted],
        )
        # A checksum of few bytes tells which ones they are.
        hides = self._options.mask_of(split.partition.topic) is not None
        arrays = [
            pa.nulls(len(batches), pa.int64())
            if hides and name == "crc"
            else _BUILDERS[name](batches)
            for name in self._schema.names
        ]
        if arrays:
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        else:
            yield rows_without_columns(len(batches))

    def _hole(self, split: Split, damage: Damage | Disorder) -> Iterator[pa.RecordBatch]:
        facts = self._options.reported(split, damage_facts(damage))
        if facts is not None:
            known = {
                **facts_of(split, "topic=partition.topic partition=partition.partition segment"),
                **facts_of(damage, "position size=length baseOffset=first_offset last_offset"),
                "_corrupt": json.dumps(facts),
            }
            yield one_row(self._schema, known)


def instants(milliseconds: Numbers) -> pa.Array:
    """Return milliseconds as timestamps in microseconds; NO_TIMESTAMP and what overflows become null."""
    nulls = (np.abs(milliseconds) > MOST_MILLISECONDS) | (milliseconds == NO_TIMESTAMP)
    microseconds = np.where(nulls, 0, milliseconds) * 1000
    return pa.array(microseconds, pa.int64(), mask=nulls).cast(pa.timestamp("us", "UTC"))


# -- columns


def _times(of: Callable[[Table], Numbers]) -> Callable[[HeaderRun], pa.Array]:
    return lambda batches: instants(of(batches.table))


def _timestamp_type(batches: HeaderRun) -> pa.Array:
    table = batches.table
    is_append_time = (table["attributes"] & TIMESTAMP_TYPE_MASK) != 0
    kinds = np.where(table["magic"] == 0, _NO_TIMESTAMP_TYPE, is_append_time)
    return pa.array(kinds.astype(np.int32))


def _codec(batches: HeaderRun) -> pa.Array:
    return _CODECS.take(pa.array((batches.table["attributes"] & COMPRESSION_MASK).astype(np.int32)))


def _transaction(batches: HeaderRun) -> pa.Array:
    if batches.fates is None:
        return pa.nulls(len(batches), pa.string())
    return _TRANSACTIONS.take(pa.array(batches.fates.astype(np.int32)))


def _stated(field: str, kind: pa.DataType) -> Callable[[HeaderRun], pa.Array]:
    dtype = kind.to_pandas_dtype()
    return lambda batches: pa.array(batches.table[field].astype(dtype), kind)


def _same(
    value: Callable[[HeaderRun], object], kind: pa.DataType
) -> Callable[[HeaderRun], pa.Array]:
    return lambda batches: pa.repeat(pa.scalar(value(batches), kind), len(batches))


_BUILDERS: dict[str, Callable[[HeaderRun], pa.Array]] = {
    "topic": _same(lambda batches: batches.partition.topic, pa.string()),
    "partition": _same(lambda batches: batches.partition.partition, pa.int32()),
    "segment": _same(lambda batches: batches.segment, pa.int64()),
    "position": _stated("position", pa.int64()),
    "size": _stated("size", pa.int32()),
    "baseOffset": lambda batches: pa.array(batches.facts.base_offset),
    "lastOffset": _stated("last_offset", pa.int64()),
    "records": lambda batches: pa.array(batches.facts.records.astype(np.int32)),
    "baseTimestamp": _times(base_timestamps),
    "maxTimestamp": _times(lambda table: table["max_timestamp"].astype(np.int64)),
    "timestampType": _timestamp_type,
    "magic": _stated("magic", pa.int32()),
    "codec": _codec,
    "leaderEpoch": _stated("leader_epoch", pa.int32()),
    "producerId": _stated("producer_id", pa.int64()),
    "producerEpoch": _stated("producer_epoch", pa.int32()),
    "baseSequence": _stated("base_sequence", pa.int32()),
    "isTransactional": lambda batches: pa.array(holds_transactional(batches.table)),
    "isControl": lambda batches: pa.array(holds_control(batches.table)),
    "deleteHorizon": _times(delete_horizons),
    "transaction": _transaction,
    "crc": _stated("crc", pa.int64()),
    "_corrupt": lambda batches: pa.nulls(len(batches), pa.string()),
}
