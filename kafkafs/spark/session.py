"""Spark sessions that read and write log directories: settings, and the check for Java and packages."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from engine.log.tiered.data_keys import VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
QUIET = Path(__file__).with_name("log4j2.properties")
WORKER_PYTHON = Path(__file__).with_name("worker_python.sh")
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of every session. Instants are UTC, and Parquet stores them as other readers expect. By default Spark refuses
to restart a query that was killed while it wrote its first micro-batch (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY).
"""

START_QUICKLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options that halve the start time, for a JVM with little work."""


def why_not() -> str | None:
    """Return what is missing for a session and how to install it; None if nothing is."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
    if missing:
        return f"Spark jobs need {', '.join(missing)}: scripts/setup spark, or pip install 'kafkafs[spark]'"
    if java() is None:
        return "Spark needs Java 17 or later: scripts/setup spark, or apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    return None


def java() -> str | None:
    """Return the `java` that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin") if home else None)


def session(
    name: str = "kafkafs",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    quick: bool = False,
) -> SparkSession:
    """Return the session of this process, with `format("kafkalog")` registered; make it if there is none.

    Args:
        name: name of the application.
        master: master of Spark; by default local[*]. Under spark-submit its --master applies.
        settings: properties of Spark, which override `SETTINGS`.
        quick: start fast rather than run fast.

    Raises:
        RuntimeError: something is missing, see `why_not`.
    """
    reason = why_not()
    if reason is not None:
        raise RuntimeError(reason)
    from pyspark.sql import SparkSession

    from kafkafs.spark.data_source import KafkaLogDataSource

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(name)
    wanted = dict(SETTINGS)
    if not submitted:
        where = master or LOCAL
        builder = builder.master(where)
        wanted |= _of_this_process(where, quick)
    if keys := os.environ.get(VARIABLE):
        wanted[f"spark.executorEnv.{VARIABLE}"] = keys
    wanted |= dict(settings or {})
    if not submitted and "spark.pyspark.python" in wanted:
        # Only spark-submit reads this property; PySpark itself reads the environment.
        os.environ["PYSPARK_PYTHON"] = wanted["spark.pyspark.python"]
    for key, value in wanted.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not submitted and _is_cluster(spark):
        _send_code(spark)  # before register: a data source takes only earlier files along
    spark.dataSource.register(KafkaLogDataSource)
    return spark


def _of_this_process(master: str, quick: bool) -> dict[str, str]:
    """Return the settings of a JVM that this process starts."""
    if master.startswith("local"):
        # By default workers run the first python3 of PATH, which may lack this package.
        os.environ["KAFKAFS_PYTHON"] = sys.executable
        starts_fast = not master.startswith("local-") and os.access(WORKER_PYTHON, os.X_OK)
        os.environ.setdefault(
            "PYSPARK_PYTHON", str(WORKER_PYTHON) if starts_fast else sys.executable
        )
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java_options = f"-Dlog4j2.configurationFile={QUIET.as_uri()}"
    return {
        "spark.driver.extraJavaOptions": f"{java_options} {START_QUICKLY}"
        if quick
        else java_options
    }


def _is_cluster(spark: SparkSession) -> bool:
    """Return whether tasks run in other processes than the driver, perhaps on other machines."""
    master = str(spark.sparkContext.master)
    return master != "local" and not master.startswith("local[")


def _send_code(spark: SparkSession) -> None:
    """Send this package to the executors, once a session, so that they need no installation."""
    from kafkafs.spark.code_archive import ZIP, write_code

    context = spark.sparkContext
    if any(os.path.basename(path) == ZIP for path in context._python_includes or []):
        return
    folder = tempfile.TemporaryDirectory(prefix="kafkafs-code-")
    atexit.register(folder.cleanup)
    context.addPyFile(write_code(folder.name)[0])
