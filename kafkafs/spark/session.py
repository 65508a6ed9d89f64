"""A Spark session that reads and writes log directories: its settings, and what must be there for one."""

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
"""Of every session: instants are UTC, and Parquet has them as other readers know them. Spark refuses to start a query
again that was killed while it noted its first micro-batch (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY), unless told not
to look for such remains."""

START_QUICKLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Half the seconds of the start, for a JVM whose work is short."""


def why_not() -> str | None:
    """What is missing for a session here and how to get it; None when nothing is."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
    if missing:
        return f"Spark jobs need {', '.join(missing)}: scripts/setup spark, or pip install 'kafkafs[spark]'"
    if java() is None:
        return "Spark needs Java 17 or later: scripts/setup spark, or apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    return None


def java() -> str | None:
    """The `java` that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin") if home else None)


def session(
    name: str = "kafkafs",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    quick: bool = False,
) -> SparkSession:
    """The session of this process, made when there is none, that knows `format("kafkalog")`.

    Args:
        name: of the application.
        master: of the cluster; local[*] by default. Under spark-submit its own counts.
        settings: of Spark, over those of `SETTINGS`.
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
    wanted |= dict(settings or {})
    if not submitted and "spark.pyspark.python" in wanted:
        # Only spark-submit looks at this setting; PySpark itself asks the environment.
        os.environ["PYSPARK_PYTHON"] = wanted["spark.pyspark.python"]
    for key, value in wanted.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not submitted and _is_cluster(spark):
        _send_code(spark)  # a data source takes along what was sent before it was registered
    spark.dataSource.register(KafkaLogDataSource)
    return spark


def _of_this_process(master: str, quick: bool) -> dict[str, str]:
    """Settings for a JVM that this process starts."""
    if master.startswith("local"):
        # Python workers would be the first python3 of PATH, which does not know this package.
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
    """Whether tasks run in other processes than the driver, which may be on other machines."""
    master = str(spark.sparkContext.master)
    return master != "local" and not master.startswith("local[")


def _send_code(spark: SparkSession) -> None:
    """Have executors get this package, once a session; they need not have it installed."""
    from kafkafs.spark.code_archive import ZIP, write_code

    context = spark.sparkContext
    if any(os.path.basename(path) == ZIP for path in context._python_includes or []):
        return
    folder = tempfile.TemporaryDirectory(prefix="kafkafs-code-")
    atexit.register(folder.cleanup)
    context.addPyFile(write_code(folder.name)[0])
