"""Jobs that Spark ends early, since it has the rows that it wants, end without a word on standard error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from kafkafs.spark.session import why_not
from tests.builders import Rec, batch
from tests.kafkafs.built_logs import BuiltLog

RECORDS, BATCHES = 500, 300
SCRIPT = """
import sys
from kafkafs.spark.session import session

spark = session("early", master="local[2]", quick=True, settings={"spark.local.dir": sys.argv[2]})
frame = spark.read.format("kafkalog").load(sys.argv[1])
print(len(frame.limit(5).collect()), len(frame.take(3)), frame.head()["offset"])
spark.stop()
"""


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "never")
def test_the_first_rows_of_a_large_frame_are_given_without_a_traceback(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "source")
    records = [Rec(value=b"v" * 200)] * RECORDS
    log.segment([batch(records, base_offset=RECORDS * number) for number in range(BATCHES)], 0)
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, log.log_dir, tmp_path],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.stdout.split() == ["5", "3", "0"], result.stderr
    assert "BrokenPipe" not in result.stderr
    assert "Traceback" not in result.stderr
