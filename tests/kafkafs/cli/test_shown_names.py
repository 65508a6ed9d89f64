"""Every command over folders with hostile names: nothing drives the terminal, --json is JSON."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkafs.cli import main
from tests.fixtures_data import log_dir

NAMES = (
    b"esc\x1b[31mred-0",
    "bidi\u202etxet-0".encode(),
    b"bad\xff\xfe-0",
    b"line\nbreak-0",
    b"notpart\x1b[2J",
)
ESCAPED = (
    r"esc\x1b[31mred-0",
    r"bidi\xe2\x80\xaetxet-0",
    r"bad\xff\xfe-0",
    r"line\x0abreak-0",
    r"notpart\x1b[2J",
)

Run = Callable[..., tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log dir with folders of hostile names."""
    top = tmp_path_factory.mktemp("hostile")
    for name in (*NAMES, b"orders-0"):
        shutil.copytree(
            log_dir("current") / "orders-0", top / name.decode("utf-8", "surrogateescape")
        )
    for name in ("meta.properties", "recovery-point-offset-checkpoint"):
        shutil.copy(log_dir("current") / name, top)
    return top


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """The bytes that a command writes."""

    def call(*arguments: object) -> tuple[bytes, bytes]:
        with pytest.raises(SystemExit):
            main([str(each) for each in arguments])
        return capfdbinary.readouterr()

    return call


COMMANDS = (
    ("ls",), ("ls", "-l"), ("offsets",), ("topics",), ("topics", "--list"), ("check",), ("plan", "--changed-files"),
    ("rebuild", "--dry-run"), ("dump",), ("transactions", "--open"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_names_are_printed_escaped(source: Path, run: Run, command: tuple[str, ...]) -> None:
    out, err = run(command[0], source, *command[1:])
    for text in (out.decode(), err.decode()):
        assert all(each.isprintable() for each in text.replace("\n", "").replace("\t", ""))
        assert not any(name.decode("utf-8", "surrogateescape") in text for name in NAMES)
    if command[0] in ("ls", "check", "dump"):
        assert all(name in out.decode() + err.decode() for name in ESCAPED[:-1])


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("offsets",),
        ("topics",),
        ("check",),
        ("plan",),
        ("dump",),
        ("transactions", "--open"),
    ],
    ids=" ".join,
)
def test_every_line_of_json_is_valid(source: Path, run: Run, command: tuple[str, ...]) -> None:
    out, _ = run(command[0], source, "--json", *command[1:])
    for line in out.decode().splitlines():
        json.dumps(json.loads(line), ensure_ascii=False).encode()
        assert line.isprintable()


def test_the_manifest_of_a_dry_run_is_valid_json(source: Path, run: Run) -> None:
    out, _ = run("rebuild", source, "--dry-run", "--json")
    assert any(r"bad\xff\xfe-0" in each["path"] for each in json.loads(out)["leftOut"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("offsets", "{}"), ("ls", "{}"), ("check", "{}"), ("plan", "{}"), ("dump", "{}"), ("grep", "x", "{}"),
        ("rebuild", "{}", "--dry-run"), ("mount", "{}", "/nowhere"), ("umount", "{}"), ("{}",),
        ("cat", "SOURCE", "{}"), ("ls", "SOURCE", "{}"), ("cp", "SOURCE", "{}", "/nowhere"),
        ("grep", "x", "SOURCE", "{}"), ("check", "SOURCE", "--rule", "{}"), ("offsets", "SOURCE", "--time", "{}"),
        ("dump", "SOURCE", "--from", "{}"), ("rebuild", "SOURCE", "--dry-run", "--from", "{}"),
        ("groups", "SOURCE", "{}"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_error_about_a_name_is_plain_text(
    source: Path, run: Run, arguments: tuple[str, ...]
) -> None:
    name = "none\x1b[2J\u202e\udcff\nx"
    _, err = run(*(str(source) if each == "SOURCE" else each.format(name) for each in arguments))
    text = err.decode()
    assert all(each.isprintable() for each in text.replace("\n", ""))
    assert "Traceback" not in text
