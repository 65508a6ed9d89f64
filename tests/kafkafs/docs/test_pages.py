"""The pages of kafkafs/docs and README.md: each link leads somewhere, each page is found, lines are short."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import COMMANDS, cli
from kafkafs.cli.documents import pages
from tests.doc_sessions import DOCUMENTS, ROOT
from tests.fixtures_data import log_dir, truth_records
from tests.schema_truth import schema_log_dir

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


def test_the_examples_of_python_do_what_the_page_says() -> None:
    for library in ("duckdb", "pandas", "polars", "pyarrow"):
        pytest.importorskip(library, reason=f"{library} is not installed: scripts/setup dev")
    text = (ROOT / "kafkafs/docs/python.md").read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    found: dict[str, Any] = {}
    code = code.replace("/var/lib/kafka/data", str(log_dir("current")))
    code = code.replace("/var/lib/kafka/with-schemas", str(schema_log_dir("schemas-confluent")))
    exec(code.replace("payments", "python-avro"), found)
    known = truth_records("current", "orders-0")
    with closing(found["source"]):
        assert found["bounds"] == (0, 1000, 1000)
        assert found["value"] == known[35].value
        assert found["order"]["id"] == 105
        assert found["last"].offset == 999
        assert found["some"] == [100, 101, 102, 103, 104]
        assert found["first_of_day"] is None
        assert found["total"] == sum(len(record.value or b"") for record in known)
        assert len(found["committed"]) == 100
        wanted = [each.offset for each in known if each.key == b"k17"]
        assert set(found["table"]["offset"].to_pylist()) <= set(wanted)
        assert found["frame"]["offset"].to_list() == wanted
        assert found["rows"] == 1000 + len(truth_records("current", "txn-0"))
        assert found["plan"].startswith("1 partition, ")
        keys = Counter(each.key for each in known)
        assert found["busiest"] == sorted(keys.items(), key=lambda item: (-item[1], item[0]))[:3]
        assert found["newest"].height == len(keys)
        assert set(found["groups"]) == {"billing-0", "billing-2"}
        assert len(found["lags"]) >= 2
        assert found["hanging"] == []
        assert found["amounts"] == [Decimal("12.34"), Decimal("37.02")]
        assert found["cluster"].topics["orders"]
        assert found["line"].startswith(b'{"topic":"orders","partition":0,"offset":35,')
        assert found["hour"].count(b"\n") > 100
        assert {"offset", "time", "records"} <= set(found["entries"])


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
