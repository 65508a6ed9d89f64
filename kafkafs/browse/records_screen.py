"""The records of a partition, page by page."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from engine.units import Offset
from kafkafs.browse.json_shape import members, string
from kafkafs.browse.lines import MARK, Cursor, Line, ScreenColumn, Style, fit, row, width_of
from kafkafs.browse.partition_facts import PartitionNotes
from kafkafs.browse.record_pages import PageItem, RecordPages
from kafkafs.browse.record_screen import RecordScreen
from kafkafs.browse.session import BrowseSession, Screen
from kafkafs.browse.work import READ_ERRORS, Steps
from kafkafs.time_grammar import FORMS

if TYPE_CHECKING:
    from engine.log.view.log_bound import LogBound
    from kafkafs.records.conditions.pattern import Query

_WIDE = 76
_MOST_SHOWN = 500
"""Characters of a key or value in a row."""


class RecordsScreen(Screen):
    """Records from an offset on; the cursor is on one of them.

    Args:
        session: see `BrowseSession`.
        notes: the partition.
        start: the first offset to show.
    """

    keys = "Enter record  g go to  / find  n N next  c check  ? help  Esc back"

    def __init__(self, session: BrowseSession, notes: PartitionNotes, start: Offset) -> None:
        super().__init__(session)
        assert notes.log is not None
        self.notes = notes
        self.pages = RecordPages(session.tree, notes.log)
        self.page: list[PageItem] = []
        self.cursor = Cursor()
        self.query: Query | None = None
        self._start: Offset | None = start
        self._height = 1
        self._follows = False

    @property
    def title(self) -> str:  # type: ignore[override]
        """The path of what is shown."""
        first = self.page[0].offset if self.page else self._start or 0
        return f"{self.notes.name}/offset/{first}.."

    @property
    def item(self) -> PageItem | None:
        """What the cursor is on."""
        return self.page[self.cursor.at] if self.page else None

    # What is shown

    def _load(self, height: int) -> None:
        """Read the page if it is not there, or too short for the screen."""
        is_short = len(self.page) < height != self._height
        self._height = height
        if self._start is None and is_short:
            self._start = self.page[0].offset if self.page else 0
        if self._start is None:
            return
        start, self._start = self._start, None
        try:
            self.page = self.pages.forward(start, height)
            if len(self.page) < height:
                before, known = (
                    self.page[0].offset if self.page else start,
                    {e.key for e in self.page},
                )
                self.page = self.pages.backward(before, height - len(self.page), known) + self.page
        except READ_ERRORS as error:
            self.page = []
            self.session.message = str(error)
        self.notes.meet(self.page)
        at = (place for place, each in enumerate(self.page) if each.span[1] > start)
        self.cursor.at = next(at, len(self.page) - 1)

    def show(self, offset: Offset) -> None:
        """Show an offset: the cursor moves if it is on the page, else it becomes the first row."""
        for place, item in enumerate(self.page):
            if item.offset == offset and item.damage is None:
                self.cursor.at = place
                return
        self._start = offset

    def resume(self, above: Screen) -> None:
        """Show the record that was looked at last."""
        if isinstance(above, RecordScreen):
            self.show(above.item.offset)

    def refresh(self) -> None:
        """Read the page again if there may be more records; follow the log's end if the cursor is on it."""
        if self._start is not None or (len(self.page) >= self._height and not self._follows):
            return
        if self._follows:
            self._to_end()
        elif self.page:
            chosen, self._start = self.cursor.at, self.page[0].offset
            self._load(self._height)
            self.cursor.at = chosen
        else:
            self._start = 0

    def lines(self, width: int, height: int) -> list[Line]:
        """Return a header, the records, and the time and the size of the chosen one."""
        self._load(max(height - 2, 1))
        digits = max([6, *(len(str(each.offset)) for each in self.page)])
        columns = [ScreenColumn("OFFSET", digits, right=True)]
        columns += [
            ScreenColumn("TIME (UTC)" if width >= _WIDE else "TIME", 19 if width >= _WIDE else 8)
        ]
        cells = [self._cells(item, is_wide=width >= _WIDE) for item in self.page]
        keys = max([3, *(width_of(each[2]) for each in cells)])
        columns += [
            ScreenColumn("KEY", min(keys, 20 if width >= _WIDE else 10)),
            ScreenColumn("VALUE"),
        ]
        lines = [Line("  " + row([each.name for each in columns], columns, width - 2), Style.HEAD)]
        for place in self.cursor.shown(len(self.page), self._height):
            item = self.page[place]
            is_hurt = item.damage is not None
            is_hurt |= bool(self.notes.findings_at(*item.span))
            style = Style.DAMAGE if is_hurt else Style.PLAIN
            if place == self.cursor.at:
                style = Style.BAR
            text = row(cells[place], columns, width - 2)
            lines.append(Line(f"{MARK if is_hurt else ' '} {text}", style))
        if not self.page:
            lines.append(Line("  no records here"))
        lines += [Line("")] * (self._height + 1 - len(lines))
        return [*lines, Line(fit(self._foot(), width), Style.DIM)]

    def _cells(self, item: PageItem, *, is_wide: bool) -> list[str]:
        if item.damage is not None:
            first = item.damage.get("firstOffset")
            reason = str(item.damage.get("reason", ""))
            return ["?" if first is None else str(first), "damaged", "", reason]
        found = members(item.line.decode("utf-8", "replace"))
        written = string(found.get("time"))
        time = "–" if written is None else written[:19] if is_wide else written[11:19]
        if "control" in found:
            return [str(item.offset), time, "", f"control {_shown(found['control'])}"]
        return [str(item.offset), time, _shown(found.get("key")), _shown(found.get("value"))]

    def _foot(self) -> str:
        item = self.item
        if item is None:
            return ""
        first, end = self.pages.bounds
        if item.damage is not None:
            lost, following = item.span
            where = f"{item.damage.get('file')} at byte {item.damage.get('position')}"
            return f"  offsets {lost}..{following} of {first}..{end}: {where}"
        found = members(item.line.decode("utf-8", "replace"))
        size = (
            f"{len(item.line):,} bytes" if item.is_whole else f"more than {len(item.line):,} bytes"
        )
        return f"  {item.offset} of {first}..{end}, {string(found.get('time')) or 'no time'}, line of {size}"

    # Keys

    def press(self, key: str) -> None:
        """Move, open a record, search, go to a place, copy."""
        item = self.item
        if key in ("up", "down", "pageup", "pagedown", "home", "end"):
            try:
                self._move(key)
            except READ_ERRORS as error:
                self.session.message = str(error)
            self.notes.meet(self.page)
        elif key == "enter" and item is not None:
            self.session.opened = RecordScreen(self.session, self.notes, self.pages, item)
        elif key == "g":
            self.ask_place()
        elif key == "/":
            self.session.ask("find (a regular expression): ", self._search)
        elif key in ("n", "N"):
            self._find(is_back=key == "N")
        elif key == "c":
            self.session.check(self.notes)
        elif key == "y" and item is not None:
            self.session.copy(item.line)
            self.session.message = f"copied the line of {item.offset} to the terminal's clipboard"
        elif key == "w" and item is not None:
            self.session.save_line(item.line)
        elif key == "r":
            self._start = self.page[0].offset if self.page else 0

    def _move(self, key: str) -> None:
        self._follows = key == "end"
        if key == "home":
            self._start = 0
        elif key == "end":
            self._to_end()
        elif key == "down" and self.cursor.at == len(self.page) - 1:
            self._go_on(1)
        elif key == "pagedown":
            self._go_on(self._height)
        elif key == "up" and self.cursor.at == 0:
            self._go_back(1)
        elif key == "pageup":
            self._go_back(self._height)
        else:
            self.cursor.press(key, len(self.page), self._height)

    def _to_end(self) -> None:
        self.page = self.pages.backward(self.pages.bounds[1], self._height)
        self.cursor.at = max(len(self.page) - 1, 0)

    def _go_on(self, count: int) -> None:
        if not self.page:
            return
        known = {each.key for each in self.page}
        more = self.pages.forward(self.page[-1].offset, count, known)
        self.page = (self.page + more)[-self._height :]
        if count > 1 and more:
            self.cursor.at = self._height - len(more) if len(more) < self._height else 0
        else:
            self.cursor.at = len(self.page) - 1
        if not more:
            self.session.message = "the end of the log"

    def _go_back(self, count: int) -> None:
        if not self.page:
            return
        known = {each.key for each in self.page}
        before = self.pages.backward(self.page[0].offset, count, known)
        self.page = (before + self.page)[: self._height]
        self.cursor.at = 0
        if not before:
            self.session.message = "the start of the log"

    # Places

    def ask_place(self, *, opens: bool = False) -> None:
        """Ask for an offset or a time, and go there; `opens` to show this screen then."""
        self.session.ask("offset or time: ", partial(self._go_to, opens=opens))

    def _go_to(self, text: str, *, opens: bool) -> None:
        if not text:
            return
        bound = self.session.grammar().bound(text)
        if bound is None:
            self.session.message = (
                f"{text!r} is neither an offset (digits) nor a time such as {FORMS}"
            )
            return
        self.session.start(self._offset_of(bound), partial(self._arrive, opens=opens))

    def _offset_of(self, bound: LogBound) -> Steps[Offset]:
        yield "looking up"
        return bound.offset_in(self.pages.log.view())

    def _arrive(self, offset: Offset, *, opens: bool) -> None:
        first, end = self.pages.bounds
        if not first <= offset < end:
            self.session.message = f"offset {offset} is outside of the log, {first}..{end}"
        self.page, self._follows = [], False
        self._start = offset
        if opens:
            self.session.opened = self

    # Search

    def _search(self, text: str) -> None:
        if not text:
            return
        # Imported here: most who look around search nothing.
        from kafkafs.records.conditions.pattern import Query

        try:
            self.query = Query.compile(text)
        except re.error as error:
            self.session.message = f"not a regular expression: {error}"
            return
        self._find(is_back=False)

    def _find(self, *, is_back: bool) -> None:
        if self.query is None:
            self.session.message = "nothing to find yet: / asks for it"
            return
        item = self.item
        at = 0 if item is None else item.offset
        find = (
            self.pages.find_before(self.query, at)
            if is_back
            else self.pages.find(self.query, at + 1)
        )
        self.session.start(find, self._found)

    def _found(self, offset: Offset | None) -> None:
        if offset is None:
            self.session.message = "no other record matches in this direction"
        else:
            self.session.message = f"found at offset {offset}"
            self._follows = False
            self.show(offset)


def _shown(text: str | None) -> str:
    found = string(None if text is None else text[:_MOST_SHOWN])
    return "–" if found is None else found
