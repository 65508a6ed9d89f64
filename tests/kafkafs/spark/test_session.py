"""The session that jobs and tests run in."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkafs.spark import session as module
from tests.fixtures_data import log_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_knows_the_source_and_counts_in_utc(spark: SparkSession) -> None:
    frame = spark.read.format("kafkalog").load(str(log_dir("current")))
    assert frame.columns[:4] == ["key", "value", "topic", "partition"]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_python_workers_are_of_this_python(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert found == [sys.executable]


def test_what_is_missing_is_said_with_a_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "pyspark" else object())
    assert str(module.why_not()).startswith("Spark jobs need pyspark: scripts/setup spark")
    with pytest.raises(RuntimeError, match="scripts/setup spark"):
        module.session()


def test_java_is_looked_for_in_java_home_and_then_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "Java 17" in str(module.why_not())
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Java 17" in str(module.why_not())


def test_no_command_imports_pyspark_before_it_is_asked_for() -> None:
    code = "import sys, kafkafs.cli, kafkafs.spark, kafkafs.spark.session; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("master", ["local[1]", "local-cluster[1,1,1024]", "spark://host:7077"])
def test_the_python_of_the_settings_is_that_of_the_workers(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    given: dict[str, str] = {}

    class Builder:
        def appName(self, _: str) -> Builder:  # noqa: N802
            return self

        def master(self, _: str) -> Builder:
            return self

        def config(self, name: str, value: str) -> Builder:
            given[name] = value
            return self

        def getOrCreate(self) -> None:  # noqa: N802
            raise LookupError(os.environ["PYSPARK_PYTHON"])

    monkeypatch.setattr(SparkSession, "builder", Builder())
    monkeypatch.setattr(module, "why_not", lambda: None)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "KAFKAFS_PYTHON"):
        monkeypatch.setenv(name, "the environment's")
    with pytest.raises(LookupError, match="/opt/env/bin/python"):
        module.session(master=master, settings={"spark.pyspark.python": "/opt/env/bin/python"})
    assert given["spark.pyspark.python"] == "/opt/env/bin/python"


def test_workers_do_not_import_pyspark_from_a_zip(spark: SparkSession) -> None:
    def place(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    (found,) = spark.sparkContext.parallelize([0], 1).map(place).collect()
    assert ".zip" not in found
