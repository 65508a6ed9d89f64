"""The help of each command, its man page and its page on the site agree; kafkafs-tree(5) is the page of the tree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kafkafs.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = """
import contextlib, io, json, sys
sys.path[:0] = ["scripts", "scripts/packaging"]
import docs_site, man_pages
from kafkafs.cli import COMMANDS, cli
from kafkafs.cli.spark.commands import spark

helps = {}
for words in [], *([name] for name in COMMANDS), *(["spark", name] for name in spark.list_commands(None)):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        cli.main([*words, "--help"], prog_name="kafkafs", standalone_mode=False)
    helps["-".join(["kafkafs", *words])] = printed.getvalue()
sites = {path.stem: text for path, text in docs_site.command_pages()}
print(json.dumps({"helps": helps, "manuals": dict(man_pages.pages()), "sites": sites}))
"""


@pytest.fixture(scope="module")
def pages() -> dict[str, dict[str, str]]:
    """Texts by name: what `--help` prints, man pages, pages of the site."""
    # In a process of its own: click keeps the help option of a command's first call, which tests make without `-h`.
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", PAGES],
        cwd=ROOT, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.fixture
def man_pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts" / "packaging")
    import man_pages

    return man_pages


def shown(page: str) -> str:
    """Return what a reader sees of a man page, without the margin."""
    command = ["groff", "-Kutf8", "-man", "-Tutf8", "-ww", "-rLL=200n", "-rHY=0", *("-P" + each for each in ("-c", "-b", "-o", "-u"))]  # fmt: skip
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return re.sub(r"^ {7}", "", done.stdout, flags=re.MULTILINE)


def lines(text: str) -> list[str]:
    """Return the lines that have text, without spaces at their ends."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_each_command_has_a_man_page_that_shows_its_help(pages: dict[str, dict[str, str]]) -> None:
    assert set(pages["manuals"]) == {*(f"{name}.1" for name in pages["helps"]), "kafkafs-tree.5"}
    for name, helped in pages["helps"].items():
        page = shown(pages["manuals"][f"{name}.1"])
        synopsis, _, rest = page.partition("\nDESCRIPTION\n")
        description = lines(rest)[:-1]  # the last line is the page's foot
        usage, *others = lines(helped)
        assert lines(synopsis)[-1] == usage.removeprefix("Usage: "), name
        assert description == others, name
        assert "  -h, --help" in rest, name


def test_each_command_has_its_help_on_the_site(pages: dict[str, dict[str, str]]) -> None:
    assert set(pages["sites"]) == set(COMMANDS)
    for name, helped in pages["helps"].items():
        if name != "kafkafs":
            block = ["# " + name.replace("-", " "), "", "```text", *helped.splitlines(), "```"]
            site = pages["sites"][name.split("-")[1]]
            assert "\n".join(block) in site, name


def test_the_page_of_the_tree_is_a_man_page(pages: dict[str, dict[str, str]]) -> None:
    page = re.sub(r"\s+", " ", shown(pages["manuals"]["kafkafs-tree.5"]))
    source = (ROOT / "kafkafs/docs/tree.md").read_text()
    source = re.sub(r"\[([^][]+)\]\([^)]+\)", r"\1", source)
    text = re.sub(r"^# .*|^```|^- |\*\*|(?<!\w)\*|\*(?!\w)|`", "", source, flags=re.MULTILINE)
    words = [word for word in text.split() if word.isascii()]
    missing = [word for word in words if word not in page.replace("*", "")]
    assert len(words) > 500
    assert missing == []


@pytest.mark.parametrize(
    ("markdown", "body"),
    [
        ("Text\nof *two* lines", ".PP\nText\nof \\fItwo\\fR lines\n"),
        (".so a request\n\n'br one more", ".PP\n\\&.so a request\n.PP\n\\(aqbr one more\n"),
        ("See [`a`](a.md#b), [b](b.md).", ".PP\nSee \\fBa\\fR, b.\n"),
        ("- a `b-c`\n- **d**", ".IP \\(bu 2\na \\fBb\\-c\\fR\n.IP \\(bu 2\n\\fBd\\fR\n"),
        ("```\n.a \\ b~\n```", ".PP\n.nf\n\\&.a \\e b\\(ti\n.fi\n"),
    ],
)
def test_markdown_becomes_roff(man_pages: ModuleType, markdown: str, body: str) -> None:
    assert man_pages.document(f"# Title\n\n{markdown}\n") == f".SH DESCRIPTION\n{body}"


def test_a_page_with_a_table_is_refused(man_pages: ModuleType) -> None:
    with pytest.raises(KeyError, match="table_open"):
        man_pages.document("# Title\n\n| a |\n|---|\n| b |\n")
