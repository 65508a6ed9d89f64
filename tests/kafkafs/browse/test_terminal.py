"""The command on a real pseudo terminal, and what it does without one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkafs.browse.explorer import Explorer
from kafkafs.browse.session import BrowseSession
from kafkafs.browse.work import InThreads
from kafkafs.cli import cli
from kafkafs.time_grammar import TimeGrammar
from tests.fixtures_data import log_dir
from tests.kafkafs.built_logs import BuiltLog, batches_of, text_batch, tree_over

SAMPLE = str(log_dir("sample"))
_SEQUENCE = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|\x1b\][^\x07]*\x07|([^\x1b])", re.DOTALL)


class Screen:
    """A terminal with a process in it: what it shows, from the few sequences that the command sends."""

    def __init__(self, arguments: list[str], width: int, height: int, **environment: str) -> None:
        self.width, self.height = width, height
        self.raw = ""
        self.pid, self.fd = pty.fork()
        if not self.pid:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
            os.environ.pop("NO_COLOR", None)
            os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8"} | environment)
            os.execv(sys.executable, [sys.executable, "-m", "kafkafs", "browse", *arguments])
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def wait_for(self, text: str, *, seconds: float = 20) -> str:
        """Read until the screen shows a text."""
        end = time.monotonic() + seconds
        while text not in (shown := self.text()):
            left = end - time.monotonic()
            if left <= 0 or not self._read(left):
                pytest.fail(f"no {text!r} on the screen:\n{shown}")
        return shown

    def _read(self, seconds: float) -> bool:
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)

    def text(self) -> str:
        cells = [[" "] * self.width for _ in range(self.height)]
        row = column = 0
        for found in _SEQUENCE.finditer(self.raw):
            if found[2] == "H":
                row, column = (int(each) - 1 for each in found[1].split(";"))
            elif found[2] == "J":
                cells = [[" "] * self.width for _ in range(self.height)]
            elif found[2] == "K" and row < self.height:
                cells[row][column:] = [" "] * (self.width - column)
            elif found[3] and row < self.height and column < self.width:
                cells[row][column] = found[3]
                column += 1
        return "\n".join("".join(each).rstrip() for each in cells)

    def status(self) -> int:
        while self._read(10):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def screen(
    *arguments: str, width: int = 80, height: int = 24, **environment: str
) -> Iterator[Screen]:
    found = Screen(list(arguments), width, height, **environment)
    try:
        yield found
    finally:
        os.close(found.fd)


def test_the_command_shows_moves_searches_and_gives_the_terminal_back() -> None:
    with screen(SAMPLE) as shown:
        shown.wait_for("3 not checked")
        shown.press("\r\r")
        shown.wait_for("2023-11-14T23:03:17Z")
        shown.press("c")
        shown.wait_for("0 errors, 0 warnings")
        shown.press("\x1b[B\r")
        shown.wait_for("395 of 0..1000")
        shown.press("/Lagos\r")
        shown.wait_for("found at offset")
        shown.press("g2023-11-14T22:20:00Z\r")
        shown.wait_for("134 of 0..1000")
        shown.press("\x1b[6~\r")
        shown.wait_for("valueEncoding")
        shown.press("y")
        shown.wait_for("clipboard")
        assert "\x1b]52;c;" in shown.raw
        shown.press("\x1b")
        shown.wait_for("Enter record")
        shown.press("q")
        assert shown.status() == 0
        assert shown.raw.endswith("\x1b[?7h\x1b[?25h\x1b[?1049l")


def test_another_size_is_drawn_anew() -> None:
    with screen(SAMPLE, "orders-0/records") as shown:
        shown.wait_for("0 of 0..1000")
        shown.resize(60, 10)
        shown.wait_for("Enter record  g go to  / find  n N next  ? help  Esc back")
        shown.press("q")
        assert shown.status() == 0


def test_no_colour_is_sent_with_no_color_and_damage_is_bold(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    path = log.segment(batches_of(3), 0)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    for environment, code in ({}, "\x1b[0;31m"), ({"NO_COLOR": "1"}, "\x1b[0;1m! "):
        with screen(str(tmp_path), "orders-0/records", **environment) as shown:
            shown.wait_for("damaged")
            shown.press("j")
            shown.wait_for("1 of 0..")
            shown.press("q")
            assert shown.status() == 0
            assert code in shown.raw
            assert bool(re.search(r"\x1b\[[\d;]*3\d", shown.raw)) == (not environment)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(number: signal.Signals) -> None:
    with screen(SAMPLE) as shown:
        shown.wait_for("3 not checked")
        os.kill(shown.pid, number)
        shown.status()
        assert "\x1b[?1049l" in shown.raw


def test_a_dumb_terminal_gets_one_screen_and_a_sentence() -> None:
    with screen(SAMPLE, TERM="dumb") as shown:
        assert shown.status() == 0
        assert "TERM=dumb cannot move a cursor" in shown.raw
        assert "orders" in shown.raw
        assert "\x1b" not in shown.raw


def test_keys_come_from_the_terminal_where_standard_input_is_the_source() -> None:
    file = log_dir("sample") / "orders-0" / f"{0:020}.log"
    master, slave = pty.openpty()
    command = f'"{sys.executable}" -m kafkafs browse - < "{file}"'
    child = subprocess.Popen(
        ["setsid", "-c", "-w", "sh", "-c", command], stdin=slave, stdout=slave, stderr=slave,
        env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(slave)
    text = ""
    while "Enter records" not in text and select.select([master], [], [], 30)[0]:
        text += os.read(master, 65536).decode("utf-8", "replace")
    assert "offsets 0..395" in text
    os.write(master, b"q")
    assert child.wait(30) == 0
    os.close(master)


def test_into_a_pipe_goes_the_first_screen_as_text() -> None:
    done = CliRunner().invoke(cli, ["browse", SAMPLE, "orders-0/offset/35"])
    assert done.exit_code == 0
    assert '"city": "Zürich"' in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("order-0", "did you mean"),
        ("orders-0/offset/1000", "no record"),
        ("orders-0/state", "browse opens"),
    ],
)
def test_a_path_that_is_not_there_is_one_line_and_status_3(path: str, reason: str) -> None:
    command = [sys.executable, "-m", "kafkafs", "browse", SAMPLE, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)
    assert reason in done.stderr


def test_a_file_is_never_written_into_the_source(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    log.segment(batches_of(1), 0)
    before = sorted(path.name for path in (tmp_path / "data").rglob("*"))
    with screen(str(log.log_dir), "orders-0/records") as shown:
        shown.wait_for("0 of 0..10")
        shown.press(f"w{log.log_dir}/orders-0/out\r")
        shown.wait_for("nothing is written into the source")
        shown.press(f"w{tmp_path}/out\rw{tmp_path}/out\r")
        shown.wait_for("appended")
        shown.press("q")
        assert shown.status() == 0
    assert sorted(path.name for path in (tmp_path / "data").rglob("*")) == before
    assert len((tmp_path / "out").read_text().splitlines()) == 2


def test_a_live_log_is_followed_from_its_end(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment(batches_of(1), 0)
    with screen(str(tmp_path), "orders-0/records") as shown:
        shown.wait_for("of 0..10,")
        shown.press("\x1b[F")
        shown.wait_for("9 of 0..10")
        log.append(text_batch(10, 30))
        shown.wait_for("39 of 0..40")
        shown.press("q")
        assert shown.status() == 0


def test_a_search_can_be_stopped() -> None:
    with tree_over(log_dir("sample")) as tree:
        runner = InThreads(lambda: None)
        session = BrowseSession(tree, runner, lambda: TimeGrammar(0), lambda *_: "", lambda _: None)
        explorer = Explorer(session, "orders-0/records")
        explorer.lines(80, 24)
        steps = iter(int, 1)

        def endless():
            for _ in steps:
                time.sleep(0.001)
                yield "searching"

        session.start(endless(), lambda _: pytest.fail("was stopped"))
        job = session.job
        assert job is not None
        assert "Esc stops it" in explorer.lines(80, 24)[-2].text
        explorer.press("escape")
        assert job.is_over
        assert len(explorer.screens) == 3
        time.sleep(0.05)
        runner.deliver()
        assert "stopped" in explorer.lines(80, 24)[-2].text
