"""Records of splits as Arrow record batches, with a row for each hole if wanted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from engine.log.partition_log import PartitionLog
from kafkafs.decode.searching.apart import Apart
from kafkafs.forms.arrow.arrow_rows import one_row, record_batches, rows_without_columns
from kafkafs.forms.arrow.typed_values import TypedValues
from kafkafs.records.conditions.row_filters import RowFilter
from kafkafs.records.rows import Rows
from kafkafs.table.row_options import RowOptions
from kafkafs.table.split_records import Counted, DamagedPlace, SplitRecords
from kafkafs.table.splits.split import Split


class RecordRows:
    """The records of splits, a row for each.

    Args:
        schema: schema of the record batches.
        options: see `RowOptions`.
        wanted: filter on the records; None for every record.
        typed: keys and values that become columns of their schema's type.
    """

    def __init__(
        self,
        schema: pa.Schema,
        options: RowOptions,
        wanted: RowFilter | None = None,
        typed: TypedValues | None = None,
    ) -> None:
        self._schema = schema
        self._typed = typed
        self._fail_on_undecodable = options.fail_on_undecodable
        self._records = SplitRecords(options, wanted, counts_only=not schema.names)

    def read(
        self, split: Split, log: PartitionLog | None = None, apart: Apart | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the wanted records of a split, and its holes with `on_corrupt` "row"; arguments as `SplitRecords.read`.

        Raises:
            LostRecordsError, CorruptBatchError: see `SplitRecords.read`.
            UndecodableRecordError: a key or value does not decode, and `fail_on_undecodable` is true.
        """
        for item in self._records.read(split, log, apart):
            if isinstance(item, Rows):
                yield from record_batches(
                    self._schema,
                    item,
                    fail_on_undecodable=self._fail_on_undecodable,
                    typed=self._typed,
                )
            elif isinstance(item, DamagedPlace):
                yield self._row_of(item)
            elif isinstance(item, Counted) and item.records:
                # PySpark infers another schema from a batch without columns and rows.
                yield rows_without_columns(item.records)

    def _row_of(self, hole: DamagedPlace) -> pa.RecordBatch:
        known = {
            "topic": hole.split.partition.topic,
            "partition": hole.split.partition.partition,
            "offset": hole.first_offset,
            "segment": hole.split.segment,
            "batchPosition": hole.facts.get("position"),
            "leftover": hole.split.leftover or None,
            "_corrupt": json.dumps(hole.facts),
        }
        return one_row(self._schema, known)
