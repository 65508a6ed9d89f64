"""Tasks of Spark read the union of several nodes' copies, also in a process that knows only what is in the task."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from kafkafs.spark import data_source
from tests.replica_clusters import make_cluster


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("split", ["1k", "1m"])
def test_tasks_read_the_union(tmp_path: Path, seed: int, split: str) -> None:
    made = make_cluster(tmp_path, Random(seed))
    options = {
        "path": ",".join(map(str, made.dirs)),
        "onCorrupt": "skip",
        "failOnDataLoss": "false",
        "splitBytes": split,
    }
    source = data_source.KafkaLogDataSource(options)
    schema = source.schema()
    names = ("partition", "offset", "value")
    reader = source.reader(type(schema)([each for each in schema if each.name in names]))
    found: dict[str, dict[int, bytes]] = {}
    for task in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(task))):
            for row in batch.to_pylist():
                known = found.setdefault(f"orders-{row['partition']}", {})
                assert row["offset"] not in known
                known[row["offset"]] = row["value"]
    expected = {name: each.records for name, each in made.partitions.items() if each.records}
    assert found == expected
