"""The terminal: keys in, lines out. Nothing else knows of escape sequences.

It needs what every terminal since the VT100 has, and no description of it: a machine reached by ssh may have none.
"""

from __future__ import annotations

import base64
import codecs
import os
import select
import shutil
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Self

from kafkafs.browse.explorer import Explorer
from kafkafs.browse.lines import Line
from kafkafs.browse.work import InThreads

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_TICK = 1.0
_ESCAPE_WAIT = 0.05
"""Seconds in which the rest of a key's escape sequence arrives, or Esc was pressed alone."""
MOST_COPIED = 64 * 1024
_KEYS = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end",
    "1~": "home", "7~": "home", "4~": "end", "8~": "end", "5~": "pageup", "6~": "pagedown",
}  # fmt: skip
_CHARACTERS = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}


def keys_of(text: str) -> Iterator[str]:
    """Yield the keys that a terminal sent.

    >>> list(keys_of("j\\x1b[A\\x1bOB\\x1b[5~\\r\\x1b\\x7f"))
    ['j', 'up', 'down', 'pageup', 'enter', 'escape', 'backspace']
    """
    at = 0
    while at < len(text):
        if text[at] == "\x1b" and text[at + 1 : at + 2] in ("[", "O"):
            end = at + 2
            while end < len(text) and not "@" <= text[end] <= "~":
                end += 1
            key = _KEYS.get(text[at + 2 : end + 1])
            at = end + 1
            if key is not None:
                yield key
            continue
        yield "escape" if text[at] == "\x1b" else _CHARACTERS.get(text[at], text[at])
        at += 1


class Terminal:
    """A terminal that shows an explorer. A context manager: the terminal is as before at the end.

    Args:
        keys, screen: descriptors of the terminal, to read from and to write to.
        encoding: of the terminal.
        has_colours: whether damage is red; without, it is bold.
    """

    def __init__(self, keys: int, screen: int, encoding: str, *, has_colours: bool) -> None:
        self._keys = keys
        self._screen = screen
        self._encoding = encoding
        self._style = 0 if has_colours else 1
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._shown: list[Line] = []
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        self.runner = InThreads(self.wake)

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._keys)
        self._handlers: dict[int, Callable[[int, FrameType | None], object] | int | None] = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, lambda *_: self.wake()),
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, self._suspend),
            signal.SIGTERM: signal.signal(signal.SIGTERM, _end),
            signal.SIGHUP: signal.signal(signal.SIGHUP, _end),
        }
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._wake_read)
        self._wake_write, closed = -1, self._wake_write
        os.close(closed)

    def _take(self) -> None:
        tty.setcbreak(self._keys)
        self._shown = []
        self._write(_ENTER)

    def _give_back(self) -> None:
        with suppress(OSError, termios.error):  # the terminal may be gone
            self._write(_LEAVE)
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _suspend(self, *_: object) -> None:
        """Give the terminal to the shell until the process goes on."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self.wake()

    def wake(self) -> None:
        """Let the loop look for results and for another size; from any thread."""
        with suppress(OSError):  # full: it wakes anyway; closed: it has ended
            os.write(self._wake_write, b"\0")

    def copy(self, text: bytes) -> None:
        """Hand a text to the clipboard of the terminal, also over ssh (OSC 52)."""
        self._write(f"\x1b]52;c;{base64.b64encode(text[:MOST_COPIED]).decode('ascii')}\x07")

    def run(self, explorer: Explorer) -> None:
        """Show the explorer until it is left, or the terminal is gone."""
        while not explorer.is_over:
            self._draw(explorer)
            ready, _, _ = select.select([self._keys, self._wake_read], [], [], _TICK)
            if not ready:
                explorer.tick()
            if self._wake_read in ready:
                with suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            self.runner.deliver()
            if self._keys in ready:
                text = self._typed()
                if text is None:
                    return
                for key in keys_of(text):
                    explorer.press(key)

    def _typed(self) -> str | None:
        """Return what was typed, "" for a part of a character; None at the end of the terminal."""
        try:
            data = os.read(self._keys, 4096)
            while data.endswith((b"\x1b", b"\x1b[", b"\x1bO")):
                if not select.select([self._keys], [], [], _ESCAPE_WAIT)[0]:
                    break
                more = os.read(self._keys, 4096)
                if not more:
                    break
                data += more
        except OSError:
            return None
        return self._decoder.decode(data) if data else None

    def _draw(self, explorer: Explorer) -> None:
        """Write the lines that changed."""
        size = os.get_terminal_size(self._screen)
        width, height = size.columns or 80, size.lines or 24
        lines = explorer.lines(width, height)
        if len(lines) != len(self._shown):
            self._shown = []
        parts = [] if self._shown else ["\x1b[2J"]
        for place, line in enumerate(lines):
            if place < len(self._shown) and self._shown[place] == line:
                continue
            attributes = line.style.value[self._style]
            text = line.text if attributes else f"{line.text.rstrip()}\x1b[K"
            parts.append(
                f"\x1b[{place + 1};1H\x1b[0{attributes and ';' + attributes}m{text}\x1b[0m"
            )
        self._shown = lines
        self._write("".join(parts))

    def _write(self, text: str) -> None:
        data = memoryview(text.encode(self._encoding, "replace"))
        while data:
            data = data[os.write(self._screen, data) :]


def _end(*_: object) -> None:
    raise SystemExit(0)


def size_of_page() -> tuple[int, int]:
    """Return columns and lines of what is printed without a terminal: COLUMNS and LINES, else 80×24."""
    size = shutil.get_terminal_size((80, 24))
    return size.columns, size.lines
