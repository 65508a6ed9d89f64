"""Decoded records of some batches, for tests of what becomes of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from engine import kernel
from engine.columns.columns import Columns
from engine.units import TopicPartition
from kafkafs.records.rows import Rows
from tests.builders import Producer, Rec, batch
from tests.engine.kernel.kernels import table_of

PARTITION = TopicPartition("orders", 3)


class Decoded(NamedTuple):
    """The rows of some batches, and their records."""

    table: Any
    columns: Columns

    def rows(self, indices: list[int] | None = None, **more: Any) -> Rows:
        """Some of the records, or all."""
        wanted = np.arange(len(self.columns)) if indices is None else np.array(indices, np.intp)
        return Rows(PARTITION, 7, self.columns, self.table, None, wanted, **more)


def decoded(*batches: list[Rec], transactional: bool = False) -> Decoded:
    """Records, of which each list is a batch."""
    at, data = 0, b""
    for records in batches:
        if transactional:
            data += batch(records, at, transactional=True, producer=Producer(id=1, sequence=at))
        else:
            data += batch(records, at)
        at += len(records)
    table = table_of(data)
    return Decoded(table, kernel.decode(data, table, 0, len(table), start_position=0))
