"""Records of many partitions as a table that is read on demand."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

try:
    import pyarrow as pa
except ImportError as error:  # pragma: no cover - the tests have it
    msg = "a scan needs PyArrow: pip install 'kafkafs[arrow]'"
    raise ImportError(msg) from error

from engine.budgets import MiB
from engine.coding.compression import CODEC_NAMES
from engine.units import Timestamp
from engine.workers import Workers
from kafkafs.amounts import counted, size
from kafkafs.api.moments import Moment, milliseconds
from kafkafs.api.notebook import html_table
from kafkafs.api.reading import row_options, usual_threads
from kafkafs.api.scan_options import DEFAULTS, ScanOptions, Topics
from kafkafs.api.scan_plan import ScanChoice, ScanPart
from kafkafs.api.source_logs import SourceLogs
from kafkafs.forms.arrow.arrow_columns import CORRUPT, DECODED, LEFTOVER, USUAL, record_schema
from kafkafs.forms.arrow.typed_values import TypedValues
from kafkafs.records.conditions.row_filters import Every, KeyFilter, RowFilter
from kafkafs.records.conditions.wanted_keys import TopicKeys
from kafkafs.table.record_rows import RecordRows
from kafkafs.table.splits.header_walk import walk_headers
from kafkafs.table.splits.split import Split
from kafkafs.table.where_filter import WhereFilter

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

    from kafkafs.forms.arrow.typed.typed_columns import TypedColumns


Number = TypeVar("Number", int, None)

_SPLIT_BYTES = 16 * MiB
_SPLITS_A_THREAD = 4
"""Splits for each thread that walks headers."""
_MOST_LISTED = 20


class Scan:
    """Records as a table. Nothing is read before the table is asked for; each request reads again.

    DuckDB, Polars, pandas and PyArrow take a scan as it is (`__arrow_c_stream__`). Rows are in the order of topics,
    partitions and offsets. Thread-safe, picklable.

    Args:
        logs: the open source.
        topics: a topic, several, or partition numbers by topic; by default all but Kafka's own.
        options: see `ScanOptions`.
        typed: decoded columns of one topic that have a type, in place of those of `decode`.

    Raises:
        KeyError: there is no such topic, partition or column.
        ValueError, TypeError: another option is malformed, or no schema gives `decode="columns"` a type, or a mask
            of the source hides keys that are looked for.
    """

    def __init__(
        self,
        logs: SourceLogs,
        topics: Topics | None = None,
        *,
        typed: TypedValues | None = None,
        **options: Unpack[ScanOptions],
    ) -> None:
        self._logs = logs
        given: ScanOptions = {**DEFAULTS, **options}
        decode = given["decode"]
        deleted = given["deleted"]
        on_corrupt = given["on_corrupt"]
        where = given["where"]
        _check_decode(decode, nanoseconds=given["nanoseconds"])
        self._typed = typed
        if decode == "columns":
            self._typed = _typed(logs, topics, nanoseconds=given["nanoseconds"])
        types = {} if self._typed is None else dict(self._typed.types)
        columns = given["columns"]
        if columns is None:
            notes = [f"{name}Note" for name in types]
            columns = [*USUAL, *notes, *([LEFTOVER] if deleted else [])]
            columns += [CORRUPT] if on_corrupt == "row" else []
        self._types = types
        self.schema: pa.Schema = record_schema(columns, types)
        self._where = None if where is None else WhereFilter(where, types)
        named = {*columns, *(() if self._where is None else self._where.columns)}
        keeps_bytes = decode == "columns" or (decode == "none" and not named.isdisjoint(DECODED))
        decoder_of = None if isinstance(decode, str) else decode
        if decode == "json" or keeps_bytes:
            decoder_of = logs.decoder
        self._options = row_options(
            given["isolation"],
            on_corrupt,
            logs.source.budgets,
            decoder_of=decoder_of,
            keeps_bytes=keeps_bytes,
            mask=logs.row_mask,
        )
        keys = given["keys"]
        self._keys = None if keys is None else _several(keys)
        self._threads = _at_least(1, "threads", given["threads"], usual_threads())
        self._limit = _at_least(0, "limit", given["limit"], None)
        # A mask, or a decoder, gives the expression other keys than the log has.
        finds_keys = logs.row_mask is None and (decoder_of is None or keeps_bytes)
        wanted: Iterable[bytes | str | None] | None = self._keys
        if wanted is None and self._where is not None and finds_keys:
            wanted = self._where.keys
        known = logs.tree.context.schemas
        self._wanted_keys = None if wanted is None else TopicKeys(wanted, known)
        self._choice = ScanChoice(
            topics=topics,
            since=_instant(given["since"]),
            until=_instant(given["until"]),
            offsets=given["offsets"],
            keys=self._wanted_keys,
            partitioner=given["partitioner"],
            committed=self._options.committed,
            where=self._where,
            skips_unread=self._options.on_corrupt != "fail",
            deleted=deleted,
        )
        self._check_mask(logs)
        self._choice.parts(logs)  # an unknown topic is an error now, not at the first row
        # "-1h" stays the time that it was when the scan was made.
        times = {"since": self._choice.since, "until": self._choice.until, "keys": self._keys}
        self._given = {"topics": topics, **given, **times, "typed": typed}

    def _check_mask(self, logs: SourceLogs) -> None:
        """Refuse what would tell masked keys, or needs values of types that a mask changes."""
        mask = logs.row_mask
        if mask is None or (self._keys is None and self._typed is None):
            return
        for topic in self._choice.topic_names(logs):
            lines = mask.of(topic)
            if lines is None:
                continue
            if self._typed is not None:
                raise ValueError(
                    f'decode="columns" has the types of the schema of {topic}: not with a mask'
                )
            if lines.masks_keys:
                raise ValueError(
                    f"the mask hides the keys of {topic}: leave out keys, and use where"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._logs, self._given)

    def __repr__(self) -> str:
        given = {name: value for name, value in self._given.items() if value is not None}
        return f"<scan of {', '.join(f'{name}={value!r}' for name, value in given.items())}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the columns, and what the scan reads. No record is read."""
        columns = ((field.name, field.type) for field in self.schema)
        plan = escape(self.explain())
        return f"{html_table('scan', ('column', 'type'), columns)}<pre>{plan}</pre>"

    # Reading

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield record batches, of at most 10,000 rows each; close the generator to end early.

        Raises:
            CorruptBatchError: damage may have cost records, and `on_corrupt` is "raise".
            LostRecordsError: the broker deleted records since the scan began.
        """
        return self._batches(self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as PyArrow's reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the batches as an Arrow C stream, which starts to read at its first batch."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Return the schema as an Arrow C schema."""
        return self.schema.__arrow_c_schema__()

    def to_arrow(self) -> pa.Table:
        """Return all rows as a table; raises as `to_batches`."""
        with closing(self.to_batches()) as batches:
            return pa.Table.from_batches(list(batches), self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:  # noqa: ANN401
        """Return all rows as a frame of pandas; the options are those of `pyarrow.Table.to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a frame of Polars."""
        import polars as pl

        return pl.DataFrame(self)

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Return a relation of DuckDB that reads the scan for each query.

        Args:
            connection: by default DuckDB's own.
        """
        import duckdb

        return (connection or duckdb).from_arrow(self)

    def count(self, *, checksums: bool = True) -> int:
        """Return the number of rows, without the values: where there is no filter on rows, from batch headers.

        Damage counts as in `to_arrow`: it raises an error, or is skipped, or is a row.

        Args:
            checksums: read and check all bytes. Without it only headers are read, where there is no filter on rows,
                and damage behind a possible header is not seen.
        """
        schema = record_schema(())
        if not checksums and self._row_filter() is None:
            found = self._count_by_headers(schema)
            return found if self._limit is None else min(found, self._limit)
        with closing(self._batches(schema)) as batches:
            return sum(batch.num_rows for batch in batches)

    def _count_by_headers(self, schema: pa.Schema) -> int:
        options = self._options
        reader = RecordRows(schema, options)

        def count(task: tuple[ScanPart, Split]) -> int:
            (log, _, apart), split = task
            if apart is not None:
                return sum(int(batch.num_rows) for batch in reader.read(split, log, apart))
            known, left = walk_headers(split, log, options.budgets, committed=options.committed)
            rows = (int(batch.num_rows) for part in left for batch in reader.read(part, log))
            return known + sum(rows)

        parts = self._choice.parts(self._logs)
        total = sum(part.log.view().size for part in parts)
        # Few headers are in many bytes: with small splits, finding them would take longer than the walk.
        split_bytes = max(_SPLIT_BYTES, total // (self._threads * _SPLITS_A_THREAD))
        with Workers(self._threads, "scan") as workers:
            return sum(rows for _, rows in workers.map(count, _tasks(parts, split_bytes)))

    def _batches(self, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        where = self._where
        needed = schema
        if where is not None:
            more = [name for name in where.columns if name not in schema.names]
            if self._options.on_corrupt == "row" and CORRUPT not in (*schema.names, *more):
                more.append(CORRUPT)
            needed = record_schema([*schema.names, *more], self._types)
        reader = RecordRows(needed, self._options, self._row_filter(), self._typed)

        def read(task: tuple[ScanPart, Split]) -> Iterable[pa.RecordBatch]:
            (log, _, apart), split = task
            for batch in reader.read(split, log, apart):
                found = batch if where is None else where.rows(batch)
                if found.num_rows:
                    yield found if needed is schema else found.select(schema.names)

        left = self._limit
        if left == 0:
            return
        with Workers(self._threads, "scan") as workers:
            tasks = _tasks(self._choice.parts(self._logs), _SPLIT_BYTES)
            for batch in workers.flat_map(read, tasks):
                yield batch if left is None else batch.slice(0, left)
                if left is not None:
                    left -= batch.num_rows
                    if left <= 0:
                        break
        self._logs.warn_unmet()

    def _row_filter(self) -> RowFilter | None:
        keys = None if self._wanted_keys is None else KeyFilter(self._wanted_keys)
        conditions = [each for each in (self._where, keys) if each is not None]
        return Every(*conditions) if conditions else None

    # Explaining

    def explain(self) -> str:
        """Return what the scan reads, and what it does not need to read, in a few lines."""
        parts = self._choice.parts(self._logs)
        splits = [(part, list(part.splits(_SPLIT_BYTES))) for part in parts]
        total = sum(split.size for _, some in splits for split in some)
        number = sum(len(some) for _, some in splits)
        amounts = (
            counted(len(parts), "partition"),
            counted(number, "split"),
            f"{size(total)} of records files",
        )
        lines = [", ".join(amounts)]
        lines += [f"  {_range_text(part)}" for part in parts[:_MOST_LISTED]]
        if len(parts) > _MOST_LISTED:
            lines.append(f"  and {len(parts) - _MOST_LISTED} more")
        lines.append(f"columns: {', '.join(self.schema.names)}")
        if self._wanted_keys is not None:
            places = "the keys' partitions" if self._choice.partitioner else "all partitions"
            lines.append(f"keys: {counted(len(self._wanted_keys), 'key')}, looked for in {places}")
        if self._where is not None:
            lines.append(f"where: {self._where!r}")
            codecs = sorted(self._where.codecs)
            if len(codecs) < len(CODEC_NAMES):
                lines.append(f"  only batches of codec {', '.join(codecs) or '(none of them)'}")
            if self._where.earliest is not None:
                lines.append(f"  only batches with a timestamp at or after {self._where.earliest}")
        lines.append(
            f"{counted(self._threads, 'thread')}, isolation"
            f" {'read_committed' if self._options.committed else 'read_uncommitted'}"
        )
        return "\n".join(lines)


def _tasks(parts: Iterable[ScanPart], split_bytes: int) -> Iterator[tuple[ScanPart, Split]]:
    for part in parts:
        for split in part.splits(split_bytes):
            yield part, split


def _range_text(part: ScanPart) -> str:
    return f"{part.log.name}: offsets {part.wanted.start} to {part.wanted.stop}"


def _typed(logs: SourceLogs, topics: Topics | None, *, nanoseconds: bool) -> TypedColumns:
    names = [topics] if isinstance(topics, str) else list(topics or ())
    if len(names) != 1:
        raise ValueError(f'decode="columns" takes the schemas of one topic, not of {len(names)}')
    # Imported here: other scans need no decoders of Avro.
    from kafkafs.forms.arrow.typed.typed_columns import typed_columns

    store = logs.tree.context.schemas.store()
    return typed_columns(names[0], store, nanoseconds=nanoseconds)


def _check_decode(decode: object, *, nanoseconds: bool) -> None:
    if not callable(decode) and decode not in ("none", "json", "columns"):
        raise ValueError(f'decode is "none", "json", "columns" or a function, not {decode!r}')
    if nanoseconds and decode != "columns":
        raise ValueError('nanoseconds are for decode="columns"')


def _at_least(least: int, name: str, given: int | None, usual: Number) -> int | Number:
    if given is None:
        return usual
    if given < least:
        raise ValueError(f"{name} is {least} or more, not {given}")
    return given


def _instant(moment: Moment | None) -> Timestamp | None:
    return None if moment is None else milliseconds(moment)


def _several(keys: Iterable[bytes | str | None]) -> list[bytes | str | None]:
    if isinstance(keys, bytes | str):
        raise TypeError(f"keys is a list of keys: write keys=[{keys!r}]")
    return list(keys)


def _again(logs: SourceLogs, given: dict[str, Any]) -> Scan:
    return Scan(logs, **given)
