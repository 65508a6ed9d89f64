"""A sample of the soak of unreadable sectors below Spark. All of it: tests/damage/spark_sectors.py."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from kafkafs.spark.session import why_not
from tests.damage.spark_sectors import main


@pytest.mark.spark_commands
@pytest.mark.timeout(600)
@pytest.mark.skipif(why_not() is not None, reason=why_not() or "never")
def test_spark_jobs_lose_exactly_the_batches_in_each_sector() -> None:
    assert main(["--seed", "32", "--sectors", "12"]) == 0
