"""A stream decodes records with schemas that were registered after it began."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from tests.builders import Rec, batch
from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.spark.streaming.engine_calls import EARLIEST, Query
from tests.schema_records import LONG, STRING, schema_record

pytestmark = pytest.mark.usefixtures("look_each_time")


def test_a_schema_of_a_later_micro_batch_is_known_to_its_tasks(tmp_path: Path) -> None:
    registry = BuiltLog(tmp_path, "_schemas-0")
    registry.segment([batch([schema_record("orders-value", 1, 7, LONG)], 0)], 0)
    orders = BuiltLog(tmp_path, "orders-0")
    orders.segment([batch([Rec(b"\0\0\0\0\x07\x02")], 0)], 0)
    query = Query(orders.log_dir, **EARLIEST, subscribe="orders", decode="true")
    run = query.run()
    assert run.all() == 1
    registry.append(batch([schema_record("orders-value", 2, 8, STRING)], 1))
    orders.append(batch([Rec(b"\0\0\0\0\x08\x04hi"), Rec(b"\0\0\0\0\x09\x04hi")], 1))
    assert run.all() == 1
    assert [(row["decodedValue"], row["valueNote"]) for row in query.rows] == [
        ("1", None),
        ('"hi"', None),
        (None, "the schema id 9 is not known"),
    ]
