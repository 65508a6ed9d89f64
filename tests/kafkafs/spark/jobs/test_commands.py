"""`kafkafs spark …` on a terminal: what is printed where, and how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from engine.errors import SourceError
from kafkafs.cli import cli
from kafkafs.cli.options.executors import failure_of
from kafkafs.cli.printing.verbosity import verbosity
from kafkafs.cli.spark import commands as spark_group
from kafkafs.cli.spark.progress import shown_progress
from kafkafs.job_summary import percent, size
from kafkafs.spark.jobs.progress import JobProgress, JobWatch
from tests.fixtures_data import copy_of, log_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = str(log_dir("sample"))
Run = Callable[..., Result]


@pytest.fixture
def run(spark: SparkSession) -> Run:
    """Runs a command in the session of the tests."""

    def running(*arguments: object) -> Result:
        return CliRunner().invoke(cli, ["spark", *map(str, arguments)])

    return running


def test_every_job_has_help_with_an_example() -> None:
    context = click.Context(spark_group.spark)
    for name in spark_group.JOBS:
        command = spark_group.spark.get_command(context, name)
        assert command is not None
        assert f"kafkafs spark {name}" in (command.help or ""), name
        options = [option for each in command.params for option in each.opts]
        assert ("--json" in options) == ("--master" in options), name
    assert spark_group.spark.get_command(context, "none") is None
    assert spark_group.spark.list_commands(context) == sorted(spark_group.JOBS)


def test_without_pyspark_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafs.spark.session.find_spec", lambda _name: None)
    done = CliRunner().invoke(cli, ["stats", SAMPLE, "--spark", "local[2]"])
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "pip install 'kafkafs[spark]'" in line


def test_the_commands_are_known_without_importing_spark() -> None:
    code = (
        "import sys; from kafkafs.cli import cli\n"
        "try: cli.main(['spark', 'export', '--help'])\n"
        "except SystemExit: print([name for name in sys.modules if name.startswith(('pyspark', 'pyarrow', 'py4j'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_export_prints_a_table_or_facts(run: Run, tmp_path: Path) -> None:
    done = run(
        "export", SAMPLE, tmp_path / "out", "--topic", "orders", "--from", "2023-11-14T23:00"
    )
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        *("topic", "partitions", "records", "files", "size", "first", "day", "last", "day"),
    ]
    assert lines[1].split()[:3] == ["orders", "2", "132"]
    assert lines[-1] == f"written  file://{tmp_path}/out (parquet)"
    again = run(
        *("export", SAMPLE, tmp_path / "out", "--topic", "orders", "--resume", "--json"),
        *("--verbose", "--from", "2023-11-14T23:00"),
    )
    facts = json.loads(again.stdout)
    assert (again.exit_code, facts["records"], facts["recordsBefore"]) == (0, 0, 132)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["export", SAMPLE, "{}", "--topic", "none"],
            "no partition matches --topic none; the source has",
        ),
        (["export", SAMPLE, "{}", "-O", "splitByte=1"], "unknown option 'splitbyte'"),
        (["export", SAMPLE, "{}", "--where", "nothing = 1"], "the condition is not valid"),
        (["export", SAMPLE, "{}", "-O", "view=batches"], "this job has no option 'view'"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_what_cannot_be_is_one_line_and_status_2(
    run: Run, tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = run(*[each.format(tmp_path / "out") for each in arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("kafkafs: ")
    assert said in line


@pytest.mark.parametrize(
    "arguments",
    [["--from", "soon"], ["--from", "5"], ["--from", "2024..2025"], ["-O", "x"], ["--conf", "=1"]],
)  # fmt: skip
def test_malformed_arguments_are_refused_before_spark_starts(arguments: list[str]) -> None:
    done = CliRunner().invoke(cli, ["spark", "export", SAMPLE, "out", *arguments])
    assert done.exit_code == 2
    assert "Invalid value" in done.stderr


def test_damage_is_one_line_and_status_3_or_is_skipped_and_1(run: Run, tmp_path: Path) -> None:
    source = copy_of("sample", tmp_path, ["orders-0"])
    path = source / "orders-0" / "00000000000000000395.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = run("export", source, tmp_path / "out")
    assert (done.exit_code, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert str(path) in line
    assert "onCorrupt=skip" in line
    done = run("export", source, tmp_path / "out", "--resume", "--on-corrupt", "skip")
    assert done.exit_code == 1
    assert f"1 places, see file://{tmp_path}/out/_export/damage" in done.stdout


def test_a_source_that_is_none_is_status_3(run: Run, tmp_path: Path) -> None:
    done = run("export", tmp_path / "nothing", tmp_path / "out")
    assert isinstance(done.exception, SourceError)  # which `main` says, with status 3
    assert done.stdout == ""


def test_a_watch_tells_of_its_part_and_leaves_no_trace(spark: SparkSession) -> None:
    told: list[JobProgress] = []
    context = spark.sparkContext
    group = context.getLocalProperty("spark.jobGroup.id")
    context.setJobDescription("mine")
    try:
        with JobWatch(spark, "job", told.append).step("counting", 0.5, 0.75):
            assert context.getLocalProperty("spark.job.description") == "kafkafs job: counting"
            spark.range(100, numPartitions=3).count()
        assert context.getLocalProperty("spark.job.description") == "mine"
    finally:
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    assert context.getLocalProperty("spark.jobGroup.id") == group
    last = told[-1]
    assert (last.step, last.share, last.active, last.failed) == ("counting", 0.75, 0, 0)
    assert last.done == last.tasks == 4


@pytest.mark.parametrize(
    ("is_quiet", "is_verbose", "lines"), [(False, False, 0), (True, False, 0), (False, True, 1)]
)
def test_each_step_is_shown_only_where_it_is_wanted(
    capsys: pytest.CaptureFixture[str], is_quiet: bool, is_verbose: bool, lines: int
) -> None:
    some = JobProgress("step", 0.25, 1, 4, 2, 1)
    with click.Context(click.Command("job")):
        chosen = verbosity()
        chosen.is_quiet, chosen.is_verbose = is_quiet, is_verbose
        with shown_progress("job") as on_progress:
            on_progress(some)
            on_progress(some)
    line = "kafkafs job: 25%, step: 1 of 4 tasks, 2 running, 1 failed\n"
    assert capsys.readouterr().err == line * lines


def test_the_sentence_of_an_error_is_the_innermost_python_error() -> None:
    text = (
        'Job aborted\nTraceback (most recent call last):\n  File "x", line 1, in f\n    raise y\n'
        'ValueError: outer\n\nTraceback (most recent call last):\n  File "x", line 1\n'
        "kafkafs.spark.errors.OptionError: 'view' is one of a, b\n\n\tat java.lang.Thread"
    )
    assert failure_of(RuntimeError(text)) == ("'view' is one of a, b", True)
    plain = RuntimeError("\n[FAILED] It went wrong. SQLSTATE: 42000\n\tat java")
    assert failure_of(plain) == ("[FAILED] It went wrong.", False)


def test_sizes_and_shares_are_said_shortly() -> None:
    said = [size(count) for count in (0, 1023, 1024, 1536 << 20, 1 << 60)]
    assert said == ["0 B", "1023 B", "1.0 KiB", "1.5 GiB", "1024.0 PiB"]
    assert [percent(1, 8), percent(0, 0)] == ["12.5%", "0%"]


def test_without_java_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "kafkafs", "stats", SAMPLE, "--spark", "local[2]"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "Java 17" in line
