"""Every session in README.md and the pages of kafkafs/docs is run, and prints what the document shows."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.cli.spark.job import shown_progress
from kafkafs.spark.jobs.progress import JobProgress
from tests.doc_sessions import (
    DOCUMENTS,
    PREPARATIONS,
    Session,
    matches,
    output_of,
    run,
    sessions_of,
)


def marks_of(session: Session) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.mount] if session.mounts else []
    if any(re.search(r"kafkafs spark|--spark", step.command) for step in session.steps):
        marks.append(pytest.mark.spark_commands)
    return marks


SESSIONS = [
    pytest.param(each, id=each.name, marks=marks_of(each))
    for document in DOCUMENTS
    for each in sessions_of(document)
]


@pytest.mark.timeout(900)  # some start Spark several times
@pytest.mark.parametrize("session", SESSIONS)
def test_a_session_prints_what_the_document_shows(session: Session, tmp_path: Path) -> None:
    assert session.preparation in PREPARATIONS, "the block has no <!-- session: NAME --> above it"
    for step, found in zip(session.steps, run(session, tmp_path), strict=True):
        shown = "\n".join(step.output)
        assert matches(step.output, found), f"$ {step.command}\n{shown}\n-- but:\n" + "\n".join(
            found
        )


def test_an_ellipsis_stands_for_text_or_lines() -> None:
    assert matches(["a … c", "…", "z"], ["a b c", "x", "y", "z"])
    assert matches(["…"], [])
    assert not matches(["a … c"], ["a b d"])
    assert not matches(["a"], ["a", "b"])
    assert not matches(["a", "b"], ["a"])


@pytest.mark.parametrize("total", [None, 1 << 30])
@pytest.mark.parametrize("count", [900, 5 << 20])
def test_a_line_of_progress_on_a_slow_machine_is_no_output(count: int, total: int | None) -> None:
    progress = Progress("written")
    progress.total = total
    progress.bytes = count
    assert output_of(f"a\n{progress.line(30.0)}\nb\n") == ["a", "b"]


def test_a_line_of_a_jobs_progress_is_no_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Progress, "EVERY", 0)
    with click.Context(click.Command("job")), shown_progress("restore") as on_progress:
        on_progress(JobProgress("writing", 1.0, 2, 2, 0, 0))
    printed = capsys.readouterr().err
    assert printed.startswith("kafkafs restore: 100%")
    assert output_of(f"a\n{printed}b\n") == ["a", "b"]
