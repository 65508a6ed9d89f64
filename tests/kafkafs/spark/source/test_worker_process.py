"""Batches without columns are wrapped as PySpark wraps them, without its work for each row."""

from __future__ import annotations

import time
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")
conversion = pytest.importorskip(
    "pyspark.sql.conversion", reason="pyspark is not installed: pip install '.[spark]'"
)


@pytest.fixture
def transformer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """PySpark's, put back afterwards."""
    found = conversion.ArrowBatchTransformer
    monkeypatch.setattr(found, "wrap_struct", staticmethod(found.wrap_struct))
    return found


def batches() -> list[Any]:
    from kafkafs.forms.arrow.arrow_rows import rows_without_columns

    two = pa.RecordBatch.from_pydict({"a": [1, None], "b": ["x", "y"]})
    return [rows_without_columns(count) for count in (0, 1, 5, 20_000)] + [two, two.slice(0, 0)]


def test_a_wrapped_batch_is_what_pyspark_makes_of_it(transformer: Any) -> None:
    from kafkafs.spark.source.worker_process import spare_the_dicts

    wanted = [transformer.wrap_struct(batch) for batch in batches()]
    spare_the_dicts()
    found = [transformer.wrap_struct(batch) for batch in batches()]
    for mine, other in zip(found, wanted, strict=True):
        mine.validate(full=True)
        assert mine.schema == other.schema
        assert mine.equals(other)


def test_it_is_put_in_place_once_and_costs_nothing_for_a_row(transformer: Any) -> None:
    from kafkafs.forms.arrow.arrow_rows import rows_without_columns
    from kafkafs.spark.source.worker_process import spare_the_dicts

    def took(rows: int) -> float:
        start = time.process_time()
        transformer.wrap_struct(rows_without_columns(rows))
        return time.process_time() - start

    took(1)
    before = took(300_000)
    spare_the_dicts()
    ours = transformer.wrap_struct
    spare_the_dicts()
    assert transformer.wrap_struct is ours
    assert took(300_000) < before / 5
