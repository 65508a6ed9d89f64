"""An expression of PyArrow on rows: what it cannot match is not read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from engine.coding.compression import CODEC_NAMES
from engine.log.segment.scan import BatchRun
from engine.record.attributes import COMPRESSION_MASK
from engine.units import MAX_INT64, Offset, Timestamp, TopicPartition
from kafkafs.forms.arrow.arrow_columns import CORRUPT, RECORD_FIELDS, record_schema
from kafkafs.records.conditions.condition import first_true, narrowed_offsets
from kafkafs.records.rows import Rows

_FORMAT = ds.IpcFileFormat()
_FILES = fs.LocalFileSystem()
_NOWHERE = "/nowhere"
"""Path of a fragment that is never opened."""
_MOST_KEYS = 64


class WhereFilter:
    """Rows for which an expression is true; picklable.

    An expression cannot be taken apart, but Arrow tells whether it can be true of rows with a given property, as for
    the partitions of a dataset. From that follow the partitions, offsets, codecs, timestamps and keys that have to be
    read.

    Args:
        expression: a `pyarrow.compute.Expression` over columns of records.
        typed: types of keys and values that are decoded to them.

    Raises:
        TypeError: this is no expression.
        KeyError: the expression names a column that records do not have.
        pyarrow.ArrowException: it does not fit the types of the columns.
    """

    def __init__(
        self, expression: pc.Expression, typed: Mapping[str, pa.DataType] | None = None
    ) -> None:
        if not isinstance(expression, pc.Expression):
            raise TypeError(f"where is an expression of pyarrow.compute, not {expression!r}")
        self._expression = expression
        self._typed = dict(typed or {})
        self._schema = record_schema(list(RECORD_FIELDS), self._typed)
        try:
            self._schema.empty_table().filter(expression)
        except pa.ArrowInvalid as error:
            if "No match for FieldRef" in str(error):
                raise KeyError(
                    f"{str(error).splitlines()[0]}; records have {', '.join(RECORD_FIELDS)}"
                ) from None
            raise

    def __repr__(self) -> str:
        return str(self._expression)

    def __reduce__(
        self,
    ) -> tuple[type[WhereFilter], tuple[pc.Expression, Mapping[str, pa.DataType]]]:
        return WhereFilter, (self._expression, self._typed)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns in the expression."""
        return tuple(name for name in RECORD_FIELDS if not self._fits_without(name))

    def _fits_without(self, name: str) -> bool:
        rest = record_schema([each for each in RECORD_FIELDS if each != name], self._typed)
        try:
            rest.empty_table().filter(self._expression)
        except pa.ArrowInvalid:
            return False
        return True

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the expression is true, and those about damage."""
        if CORRUPT in batch.schema.names and batch.column(CORRUPT).null_count < batch.num_rows:
            return batch  # a row of its own
        return batch.filter(self._expression)

    def may_match(self, known: pc.Expression) -> bool:
        """Return whether the expression may be true of a row with a known property."""
        fragment = _FORMAT.make_fragment(_NOWHERE, _FILES, partition_expression=known)
        dataset = ds.FileSystemDataset([fragment], self._schema, _FORMAT, _FILES)
        return next(iter(dataset.get_fragments(filter=self._expression)), None) is not None

    def wants(self, partition: TopicPartition) -> bool:
        """Return whether the expression may be true of a record of a partition."""
        return self.may_match(_of(partition))

    def offsets(
        self, partition: TopicPartition, start: Offset, stop: Offset
    ) -> tuple[Offset, Offset]:
        """Return the smallest part of [start, stop) outside of which the expression is true of no record."""
        place, offset = _of(partition), ds.field("offset")

        def may_match(first: Offset, last: Offset) -> bool:
            return self.may_match(place & (offset >= first) & (offset <= last))

        return narrowed_offsets(may_match, start, stop)

    @cached_property
    def codecs(self) -> frozenset[str]:
        """The codecs of batches that may have a wanted record."""
        return frozenset(name for name in CODEC_NAMES if self.may_match(ds.field("codec") == name))

    @cached_property
    def earliest(self) -> Timestamp | None:
        """The timestamp before which no record is wanted; None without one."""
        timestamp = ds.field("timestamp")
        if self.may_match(timestamp.is_null()):
            return None

        def may_be(until: Timestamp) -> bool:
            return self.may_match(timestamp <= pa.scalar(until, RECORD_FIELDS["timestamp"]))

        if may_be(0):  # a negative timestamp may stand for none
            return None
        return first_true(0, MAX_INT64, may_be)

    @cached_property
    def keys(self) -> tuple[bytes | None, ...] | None:
        """The keys of all wanted records; None if other keys may be wanted, or more than a few."""
        key = ds.field("key")
        if "key" not in self.columns or self._schema.field("key").type != pa.binary():
            return None
        found = sorted(_byte_literals(self._expression))
        bounds = [None, *found, None]
        if len(found) > _MOST_KEYS or any(
            self.may_match(_inside(*each)) for each in pairwise(bounds)
        ):
            return None
        nulls = (None,) if self.may_match(key.is_null()) else ()
        return (*(each for each in found if self.may_match(key == each)), *nulls)

    def matching(self, rows: Rows) -> Rows:
        """Return the records as they are: which ones are wanted, their columns tell; see `rows`."""
        return rows

    def narrowed(self, run: BatchRun) -> BatchRun:
        """Return the batches of a run that may hold a wanted record, by their headers."""
        table = run.table
        codecs = table["attributes"] & COMPRESSION_MASK
        wanted = np.ones(len(table), bool)
        for number, name in enumerate(CODEC_NAMES):
            if name not in self.codecs:
                wanted &= codecs != number
        if self.earliest is not None:
            # A message of magic 0 or 1 may be a wrapper with a wrong timestamp.
            wanted &= (table["max_timestamp"] >= self.earliest) | (table["magic"] < 2)
        return run if wanted.all() else run.with_table(table[wanted])


def _of(partition: TopicPartition) -> pc.Expression:
    return (ds.field("topic") == partition.topic) & (ds.field("partition") == partition.partition)


def _byte_literals(expression: pc.Expression) -> set[bytes]:
    """Return bytes that an expression compares with, as far as they are found in its serialized form.

    Arrow does not state that form: what follows from them is asked of Arrow itself.
    """
    _, (serialized,) = expression.__reduce__()
    found: set[bytes] = set()
    try:
        with pa.ipc.open_file(serialized) as file:
            columns = [
                column
                for batch in map(file.get_batch, range(file.num_record_batches))
                for column in batch
            ]
    except (pa.ArrowException, TypeError):
        return found
    for column in columns:
        if pa.types.is_struct(column.type) and column.type.get_field_index("value_set") >= 0:
            column = column.field("value_set")
        if pa.types.is_list(column.type):
            column = column.flatten()
        if pa.types.is_binary(column.type):
            found.update(each for each in column.to_pylist() if each is not None)
    return found


def _inside(low: bytes | None, high: bytes | None) -> pc.Expression:
    """Return the expression that a key is there, and between two others."""
    key = ds.field("key")
    inside = key.is_valid()
    if low is not None:
        inside &= key > low
    return inside if high is None else inside & (key < high)
