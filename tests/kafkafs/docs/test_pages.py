"""The pages of kafkafs/docs and README.md: each link leads somewhere, each page is found, lines are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkafs.cli import COMMANDS, cli
from kafkafs.cli.documents import pages
from tests.doc_sessions import DOCUMENTS, ROOT
from tests.fixtures_data import log_dir

LINK = re.compile(r"\]\(([^)#\s]*)(?:#[^)]*)?\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
MOST_COLUMNS = 100


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_each_link_leads_to_a_file(document: Path) -> None:
    targets = {first or second for first, second in LINK.findall(document.read_text())} - {""}
    missing = {
        each
        for each in targets
        if "://" not in each and not (document.parent / each).resolve().is_file()
    }
    assert missing == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_prose_has_short_lines(document: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = [line for line in text.splitlines() if not line.startswith("|")]
    assert [line for line in prose if len(line) > MOST_COLUMNS] == []


def test_the_readme_fits_on_a_few_screens() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) < 200
    assert [line for line in lines if len(line) > MOST_COLUMNS] == []


def test_the_example_of_python_reads_a_record() -> None:
    (code,) = re.findall(
        r"^```python\n(.*?)^```",
        (ROOT / "kafkafs/docs/python.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    found: dict[str, bytes] = {}
    exec(code.replace("/var/lib/kafka/data", str(log_dir("sample"))), found)
    assert found["line"].startswith(b'{"topic":"orders","partition":0,"offset":35,')
    assert found["value"].startswith(b'{"id": 105,')
    assert found["hour"].count(b"\n") > 100


def test_help_lists_every_page_with_its_title() -> None:
    printed = CliRunner().invoke(cli, ["help"]).output
    assert [line.split()[0] for line in printed.splitlines()] == sorted(pages())
    assert re.search(r"^rebuild +Rebuild a log dir$", printed, re.MULTILINE)


def test_help_prints_a_page() -> None:
    printed = CliRunner().invoke(cli, ["help", "spark/jobs"]).output
    assert printed == (ROOT / "kafkafs/docs/spark/jobs.md").read_text()


def test_help_refuses_an_unknown_page() -> None:
    done = CliRunner().invoke(cli, ["help", "nope"])
    assert done.exit_code == 2
    assert "there is no page 'nope'; `kafkafs help` lists the pages" in done.output


def test_the_page_of_commands_names_each_command() -> None:
    text = (ROOT / "kafkafs/docs/commands.md").read_text()
    assert [name for name in COMMANDS if f"`kafkafs {name} " not in text] == []
