"""A partition: its segments over offsets and over time, with holes and damage."""

from __future__ import annotations

from functools import cache

from engine.units import Offset, Timestamp
from kafkafs.amounts import counted, length, size
from kafkafs.browse.lines import MARK, Cursor, Line, ScreenColumn, Style, fit, moment, row, wrapped
from kafkafs.browse.partition_facts import (
    GlanceFacts,
    HurtRange,
    PartitionNotes,
    SegmentFacts,
    facts_of,
    segments_of,
)
from kafkafs.browse.records_screen import RecordsScreen
from kafkafs.browse.session import BrowseSession, Screen
from kafkafs.browse.work import Job

_WIDE = 76
_MOST_SENTENCES = 3


@cache
def glyphs(*, is_unicode: bool) -> tuple[str, str, str, str]:
    """Return the characters for records of segments in turn, for a hole, and for damage."""
    return ("█", "▓", "·", "X") if is_unicode else ("#", "=", ".", "X")


class PartitionScreen(Screen):
    """A partition.

    Args:
        session: see `BrowseSession`.
        notes: the partition.
    """

    keys = "Enter records  g go to  c check  ? help  Esc back  q quit"

    def __init__(self, session: BrowseSession, notes: PartitionNotes) -> None:
        super().__init__(session)
        assert notes.log is not None
        self.notes = notes
        self.log = notes.log
        self.title = notes.name
        self.cursor = Cursor()
        self.segments: list[SegmentFacts] = []
        self._height = 1
        self._look: Job | None = None
        self._seen: GlanceFacts | None = None
        self.refresh()

    def refresh(self) -> None:
        """Look at the partition, and at its new and grown segments in the background."""
        facts = self.notes.facts = facts_of(self.log)
        if facts == self._seen or (self._look is not None and not self._look.is_over):
            return
        self._seen = facts
        known = {each.base: each for each in self.segments}
        self._look = self.session.runner.start(segments_of(self.log, known), self._keep)

    def _keep(self, segments: list[SegmentFacts]) -> None:
        self.segments = segments

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the facts, the two axes, what is damaged, and the segments."""
        facts = self.notes.facts or GlanceFacts()
        marks = self.notes.marks()
        about = (
            f"offsets {facts.start}..{facts.end}, {counted(facts.segments, 'segment')}, {size(facts.size)};"
            f" {self.notes.damage}"
        )
        style = Style.DAMAGE if self.notes.is_damaged else Style.PLAIN
        lines = [Line(text, style) for text in wrapped(about, width)]
        lines += [Line(text) for text in self._axes(marks, width)]
        for mark in marks[:_MOST_SENTENCES]:
            lines.append(
                Line(fit(f"{MARK} {mark.first}..{mark.next}: {mark.sentence}", width), Style.DAMAGE)
            )
        if len(marks) > _MOST_SENTENCES:
            lines.append(Line(f"{MARK} and {len(marks) - _MOST_SENTENCES} more", Style.DAMAGE))
        lines.append(Line(""))
        lines = lines[: max(height - 3, 1)]
        return lines + self._table(marks, width, max(height - len(lines), 2))

    def _table(self, marks: list[HurtRange], width: int, height: int) -> list[Line]:
        columns = [ScreenColumn("SEGMENT"), ScreenColumn("OFFSETS", 10, right=True)]
        columns += [ScreenColumn("SIZE", 8, right=True), ScreenColumn("FROM", 20)]
        columns += [ScreenColumn("FOR", 11)] if width >= _WIDE else []
        lines = [Line("  " + row([each.name for each in columns], columns, width - 2), Style.HEAD)]
        if self._look is not None and not self._look.is_over and not self.segments:
            return [*lines, Line(f"  {self._look.note}", Style.DIM)]
        self._height = height - 1
        for place in self.cursor.shown(len(self.segments), self._height):
            each = self.segments[place]
            is_hurt = any(mark.first < each.next and mark.next > each.base for mark in marks)
            cells = [
                f"{each.base:020}" if width >= _WIDE else str(each.base),
                f"{each.next - each.base:,}",
                size(each.size),
                moment(each.first),
            ]
            if width >= _WIDE:
                is_timed = each.first is not None and each.newest is not None
                cells.append(length(max(each.newest - each.first, 0)) if is_timed else "–")  # type: ignore[operator]
            style = Style.DAMAGE if is_hurt else Style.PLAIN
            if place == self.cursor.at:
                style = Style.BAR
            lines.append(
                Line(f"{MARK if is_hurt else ' '} {row(cells, columns, width - 2)}", style)
            )
        return lines

    # Axes

    def _axes(self, marks: list[HurtRange], width: int) -> list[str]:
        if not self.segments:
            return []
        room = max(width - 8, 10)
        first = min(self.segments[0].base, *(mark.first for mark in marks), self.segments[0].base)
        end = max(self.segments[-1].next, *(mark.next for mark in marks), self.segments[-1].next)
        spans = [(each.base, each.next) for each in self.segments]
        hurt = [(mark.first, mark.next) for mark in marks]
        lines = [
            f"offsets {self._strip(spans, hurt, first, end, room)}",
            f"        {_ends(str(first), str(end), room)}",
        ]
        timed = [
            (each.first, each.newest)
            for each in self.segments
            if each.first is not None and each.newest is not None and each.newest >= each.first
        ]
        if timed:
            begin, stop = min(start for start, _ in timed), max(newest for _, newest in timed) + 1
            times = [(self._time(mark.first), self._time(mark.next)) for mark in marks]
            hurt = [(one, two or one) for one, two in times if one is not None]
            lines += [
                f"time    {self._strip([(a, b + 1) for a, b in timed], hurt, begin, stop, room)}",
                f"        {_ends(moment(begin), moment(stop - 1), room)}",
            ]
        return lines

    def _strip(
        self,
        spans: list[tuple[int, int]],
        hurt: list[tuple[int, int]],
        first: int,
        end: int,
        room: int,
    ) -> str:
        """Return spans to scale, in turn light and dark, and damage over them."""
        one, two, hole, damage = glyphs(is_unicode=self.session.is_unicode)
        cells, extent = [hole] * room, max(end - first, 1)

        def fill(start: int, stop: int, glyph: str) -> None:
            low = min(max((start - first) * room // extent, 0), room - 1)
            high = max(-(-(stop - first) * room // extent), low + 1)
            cells[low : min(high, room)] = [glyph] * (min(high, room) - low)

        for place, (start, stop) in enumerate(spans):
            if start < stop:
                fill(start, stop, two if place % 2 else one)
        for start, stop in hurt:
            fill(start, stop, damage)
        return "".join(cells)

    def _time(self, offset: Offset) -> Timestamp | None:
        """Return about when an offset was written, from the times of its segment."""
        for each in self.segments:
            if each.base <= offset < max(each.next, each.base + 1):
                if each.first is None or each.newest is None:
                    return None
                share = (offset - each.base) / max(each.next - each.base, 1)
                return each.first + round((each.newest - each.first) * share)
        newest = self.segments[-1].newest if self.segments else None
        return newest if self.segments and offset >= self.segments[-1].next else None

    # Keys

    def press(self, key: str) -> None:
        """Move between segments, open one, go to an offset or a time, check."""
        if self.cursor.press(key, len(self.segments), self._height):
            return
        if key == "enter":
            start = self.segments[self.cursor.at].base if self.segments else 0
            self.session.opened = RecordsScreen(self.session, self.notes, start)
        elif key == "g":
            records = RecordsScreen(self.session, self.notes, 0)
            records.ask_place(opens=True)
        elif key == "c":
            self.session.check(self.notes)
        elif key == "r":
            self._seen = None
            self.refresh()


def _ends(first: str, last: str, room: int) -> str:
    return first + last.rjust(max(room - len(first), len(last) + 1))
