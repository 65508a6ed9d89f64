"""Every command on a terminal: no line is wider than it but for a long word, and none has colours that were refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import click
import pytest

from kafkafs.cli import COMMANDS, main
from kafkafs.cli.printing.terminal import output, table
from kafkafs.cli.printing.terminal.columns import shown_width
from tests.fixtures_data import DATA, log_dir
from tests.kafkafs.cli.test_terminal import ESCAPE, on_terminal

WIDTHS = (60, 80, 120)
RUNS: dict[str, list[str]] = {
    "check": ["check", "SOURCE"],
    "check a replica": ["check", "SOURCE", "--replica", str(log_dir("current"))],
    "check the rules": ["check", "--list-rules"],
    "diff": ["diff", "SOURCE", "--at", "orders-0@500"],
    "du": ["du", "SOURCE"],
    "erase": ["erase", "--plan", "--key", "k1", "SOURCE"],
    "export": ["export", "SOURCE", "TARGET", "--on-corrupt", "skip", "--format", "jsonl"],
    "get": ["get", "SOURCE", "orders", "nobody"],
    "grep": ["grep", "-c", "nobody", "SOURCE"],
    "groups": ["groups", "SOURCE"],
    "groups and times": ["groups", "--times", "SOURCE"],
    "groups and commits": ["groups", "--history", "SOURCE"],
    "groups and members": ["groups", "--members", "SOURCE"],
    "groups and states": ["groups", "--state", "SOURCE"],
    "help": ["help"],
    "plan": ["plan", "SOURCE"],
    "plan all": ["plan", "--unclean", "--changed-files", "SOURCE"],
    "rebuild": ["rebuild", "SOURCE", "TARGET"],
    "recover": ["recover", "--plan", "SOURCE"],
    "report": ["report", "SOURCE", "-o", "PAGE", "--quiet"],
    "schemas": ["schemas", str(DATA / "schemas-confluent" / "data")],
    "sql": ["sql", 'select * exclude (headers) from orders where "offset" < 3', "SOURCE"],
    "stats": ["stats", "SOURCE", "-t", "orders,compacted"],
    "stats of keys": ["stats", "--keys", "SOURCE", "-t", "orders"],
    "stats by hour": ["stats", "--hours", "SOURCE", "-t", "orders"],
    "transactions": ["transactions", "SOURCE"],
    "transactions open": ["transactions", "--open", "SOURCE"],
    "a wrong name": ["cat", "SOURCE", "orders-7/offset/3", "orders-0/offset/9999"],
    "a wrong option": ["cat", "SOURCE", "--from", "soon", "-t", "orders"],
    "a wrong folder": ["stats", str(DATA)],
    "head": ["head", "SOURCE", "-t", "nothing"],
    "tail": ["tail", "SOURCE", "-t", "orders", "-o", "end"],
    "version": ["-V"],
}
ONLY_DATA = {
    "cat": "records", "dump": "DumpLogSegments' lines", "ls": "a name each", "offsets": "GetOffsetShell's lines",
    "topics": "kafka-topics' lines", "completion": "a script", "cp": "nothing", "mount": "nothing", "umount": "nothing",
    "serve": "a log", "browse": "a screen", "top": "in tests/mount", "spark": "in tests/kafkafs/spark",
}  # fmt: skip


def test_every_command_is_here() -> None:
    assert {words[0] for words in RUNS.values()} | ONLY_DATA.keys() >= COMMANDS.keys()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("d") / "d"
    shutil.copytree(log_dir("current"), folder)
    for log in (folder / "orders-0").glob("*.log"):
        content = bytearray(log.read_bytes())
        content[len(content) // 2] ^= 1
        log.write_bytes(content)
    return folder


def words_of(name: str, source: Path, target: Path) -> list[str]:
    (target / "page").unlink(missing_ok=True)
    named = {"SOURCE": str(source), "TARGET": str(target / "out"), "PAGE": str(target / "page")}
    return [named.get(word, word) for word in RUNS[name]]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RUNS)
def test_no_line_is_wider_than_the_terminal_but_for_a_long_word(
    name: str,
    width: int,
    damaged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def shown(columns: int | None) -> str:
        for module in (output, table):
            monkeypatch.setattr(module, "terminal_columns", lambda _: columns)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        with pytest.raises(SystemExit):
            main(words_of(name, damaged, tmp_path))
        return click.unstyle("".join(capsys.readouterr()))

    text = shown(width)
    for line in text.splitlines():
        assert shown_width(line) <= width or len(line.split()) == 1, line
    assert words(text) >= {word for word in words(shown(None)) if len(word) < width // 4}


def words(text: str) -> set[str]:
    """The words of a text, without times that a run takes and times of day."""
    return set(re.sub(r"\d+\.\d+ s|\d\d:\d\d:\d\d", "", text).split())


def test_a_wide_sparkline_is_one_word() -> None:
    assert output.wrapped("abc " * 9, 12).splitlines() == ["abc abc abc"] + ["  abc abc"] * 3


@pytest.mark.parametrize("name", ["check", "report", "plan", "stats", "rebuild", "export"])
@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_that_were_refused_are_nowhere(
    name: str, variable: str, value: str, damaged: Path, tmp_path: Path
) -> None:
    command = words_of(name, damaged, tmp_path)
    _, shown, _ = on_terminal(*command, columns=100, **{variable: value})
    colours = [each for each in ESCAPE.findall(shown) if each.endswith(b"m") and each != b"\x1b[0m"]
    assert colours == []
    assert variable != "TERM" or ESCAPE.search(shown) is None


@pytest.mark.parametrize("name", ["check", "report"])
def test_a_terminal_gets_colours_else(name: str, damaged: Path, tmp_path: Path) -> None:
    _, shown, _ = on_terminal(*words_of(name, damaged, tmp_path), columns=100)
    assert re.search(rb"\x1b\[3[136]m", shown)
