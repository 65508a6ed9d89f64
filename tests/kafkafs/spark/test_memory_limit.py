"""Reading takes no more address space for a larger file: spark.executor.pyspark.memory limits just that."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures_data import log_dir, truth_records

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

LIMIT = 640 << 20
FILE_SIZE = 1 << 30
READS = """
import os, resource, sys
os.environ["OMP_NUM_THREADS"] = "1"  # as Spark sets it by the cores of an executor
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
import pyarrow as pa
from kafkafs.spark.source.options.read_options import parse_options
from kafkafs.spark.source.rows import SplitReader
from kafkafs.table.splits.split import plan
from kafkafs.table.splits.split import QueryRange
from engine.log.log_directory import open_source

options = parse_options({"path": sys.argv[1], "onCorrupt": "skip"})
(log,) = open_source(sys.argv[1]).partitions().values()
view = log.view()
wanted = QueryRange(log.topic_partition, view.log_start_offset, view.log_end_offset)
schema = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
count = 0
for split in plan(view, wanted, options.split_bytes):
    count += sum(batch.num_rows for batch in SplitReader(schema, options).read(split))
print(count)
"""


def test_a_segment_larger_than_the_limit_is_read_within_it(tmp_path: Path) -> None:
    name = "orders-0"
    folder = tmp_path / name
    shutil.copytree(log_dir("current") / name, folder)
    first = min(folder.glob("*.log"))
    with first.open("r+b") as file:
        file.truncate(FILE_SIZE)
    assert FILE_SIZE > LIMIT
    command = [sys.executable, "-c", READS, str(folder), str(LIMIT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(truth_records("current", name))
