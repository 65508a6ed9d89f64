"""The command on a terminal: a pseudo-terminal of a given width, pipes, interrupts, and completion in a shell."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from engine.kernel import compiled
from kafkafs.cli import COMMANDS, CommandTask, cli
from kafkafs.cli.completing.shells import script
from kafkafs.cli.printing import version
from kafkafs.cli.printing.terminal.progress import Progress, size
from tests.fixtures_data import log_dir

SAMPLE = str(log_dir("sample"))
KAFKAFS = [sys.executable, "-m", "kafkafs"]
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(
    *arguments: str, columns: int = 80, interrupt_at: bytes | None = None, **variables: str
) -> tuple[int, bytes, list[int]]:
    """Run the command on a pseudo-terminal; return its status, what the terminal got, and the modes that changed."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    before = termios.tcgetattr(terminal)
    environment = {**os.environ, "TERM": "xterm", **variables}
    for name in ("COLUMNS", "LINES", *(() if "NO_COLOR" in variables else ("NO_COLOR",))):
        environment.pop(name, None)
    child = subprocess.Popen(
        [*KAFKAFS, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        start_new_session=True,
        # A shell's job in the background ignores interrupts, and so do the processes that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([main], [], [], 0.2)[0]:
            shown += os.read(main, 65536)
        elif child.poll() is not None:
            break
        if interrupt_at is not None and interrupt_at in shown:
            child.send_signal(signal.SIGINT)
            interrupt_at = None
    status = child.wait(10)
    after = termios.tcgetattr(terminal)
    os.close(main)
    os.close(terminal)
    return status, shown, [place for place in range(4) if before[place] != after[place]]


def every_command(command: click.Command = cli, path: Sequence[str] = ()) -> list[list[str]]:
    """The words of each command and of each command below it."""
    found = [list(path)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += every_command(below, [*path, name])
    return found


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_help_fits_80_columns(words: list[str]) -> None:
    text = CliRunner().invoke(cli, [*words, "--help"], env={"COLUMNS": "200"}).stdout
    assert [line for line in text.splitlines() if len(line) > 80] == []
    _, commands, listed = text.partition("Commands:" if words else f"{CommandTask.LOOK.value}:")
    assert not commands or "..." not in listed  # no summary is cut


def test_each_command_is_listed_once_under_what_it_is_for() -> None:
    text = CliRunner().invoke(cli, ["--help"]).stdout
    parts = {task: text.index(f"\n{task.value}:\n") for task in CommandTask}
    places = {name: text.index(f"\n  {name} ", parts[CommandTask.LOOK]) for name in COMMANDS}
    for name, place in places.items():
        assert max(at for at in parts.values() if at < place) == parts[COMMANDS[name].task]
        assert text.count(f"\n  {name} ", parts[CommandTask.LOOK]) == 1


def test_help_is_narrow_on_a_narrow_terminal() -> None:
    status, shown, changed = on_terminal("check", "--help", columns=50)
    assert (status, changed) == (0, [])
    # The examples are as they are written.
    lines = [line for line in shown.decode().split("\r\n") if "kafkafs check" not in line]
    assert [line for line in lines if len(line) > 50] == []


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}], ids=str)
def test_results_on_a_terminal_are_plain_text(variables: dict[str, str]) -> None:
    status, shown, _ = on_terminal("offsets", SAMPLE, columns=20, **variables)
    assert status == 0
    assert shown.split() == [b"orders:0:1000", b"orders:1:1000", b"txn:0:661"]


def words_of(text: bytes) -> set[str]:
    return set(text.decode().split())


