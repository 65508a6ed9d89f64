"""One Spark session for all tests, and the reason when there can be none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kafkafs.spark.session import session, why_not
from tests.kafka import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """Two cores, and three tries of a task; not to be stopped by a test."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PySpark's own making
        found = session(
            "tests",
            master="local[2,3]",
            quick=True,
            settings={
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(home / "warehouse"),
                "spark.local.dir": str(home),
                "spark.driver.memory": "1g",
                "spark.jars": _jars(request.session.items),
            },
        )
    yield found
    found.stop()


def _jars(items: list[pytest.Item]) -> str:
    """Spark's Kafka connector, where a test that is to run needs it; a session takes no jars later on."""
    if not any("connector" in getattr(item, "fixturenames", ()) for item in items):
        return ""
    return ",".join(map(str, jars.connector_jars()))
