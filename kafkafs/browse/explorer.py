"""The screens of a source one above the other, the line for questions, and the frame around them."""

from __future__ import annotations

from kafkafs.browse.lines import Line, Style, fit, wrapped
from kafkafs.browse.session import BrowseSession, Screen
from kafkafs.browse.source_screen import SourceScreen
from kafkafs.browse.work import READ_ERRORS, AtOnce
from kafkafs.decode.shown_text import printable

_ALIASES = {
    "j": "down",
    "k": "up",
    "l": "enter",
    "right": "enter",
    "h": "back",
    "left": "back",
    "escape": "back",
    "backspace": "back",
    " ": "pagedown",
    "b": "pageup",
    "G": "end",
}
HELP = """\
Everywhere
  up down PgUp PgDn Home End   move (also j k b Space G)
  Enter, right     open what the cursor is on
  Esc, left        back; stops a search that runs
  c                check the partition: every byte; again to stop it
  r                look at the source again (done each second, too)
  ?  q             this page; leave

A partition: its segments; X marks damage and losses
  g                go to an offset or a time: 35, 2024-01-01, -1h, today

Records: as kafkafs cat shows them, with schemas and masks
  /  n  N          find a regular expression; the next, the one before
  y  w             copy the line (OSC 52); append it to a file
  End              follows the end of a live log

A record
  <  >             the record before, the next one
  x                its bytes

! before a row: damage, or a finding of the check. Nothing is changed.
"""


class HelpScreen(Screen):
    """The keys."""

    title = "help"
    keys = "Esc back  q quit"

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session)
        self._top = 0

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the part that fits."""
        text = [part for line in HELP.splitlines() for part in wrapped(line, width, "    ")]
        self._top = max(min(self._top, len(text) - height), 0)
        return [Line(each) for each in text[self._top : self._top + height]]

    def press(self, key: str) -> None:
        """Scroll."""
        self._top += {"up": -1, "down": 1, "pageup": -10, "pagedown": 10}.get(key, 0)


class Explorer:
    """What a terminal shows of a source, and what its keys do.

    Args:
        session: see `BrowseSession`.
        path: a path of the tree to begin at: a topic, a partition, or in one `offset/N`, `offset/N..`, `time/INSTANT`.

    Attributes:
        screens: the open screens; the last one is shown.
        answer: what was typed in the last line.
        is_over: whether it was left.

    Raises:
        NotFound: there is no such path.
    """

    def __init__(self, session: BrowseSession, path: str = "") -> None:
        self.session = session
        self.screens: list[Screen] = [SourceScreen(session)]
        self.answer = ""
        self.is_over = False
        source = session.tree.source
        if path or source.is_one_log:
            # Imported here, with all that reads records: a list of topics is there sooner without.
            from kafkafs.browse.places import screens_of

            self.screens += screens_of(session, path)

    # Drawing

    def lines(self, width: int, height: int) -> list[Line]:
        """Return exactly `height` lines of exactly `width` columns."""
        self._show_opened()
        session, screen = self.session, self.screens[-1]
        room = max(height - 3, 1)
        try:
            body = screen.lines(width, room)[:room]
        except READ_ERRORS as error:
            body = [Line(each, Style.DAMAGE) for each in wrapped(str(error), width)][:room]
        session.end_jobs()
        places = ", ".join(each.path for each in session.tree.source.roots)
        title = f" {printable(screen.title)}" if screen.title else ""
        bar = f"kafkafs{title}"
        left = width - len(bar) - 2
        bar = f"{bar}  {printable(places)[-left:].rjust(left)}" if left > 8 else bar
        foot = [Line(session.message), Line(_keys(screen.keys, width), Style.BAR)]
        if session.prompt is not None:
            typed = self.answer[-(width - len(session.prompt.label) - 2) :]
            foot = [
                Line(f"{session.prompt.label}{typed}_"),
                Line("Enter takes it  Esc drops it", Style.BAR),
            ]
        elif session.job is not None and not session.job.is_over:
            foot[0] = Line(f"{session.job.note or 'working'}; Esc stops it")
        elif not session.message:
            checks = [each.check for each in session.partitions.values() if each.check is not None]
            running = next((each for each in checks if not each.is_over), None)
            foot[0] = Line("" if running is None else f"{running.note}; c stops it")
        body += [Line("")] * (room - len(body))
        lines = [Line(bar, Style.BAR), *body, *foot][:height]
        return [Line(fit(each.text, width), each.style) for each in lines]

    # Keys

    def press(self, key: str) -> None:
        """Do what a key asks for: a character, or a name such as up, pagedown, enter, escape, backspace."""
        session = self.session
        if self.is_over:
            return
        try:
            if session.prompt is not None:
                self._type(key)
            else:
                session.message = ""
                self._do(_ALIASES.get(key, key))
        except READ_ERRORS as error:
            session.message = str(error)
        self._show_opened()

    def _show_opened(self) -> None:
        """Show the screen that a key, or work in the background, has opened."""
        if self.session.opened is not None:
            self.screens.append(self.session.opened)
            self.session.opened = None

    def _do(self, key: str) -> None:
        session, screen = self.session, self.screens[-1]
        if key == "q":
            self.is_over = True
        elif key == "back":
            if session.job is not None and not session.job.is_over:
                session.job.stop()
                session.message = "stopped"
            elif len(self.screens) > 1:
                left = self.screens.pop()
                self.screens[-1].resume(left)
            else:
                session.message = "q leaves"
        elif key == "?":
            if not isinstance(screen, HelpScreen):
                session.opened = HelpScreen(session)
        else:
            screen.press(key)

    def _type(self, key: str) -> None:
        prompt = self.session.prompt
        assert prompt is not None
        if key == "escape":
            self.session.prompt, self.answer = None, ""
        elif key == "enter":
            answer, self.answer, self.session.prompt = self.answer, "", None
            self.session.message = ""
            prompt.then(answer.strip())
        elif key == "backspace":
            self.answer = self.answer[:-1]
        elif len(key) == 1 and key.isprintable():
            self.answer += key

    def tick(self) -> None:
        """Look at the source again; called each second."""
        if self.session.prompt is not None:
            return
        try:
            self.screens[-1].refresh()
        except READ_ERRORS as error:
            self.session.message = str(error)


def _keys(text: str, width: int) -> str:
    """Return what keys do, without the less important ones where there is no room.

    >>> _keys("Enter open  c check  / find  ? help  q quit", 30)
    'Enter open  ? help  q quit'
    """
    parts = text.split("  ")
    while len("  ".join(parts)) > width and len(parts) > 3:
        del parts[-3]
    return "  ".join(parts)


def first_screen(session: BrowseSession, path: str, width: int, height: int) -> list[str]:
    """Return what is shown first, as text without trailing spaces; all background work is done before.

    Raises:
        NotFound: there is no such path.
    """
    assert isinstance(session.runner, AtOnce)
    return [line.text.rstrip() for line in Explorer(session, path).lines(width, height)]
