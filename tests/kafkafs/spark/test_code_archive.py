"""What is sent to a cluster works there alone: with NumPy and PyArrow, and without this package installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine import kernel
from engine.log.log_directory import open_source
from kafkafs.cli.spark.pack import pack
from kafkafs.spark.code_archive import JOB, ZIP, code_archive, write_code
from tests.fixtures_data import log_dir

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

ROOT = Path(__file__).resolve().parents[3]
ON_THE_NODES = ("numpy", "numpy.libs", "pyarrow", "pyarrow.libs", "pandas", "pandas.libs", "dateutil",
                "six.py", "tzdata", "pytz")  # fmt: skip
READS = """
import sys
sys.path.insert(1, sys.argv[1])
from engine import kernel
import pyarrow as pa
from engine.check.log_dir_check import SourceCheck
from engine.log.log_directory import open_source
from kafkafs.spark.source.options.read_options import parse_options
from kafkafs.spark.source.rows import SplitReader
from kafkafs.table.splits.split import plan
from kafkafs.table.splits.split import QueryRange

source = open_source(sys.argv[2])
count = 0
options = parse_options({"path": sys.argv[2]})
for log in source.partitions().values():
    view = log.view()
    wanted = QueryRange(log.topic_partition, view.log_start_offset, view.log_end_offset)
    for split in plan(view, wanted, options.split_bytes):
        reader = SplitReader(pa.schema([pa.field("offset", pa.int64())]), options)
        count += sum(batch.num_rows for batch in reader.read(split))
checked = sum(getattr(event, "records", 0) for event in SourceCheck(source).run())
print(kernel.is_compiled(), kernel.__file__.startswith(sys.argv[1]), count, checked)
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that knows NumPy, pandas and PyArrow, and nothing of this package."""
    return make_node(tmp_path_factory.mktemp("node"))


def make_node(home: Path) -> Path:
    """Make such a Python below a folder; the path of its program."""
    venv.create(home, symlinks=True, with_pip=False)
    packages = next(home.glob("lib/python*/site-packages"))
    here = Path(str(find_spec("numpy").origin)).parents[1]
    for name in ON_THE_NODES:
        if (here / name).exists():
            (packages / name).symlink_to(here / name)
    return home / "bin" / "python"


def _run(program: Path, *arguments: str, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, env=environment, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not kernel.is_compiled(), reason="the kernel was not built")
def test_a_node_reads_and_checks_with_the_zip_file_alone(node: Path, tmp_path: Path) -> None:
    archive, _ = write_code(str(tmp_path / "job"))
    path = log_dir("current")
    answer = _run(node, "-c", READS, archive, str(path), folder=tmp_path).split()
    views = [log.view() for log in open_source(str(path)).partitions().values()]
    assert answer[:2] == ["True", "True"]
    assert 0 < int(answer[2]) <= sum(view.log_end_offset for view in views)
    assert int(answer[3]) >= int(answer[2])


def test_the_texts_of_kafkas_messages_are_read_from_the_zip_file(
    node: Path, tmp_path: Path
) -> None:
    archive, _ = write_code(str(tmp_path / "job"))
    command = (
        "import sys; sys.path.insert(1, sys.argv[1])\n"
        "from engine.topics.internal_topics import METADATA_RECORDS\n"
        "from kafkafs.serve.protocol.api import Api\n"
        "print([each.name for each in METADATA_RECORDS[2].message.fields], Api.FETCH.request.name)"
    )
    shown = _run(node, "-c", command, archive, folder=tmp_path)
    assert shown == "['name', 'topicId'] FetchRequest\n"


def test_a_node_has_nothing_of_it_by_itself(node: Path, tmp_path: Path) -> None:
    command = "import importlib.util as u; print(u.find_spec('kafkafs'), u.find_spec('crc32c'))"
    assert _run(node, "-c", command, folder=tmp_path).split() == ["None", "None"]


def test_the_application_runs_the_jobs_commands(node: Path, tmp_path: Path) -> None:
    archive, job = write_code(str(tmp_path / "job"))
    run = "import sys, runpy; sys.path.insert(1, sys.argv.pop(1)); runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    for words in (["check"], ["spark", "restore"]):
        shown = _run(node, "-c", run, archive, job, *words, "--help", folder=tmp_path)
        assert f"Usage: kafkafs {' '.join(words)} " in shown


def test_pack_writes_both_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "job"
    done = CliRunner().invoke(pack, [str(folder)])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in folder.iterdir()) == [ZIP, JOB]
    assert done.output.startswith(f"spark-submit --py-files {folder / ZIP} {folder / JOB}")


def test_the_same_code_makes_the_same_file(tmp_path: Path) -> None:
    data = code_archive()
    assert data == code_archive()
    (tmp_path / ZIP).write_bytes(data)
    with zipfile.ZipFile(tmp_path / ZIP) as zipped:
        names = set(zipped.namelist())
    assert {
        "engine/kernel/__init__.py",
        "kafkafs/spark/data_source.py",
        "click/__init__.py",
    } <= names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyx")]


def test_a_wheel_has_the_package_that_spark_looks_for() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert "pyspark_kafkalog" in setuptools["packages"]
    folder = ROOT / setuptools["package-dir"]["pyspark_kafkalog"]
    code = (
        "import sys, importlib.util as u, pyspark.sql.datasource\n"
        "before = set(sys.modules)\n"
        "spec = u.spec_from_file_location('pyspark_kafkalog', sys.argv[1])\n"
        "module = u.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "print(module.DefaultSource.name(), sorted(set(sys.modules) - before))"
    )
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
    command = [sys.executable, "-c", code, str(folder / "__init__.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["kafkalog", "[]"]


def test_the_source_that_spark_finds_is_the_one_that_is_registered() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
    from kafkafs.spark.data_source import KafkaLogDataSource
    from kafkafs.spark.pyspark_kafkalog import DefaultSource

    options = {"path": str(log_dir("current")), "subscribe": "orders", "includeheaders": "true"}
    found, registered = DefaultSource(dict(options)), KafkaLogDataSource(dict(options))
    assert found.name() == registered.name()
    schema = registered.schema()
    assert found.schema() == schema
    assert found.reader(schema=schema).partitions() == registered.reader(schema).partitions() != []
    own = {name for name in vars(KafkaLogDataSource) if not name.startswith("_")}
    assert own <= set(vars(DefaultSource)), "a method of the source that Spark would not find"
