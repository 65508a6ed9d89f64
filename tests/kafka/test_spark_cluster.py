"""On a cluster whose nodes have NumPy and PyArrow but not this package: executors in other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from kafkafs.spark.code_archive import write_code
from kafkafs.spark.session import why_not
from tests.doc_sessions import output_of
from tests.fixtures_data import log_dir, truth_partitions, truth_records
from tests.kafkafs.spark.test_code_archive import make_node

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(int(os.environ.get("KAFKAFS_CLUSTER_SECONDS", "300"))),
]

MASTER = "local-cluster[2,1,1024]"
SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.pyspark.memory": "768m",
    "spark.ui.enabled": "false",
    "spark.task.maxFailures": "2",
}
READS = """
import json, os, sys
from kafkafs.spark import read
from kafkafs.spark.session import session

spark = session("cluster", master=sys.argv[1], settings=json.loads(sys.argv[2]), quick=True)


def where(_):
    import resource
    from engine import kernel
    yield os.getcwd(), sys.executable, kernel.is_compiled(), kernel.__file__, resource.getrlimit(resource.RLIMIT_AS)[0]


nodes = spark.sparkContext.parallelize(range(8), 8).mapPartitions(where).collect()
frame = read(spark, sys.argv[3], columns=["topic", "partition", "offset", "value"])
rows = [tuple(row) for row in frame.groupBy("topic", "partition").agg({"offset": "count"}).collect()]
print(json.dumps({"nodes": nodes, "rows": rows}))
spark.stop()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Spark whose workers write beside it, and not into the package that is installed."""
    folder = tmp_path_factory.mktemp("spark-home")
    installed = Path(str(find_spec("pyspark").origin)).parent
    for entry in installed.iterdir():
        if entry.name != "work":
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the nodes."""
    return make_node(tmp_path_factory.mktemp("node"))


def _run(command: list[str], home: Path, node: Path, driver: Path) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(node),
        "PYSPARK_DRIVER_PYTHON": str(driver),
    }
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True)


def test_a_session_on_a_cluster_sends_the_package_to_executors_that_do_not_have_it(
    home: Path, node: Path
) -> None:
    driver = Path(sys.executable)
    code = f"import sys; sys.path.insert(0, {os.getcwd()!r})\n" + READS
    path = str(log_dir("current"))
    done = _run([str(driver), "-c", code, MASTER, json.dumps(SMALL), path], home, node, driver)
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert len({folder for folder, *_ in answer["nodes"]}) == 2, "one executor did it all"
    for folder, program, is_compiled, file, limit in answer["nodes"]:
        assert folder.startswith(str(home / "work"))
        assert program == str(node)
        assert (is_compiled, file) == (True, "./kafkafs.zip/engine/kernel/__init__.py")
        assert limit == 768 << 20
    found = {f"{topic}-{partition}": count for topic, partition, count in answer["rows"]}
    expected = {
        name: len(truth_records("current", name))
        for name in truth_partitions("current")
        if not name.startswith("__") and not name.endswith("-delete")
    }
    assert found == {name: count for name, count in expected.items() if count}


@pytest.mark.parametrize(
    "arguments",
    [["check", "--json"], ["stats", "--json"], ["stats", "--keys"], ["grep", "-c", "a"]],
    ids=" ".join,
)
def test_spark_submit_runs_a_command_with_what_pack_wrote_and_nothing_else(
    home: Path, node: Path, tmp_path: Path, arguments: list[str]
) -> None:
    archive, job = write_code(str(tmp_path / "job"))
    settings = [part for name, value in SMALL.items() for part in ("--conf", f"{name}={value}")]
    submit = [str(home / "bin" / "spark-submit"), "--master", MASTER, *settings]
    words = [*arguments, str(log_dir("current"))]
    done = _run([*submit, "--py-files", archive, job, *words], home, node, node)
    here = CliRunner().invoke(cli, words)
    assert done.returncode == here.exit_code, done.stderr[-4000:]
    # spark-submit writes both to standard output.
    assert output_of(done.stdout) == output_of(here.stdout + here.stderr)


def test_a_command_with_a_master_sends_the_package_itself(home: Path, node: Path) -> None:
    words = ["grep", "Lagos", str(log_dir("sample"))]
    settings = [
        part for name, value in SMALL.items() for part in ("--spark-conf", f"{name}={value}")
    ]
    code = f"import sys; sys.path.insert(0, {os.getcwd()!r}); from kafkafs.cli import main; main(sys.argv[1:])"
    driver = Path(sys.executable)
    command = [str(driver), "-c", code, *words, "--spark", MASTER, *settings]
    done = _run(command, home, node, driver)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == CliRunner().invoke(cli, words).stdout