@pytest.mark.parametrize("columns", [40, 60, 200])
@pytest.mark.parametrize("words", [["groups"], ["transactions"], ["transactions", "--open"]])
def test_tables_fit_a_narrow_terminal_and_keep_their_values(words: list[str], columns: int) -> None:
    source = str(log_dir("current"))
    at = ("--at", "2026-11-22") if words[0] == "transactions" else ()
    piped = subprocess.run([*KAFKAFS, *words, source, *at], capture_output=True, check=False)
    status, shown, _ = on_terminal(*words, "-q", source, *at, columns=columns)
    assert status == piped.returncode
    assert [line for line in shown.decode().splitlines() if len(line) > columns] == []
    missing = words_of(piped.stdout) - words_of(shown)
    assert columns == 40 or not missing
    cut = [word.split("…") for word in words_of(shown) if "…" in word]
    for word in missing:
        assert any(word.startswith(start) and word.endswith(end) for start, end in cut), word
    assert max(map(len, piped.stdout.decode().splitlines())) > 60


def test_a_long_name_is_cut_in_its_middle_on_a_terminal_alone() -> None:
    source = str(log_dir("current"))
    _, shown, _ = on_terminal("stats", "-q", source, "-p", "n*-0", columns=60)
    line = next(line for line in shown.decode().splitlines() if line.startswith("nnn"))
    assert re.match(r"n+…n+-0  \d", line)
    assert len(line) <= 60
    piped = subprocess.run(
        [*KAFKAFS, "stats", source, "-p", "n*-0"], capture_output=True, check=True
    )
    assert "…" not in piped.stdout.decode()


@pytest.mark.parametrize("name", ["NO_COLOR", "TERM"])
def test_errors_are_plain_lines(name: str) -> None:
    status, shown, _ = on_terminal(
        "cat", SAMPLE, "orders-0/offset/5000", columns=30, **{name: "dumb"}
    )
    assert status == 3
    assert ESCAPE.search(shown) is None
    assert b"log start 0, end 1000" in b" ".join(shown.split())
    assert shown.startswith(b"kafkafs: ")


def test_an_interrupt_ends_at_once_with_130_and_the_terminal_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    for number in range(40):
        shutil.copytree(Path(SAMPLE) / "orders-0", tmp_path / "big" / f"orders-{number}")
    status, shown, changed = on_terminal(
        "cat", str(tmp_path / "big"), *(f"orders-{number}/offset/0.." for number in range(40)),
        interrupt_at=b'"offset":500,',
    )  # fmt: skip
    assert (status, changed) == (130, [])
    assert b"Traceback" not in shown
    assert b'"partition":39' not in shown


def test_head_ends_the_command_silently_as_it_ends_cat() -> None:
    line = (
        f"{' '.join(KAFKAFS)} cat {SAMPLE} orders-0/offset/0.. | head -n 1; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    record, status = done.stdout.splitlines()
    assert record.startswith('{"topic":"orders"')
    assert (status, done.stderr) == ("141", "")


@pytest.mark.parametrize(
    "words",
    [
        ("offsets", SAMPLE),
        ("cat", SAMPLE, "orders-0/offset/1"),
        ("--help",),
        ("grep", "-c", "a", SAMPLE),
    ],
)
def test_a_full_disk_is_one_line_and_status_3(words: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*KAFKAFS, *words], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3
    assert done.stderr == b"kafkafs: cannot write the output: No space left on device\n"


def completed(*words: str) -> list[str]:
    """What a shell is offered for the last word."""
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        KAFKAFS,
        env={**os.environ, **asked, "_KAFKAFS_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gr",), ["grep", "groups"]),
        (("cat", SAMPLE, "ord"), ["orders-0/", "orders-1/"]),
        (("cat", SAMPLE, "orders-0/of"), ["orders-0/offset/"]),
        (("grep", "Lagos", SAMPLE, "orders-1/rec"), ["orders-1/records/"]),
        (("grep", "-e", "Lagos", SAMPLE, "orders-1/rec"), ["orders-1/records/"]),
        (("cat", f"{SAMPLE}/orders-0", "offset/ear"), ["offset/earliest"]),
        (("check", SAMPLE, "--topic", "o"), ["orders"]),
        (("offsets", SAMPLE, "--topic", "txn,o"), ["txn,orders"]),
        (("check", SAMPLE, "--partition", "orders-"), ["orders-0", "orders-1"]),
        (("check", "--rule", "gap-h"), ["gap-held"]),
        (("help", "rebui"), ["rebuild"]),
        (("offsets", "--topic-p"), ["--topic-partitions"]),
        (("cat", "/nowhere", "ord"), []),
        (("groups", str(log_dir("current")), "no-such"), []),
    ],
    ids=lambda value: " ".join(value),
)
def test_names_in_the_source_are_completed(words: tuple[str, ...], expected: list[str]) -> None:
    assert completed("kafkafs", *words) == expected


