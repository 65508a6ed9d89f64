"""Both kernels, for tests that must hold for each, and what they are asked with."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from engine.columns.batch_table import BATCH_ROW
from engine.columns.columns import Columns
from engine.kernel import compiled, python as kernel_python
from engine.lines.record_line import LineOptions

KERNELS: dict[str, ModuleType] = {"compiled": compiled, "python": kernel_python}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
OPTIONS = LineOptions("orders", 0)


def table_of(data: bytes, *, start_position: int = 0, check_crc: bool = True) -> np.ndarray:
    """A row for each batch; all of the data must be batches."""
    table = np.zeros(len(data) // 26 + 1, BATCH_ROW.dtype)
    rows, consumed, _ = kernel_python.walk(data, table, 0, start_position, check_crc)
    assert consumed == len(data)
    return table[:rows]


def decoded(kernel: ModuleType, data: bytes, **options: Any) -> Columns:
    """All records of batches that start at position 0."""
    table = table_of(data)
    columns: Columns = kernel.decode(data, table, 0, len(table), start_position=0, **options)
    return columns


def facts(columns: Columns) -> list[tuple[Any, ...]]:
    """Offset, timestamp, key, value and headers of each record."""
    return [
        (
            int(columns.offset[i]),
            int(columns.timestamp[i]),
            columns.key(i),
            columns.value(i),
            tuple((header.key, header.value) for header in columns.headers(i)),
        )
        for i in range(len(columns))
    ]
