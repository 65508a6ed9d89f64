"""Topics as datasets of PyArrow, so that DuckDB asks for the columns and the rows that a query needs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from engine.lines.record_line import internal_decoder
from engine.log.view.log_bound import EVERYTHING, LogBound, LogRange
from kafkafs.api.read_report import ReadReport
from kafkafs.api.scan import Scan
from kafkafs.api.scan_options import Offsets, Partitioner
from kafkafs.api.source_logs import SourceLogs
from kafkafs.decode.searching.apart import Deleted
from kafkafs.forms.arrow.arrow_columns import CORRUPT, RECORD_FIELDS, record_schema
from kafkafs.forms.arrow.arrow_rows import MOST_MILLISECONDS
from kafkafs.forms.arrow.typed.counted_misfits import CountedMisfits
from kafkafs.forms.arrow.typed.retyped import with_leaves
from kafkafs.forms.arrow.typed_values import TypedValues

if TYPE_CHECKING:
    from kafkafs.schemas.store import SchemaStore

COLUMNS = tuple(name for name in RECORD_FIELDS if name != CORRUPT)
_LEAST_MILLISECONDS = -9_223_372_022_400_000
"""The first of DuckDB's timestamps, in 290309 before Christ."""
_FINER: dict[pa.DataType, pa.DataType] = {
    pa.timestamp("ms", "UTC"): pa.timestamp("us", "UTC"),
    pa.timestamp("ms"): pa.timestamp("us"),
}


def typed_values(logs: SourceLogs, topic: str, store: SchemaStore | None) -> CountedMisfits | None:
    """Return the types of a topic's decoded keys and values; None where these are JSON.

    A masked field need not have the type of its schema, so that there are none with a mask.

    Args:
        logs: the open source.
        topic: name of the topic.
        store: the schemas; None without any.
    """
    if store is None or internal_decoder(topic) is not None:
        return None
    if logs.row_mask is not None and logs.row_mask.of(topic) is not None:
        return None
    # Imported here: it needs the decoders of all schemas.
    from kafkafs.forms.arrow.typed.typed_beside_bytes import TypedBesideBytes

    try:
        return CountedMisfits(TypedBesideBytes(topic, store, _duckdb_type))
    except ValueError:
        return None


def _duckdb_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which DuckDB takes a column: a time that its microseconds do not hold would end the query."""
    return with_leaves(kind, lambda leaf: _FINER.get(leaf, leaf))


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """The records of a topic, read when a scanner is asked for, with its columns and its filter alone.

    DuckDB takes any `pyarrow.dataset.Dataset`, and calls `scanner` for each scan of a query.

    Args:
        logs: the open source.
        topic: name of the topic.
        partitions: numbers of the partitions to read.
        report: is told what is read.
        isolation: "read_uncommitted" or "read_committed".
        partitioner: see `Scan`.
        typed: types of `decodedKey` and `decodedValue`; None for JSON.
        deleted: see `Scan`.
        threads: number of threads of a scan.
        extent: the range of the records; all by default.
    """

    def __init__(
        self,
        logs: SourceLogs,
        topic: str,
        partitions: Sequence[int],
        report: ReadReport,
        *,
        isolation: str = "read_uncommitted",
        partitioner: Partitioner | None = None,
        typed: TypedValues | None = None,
        deleted: Deleted = False,
        threads: int | None = None,
        extent: LogRange = EVERYTHING,
    ) -> None:
        self._bounds = [LogBound() if bound is None else bound for bound in extent]
        self._logs = logs
        self._deleted = deleted
        self._topic = topic
        self._partitions = list(partitions)
        self._report = report
        self._isolation = isolation
        self._partitioner = partitioner
        self._typed = typed
        self._threads = threads

    @property
    def schema(self) -> pa.Schema:
        """The schema of all columns."""
        return record_schema(COLUMNS, None if self._typed is None else self._typed.types)

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - PyArrow's name
        **_: object,
    ) -> TopicScanner:
        """Return the scanner of some columns, and of the rows for which a filter is true."""
        return TopicScanner(self._topic, self._scan(columns or COLUMNS, filter), self._report)

    def _scan(self, columns: Sequence[str], where: pc.Expression | None) -> Scan:
        try:
            scan = Scan(
                self._logs,
                {self._topic: self._partitions},
                columns=[*columns, CORRUPT],
                where=where,
                isolation=self._isolation,  # type: ignore[arg-type]
                on_corrupt="row",
                partitioner=self._partitioner,
                typed=self._typed,
                deleted=self._deleted,
                threads=self._threads,
                since=self._bounds[0].timestamp,
                until=self._bounds[1].timestamp,
                offsets=self._offsets(),
            )
        except Exception as error:
            self._report.failure = error
            raise
        self._report.scans.append((self._topic, scan))
        return scan

    def _offsets(self) -> Offsets:
        """Return the offsets of the range; for one that counts from the log end those of each partition."""
        start, stop = self._bounds
        if start.before_end is None and stop.before_end is None:
            return start.offset, stop.offset
        views = {
            number: log.view_or_none() for number, log in self._logs.topic(self._topic).items()
        }
        return {
            (self._topic, number): (
                start.offset if start.before_end is None else start.offset_in(view),
                stop.offset if stop.before_end is None else stop.offset_in(view),
            )
            for number, view in views.items()
            if view is not None
        }


class TopicScanner:
    """The records of one scan, as DuckDB takes them; damage goes to the report."""

    def __init__(self, topic: str, scan: Scan, report: ReadReport) -> None:
        self._topic = topic
        self._scan = scan
        self._report = report

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the columns."""
        return pa.schema([field for field in self._scan.schema if field.name != CORRUPT])

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the record batches."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Generator[pa.RecordBatch, None, None]:
        names = self.projected_schema.names
        try:
            with closing(self._scan.to_batches()) as batches:
                for batch in batches:
                    facts = batch.column(CORRUPT)
                    if facts.null_count < len(facts):
                        self._report.add_damage(facts.drop_null()[0].as_py())
                    else:
                        yield self._fitting(batch.select(names))
        except Exception as error:
            self._report.failure = error
            raise

    def _fitting(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with null for timestamps that would end the query."""
        place = batch.schema.get_field_index("timestamp")
        if place < 0:
            return batch
        column = batch.column(place)
        numbers = column.view(pa.int64())
        least, most = (bound.as_py() or 0 for bound in pc.min_max(numbers).values())
        if least >= _LEAST_MILLISECONDS and most <= MOST_MILLISECONDS:
            return batch
        is_held = pc.and_(
            pc.greater_equal(numbers, _LEAST_MILLISECONDS),
            pc.less_equal(numbers, MOST_MILLISECONDS),
        )
        held = pc.if_else(is_held, column, pa.scalar(None, column.type))
        self._report.untimed[self._topic] += held.null_count - column.null_count
        return batch.set_column(place, batch.schema.field(place), held)
