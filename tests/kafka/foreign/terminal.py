"""A program in a terminal: what is on its screen, and keys."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

COLUMNS, LINES = 340, 50
SECONDS = 60

Row = list[str]


def cells(text: str) -> Row:
    """A text, cut at two spaces."""
    return re.split(r" {2,}", text)


class Terminal:
    """A terminal of tmux, whose server has a socket of its own."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-u", "-f", "/dev/null", "-S", str(socket)]

    def run(self, *words: str, environment: Mapping[str, str] | None = None) -> str:
        """What a command of tmux prints."""
        done = subprocess.run(
            [*self._tmux, *words], env=environment, capture_output=True, check=True, timeout=SECONDS
        )
        return done.stdout.decode()

    def press(self, *keys: str) -> None:
        """Press keys, by their names in tmux."""
        self.run("send-keys", *keys)

    def wait_until(self, shown: Callable[[list[Row]], bool]) -> None:
        """Wait until the screen shows rows: what is between its vertical lines, in cells."""
        end = time.monotonic() + SECONDS
        while True:
            screen = self.run("capture-pane", "-p")
            pieces = (piece.strip() for line in screen.splitlines() for piece in line.split("│"))
            rows = [cells(piece) for piece in pieces if piece]
            if shown(rows):
                return
            assert time.monotonic() < end, screen
            time.sleep(0.1)

    def wait_for(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.wait_until(lambda rows: any(text in cell for row in rows for cell in row))

    def wait_for_row(self, *cells: str) -> None:
        """Wait until a row is on the screen."""
        self.wait_until(lambda rows: list(cells) in rows)


@contextmanager
def terminal(command: str, folder: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """A terminal in which a command runs, until the end of the block.

    Args:
        command: for the shell.
        folder: gets the socket.
        environment: of the command.
    """
    found = Terminal(folder / "tmux")
    size = ("-x", str(COLUMNS), "-y", str(LINES))
    found.run("new-session", "-d", *size, command, environment=environment)
    try:
        yield found
    finally:
        found.run("kill-server")
