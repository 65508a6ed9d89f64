"""`kafkafs spark …` on a terminal: what is printed where, and how it exits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from kafkafs.cli.options.executors import failure_of
from kafkafs.cli.printing.terminal.verbosity import verbosity
from kafkafs.cli.spark import commands as spark_group
from kafkafs.cli.spark.job import shown_progress
from kafkafs.job_summary import percent, size
from kafkafs.spark.jobs.progress import JobProgress, JobWatch
from tests.fixtures_data import log_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = str(log_dir("sample"))


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


@pytest.mark.parametrize(
    "arguments",
    [
        ["spark", "restore", "--help"],
        ["check", SAMPLE],
        ["stats", SAMPLE],
        ["grep", "-c", "Lagos", SAMPLE],
    ],
    ids=" ".join,
)
def test_a_command_without_a_master_imports_no_spark(arguments: list[str]) -> None:
    code = (
        "import sys; from kafkafs.cli import cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "except SystemExit: print([name for name in sys.modules if name.startswith(('pyspark', 'pyarrow', 'py4j'))])"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ["spark", "restore", SAMPLE, "out", "--spark-conf", "=1"],
        ["check", SAMPLE, "--spark", "x", "--spark-conf", "y"],
    ],
)
def test_malformed_properties_are_refused_before_spark_starts(arguments: list[str]) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert "is not NAME=VALUE" in done.stderr


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