def test_groups_are_completed() -> None:
    groups = CliRunner().invoke(cli, ["groups", str(log_dir("current")), "--list"]).stdout.split()
    assert groups
    assert groups[0] in completed("kafkafs", "groups", str(log_dir("current")), groups[0][:2])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    printed = CliRunner().invoke(cli, ["completion", shell])
    assert (printed.exit_code, printed.output) == (0, script(shell))
    assert f"_KAFKAFS_COMPLETE={shell}_complete" in printed.stdout
    if shell != "fish":  # no space after a folder
        assert {"bash": "-o nospace", "zsh": "-S ''"}[shell] in printed.stdout


def test_bash_completes_by_the_script(tmp_path: Path) -> None:
    command = tmp_path / "kafkafs"
    command.write_text(f'#!/bin/sh\nexec {" ".join(KAFKAFS)} "$@"\n')
    command.chmod(0o755)
    lines = f"""
        PATH={tmp_path}:$PATH
        eval "$(kafkafs completion bash)"
        compopt() {{ echo "compopt $*"; }}
        COMP_WORDS=(kafkafs cat {SAMPLE} ord) COMP_CWORD=3
        _kafkafs_completion kafkafs
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "orders-0/ orders-1/"
    assert "nospace" in done.stdout


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_says_what_it_runs_with(option: str) -> None:
    lines = CliRunner().invoke(cli, [option]).stdout.splitlines()
    assert lines[0].startswith("kafkafs ")
    names = [line.split()[0] for line in lines[1:]]
    assert names[:3] == ["kernel", "codecs", "python"]
    assert {"numpy", "pyfuse3"} <= set(names)
    assert lines[2].startswith("codecs   none, gzip (")


def test_the_version_names_the_library_of_each_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = CliRunner().invoke(cli, ["-V"]).stdout.splitlines()
    assert re.fullmatch(
        r"codecs   none, gzip \(libdeflate\), snappy \(libsnappy\), lz4 \(liblz4 1[\d.]+\), zstd \(libzstd 1[\d.]+\)",
        lines[2],
    )
    monkeypatch.setattr(compiled, "codec_library", lambda _: None)
    for package, found in ("cramjam", r"cramjam [\d.]+"), ("no-such-package", "not installed"):
        monkeypatch.setattr(version, "FALLBACK", package)
        assert re.fullmatch(
            rf"none, gzip \(zlib [\d.]+\), snappy \({found}\), lz4 \({found}\), zstd \({found}\)",
            ", ".join(version.codecs()),
        )


def test_a_command_that_is_nearly_one_is_proposed() -> None:
    for name in COMMANDS:
        done = CliRunner().invoke(cli, [name + "x"])
        assert done.exit_code == 2
        assert f"Did you mean '{name}'?" in done.stderr


def test_without_a_terminal_progress_is_a_line_of_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Progress, "EVERY", 0.01)
    with Progress("checked") as progress:
        progress.total = 4 << 30
        progress.advance(1 << 30)
        assert progress.line(8) == "kafkafs: checked: 1.0 GiB of 4.0 GiB, 128.0 MiB/s, 0m 24s left"
        while not (said := capsys.readouterr().err):
            time.sleep(0.01)
    assert said.startswith("kafkafs: checked: 1.0 GiB of 4.0 GiB, ")
    with Progress("checked", quiet=True) as progress:
        progress.advance(1)
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
    assert [size(count) for count in (0, 1023, 1024, 1 << 45)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "32.0 TiB",
    ]
