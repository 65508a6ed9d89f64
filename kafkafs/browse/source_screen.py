"""The topics of a source, and the partitions of a topic, with their sizes and what is known of their damage."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from kafkafs.amounts import count, counted, size
from kafkafs.browse.lines import MARK, Cursor, Line, ScreenColumn, Style, row
from kafkafs.browse.partition_facts import GlanceFacts, PartitionNotes, facts_of
from kafkafs.browse.session import BrowseSession, Screen
from kafkafs.browse.work import Job, Steps

_QUICK, _REST = 0.25, 4
"""Seconds of a look that may be made each second; after a longer one comes a rest of that many times its length."""
_WIDE = 72
"""Columns from which on offsets are shown."""


class _Row(NamedTuple):
    """A topic, or a partition."""

    name: str
    parts: Sequence[PartitionNotes]

    @property
    def size(self) -> str:
        known = [each.facts.size for each in self.parts if each.facts is not None]
        return (
            "…"
            if len(known) < sum(each.log is not None for each in self.parts)
            else size(sum(known))
        )

    @property
    def offsets(self) -> str:
        facts = [each.facts for each in self.parts if each.facts is not None]
        if len(self.parts) == 1 and facts:
            return f"{facts[0].start}..{facts[0].end}"
        return count(sum(each.end - each.start for each in facts))

    @property
    def damage(self) -> str:
        worst = [each for each in self.parts if each.is_damaged] or self.parts
        more = len(worst) - 1
        if len(self.parts) == 1:
            return worst[0].damage
        words = sorted({each.damage for each in worst})
        return words[0] if len(words) == 1 else f"{worst[0].name}: {worst[0].damage}; {more} more"

    @property
    def is_damaged(self) -> bool:
        return any(each.is_damaged for each in self.parts)


class SourceScreen(Screen):
    """The topics of a source, or the partitions of one topic.

    Args:
        session: see `BrowseSession`.
        topic: the topic; None for a list of topics.
    """

    keys = "Enter open  c check  / find  r reload  ? help  q quit"

    def __init__(self, session: BrowseSession, topic: str | None = None) -> None:
        super().__init__(session)
        self.topic = topic
        self.title = topic or ""
        self.cursor = Cursor()
        self.rows: list[_Row] = []
        self._height = 1
        self._look: Job | None = None
        self._rests_until = 0.0
        self.refresh()

    def refresh(self) -> None:
        """List the partitions, and look at each in the background."""
        if self._look is not None and not self._look.is_over:
            return
        if monotonic() < self._rests_until:
            return
        self._list(self.session.list_partitions())
        self._look = self.session.runner.start(self._facts(), lambda _: None)

    def _list(self, partitions: Sequence[PartitionNotes]) -> None:
        chosen = self.rows[self.cursor.at].name if self.rows else None
        groups: dict[str, list[PartitionNotes]] = {}
        for each in partitions:
            if self.topic is None:
                groups.setdefault(each.topic, []).append(each)
            elif each.topic == self.topic:
                groups[each.name] = [each]
        self.rows = [_Row(name, parts) for name, parts in groups.items()]
        names = list(groups)
        if chosen in groups:
            self.cursor.at = names.index(chosen)

    def _facts(self) -> Steps[None]:
        begun = monotonic()
        for shown in list(self.rows):
            for notes in shown.parts:
                if notes.log is not None:
                    is_loaded = notes.log.is_loaded
                    notes.facts = facts_of(notes.log)
                    if not is_loaded:
                        notes.log.forget()  # of very many partitions only the facts are kept
                yield notes.name
        if (took := monotonic() - begun) > _QUICK:
            self._rests_until = monotonic() + _REST * took

    def lines(self, width: int, height: int) -> list[Line]:
        """Return a header, the rows and their sum."""
        self._height = max(height - 2, 1)
        of_topics = self.topic is None
        columns = [ScreenColumn("TOPIC" if of_topics else "PARTITION")]
        if of_topics:
            columns.append(ScreenColumn("PARTS", 5, right=True))
        if width >= _WIDE:
            columns.append(ScreenColumn("OFFSETS", 19, right=True))
        columns += [ScreenColumn("SIZE", 8, right=True), ScreenColumn("DAMAGE")]
        lines = [Line("  " + row([each.name for each in columns], columns, width - 2), Style.HEAD)]
        for place in self.cursor.shown(len(self.rows), self._height):
            shown = self.rows[place]
            cells = [shown.name]
            if of_topics:
                cells.append(count(len(shown.parts)))
            if width >= _WIDE:
                cells.append(shown.offsets)
            cells += [shown.size, shown.damage]
            style = Style.DAMAGE if shown.is_damaged else Style.PLAIN
            mark = MARK if shown.is_damaged else " "
            if place == self.cursor.at:
                style = Style.BAR
            lines.append(Line(f"{mark} {row(cells, columns, width - 2)}", style))
        lines += [Line("")] * (self._height + 1 - len(lines))
        return [*lines, Line(self._sum(), Style.DIM)]

    def _sum(self) -> str:
        parts = [notes for shown in self.rows for notes in shown.parts]
        facts: list[GlanceFacts] = [each.facts for each in parts if each.facts is not None]
        damaged = sum(each.is_damaged for each in parts)
        words = [
            counted(len(self.rows), "topic") if self.topic is None else self.topic,
            counted(len(parts), "partition"),
            size(sum(each.size for each in facts)),
        ]
        unchecked = sum(not each.is_checked for each in parts)
        words += [f"{damaged} with damage"] if damaged else []
        words += [f"{unchecked} not checked: c checks"] if unchecked else []
        return "  " + ", ".join(words)

    def press(self, key: str) -> None:
        """Move, open, check, find a name."""
        if self.cursor.press(key, len(self.rows), self._height) or not self.rows:
            return
        chosen = self.rows[self.cursor.at]
        if key == "enter":
            self._open(chosen)
        elif key == "c":
            self.session.check(*chosen.parts)
        elif key == "r":
            self._rests_until = 0.0
            self.refresh()
        elif key == "/":
            self.session.ask("name: ", self._find)

    def _open(self, chosen: _Row) -> None:
        if len(chosen.parts) > 1:
            self.session.opened = SourceScreen(self.session, chosen.name)
        elif chosen.parts[0].log is None:
            self.session.message = f"{chosen.name} has no folder here: its records are lost"
        else:
            # Imported here, with all that reads records: the list is there sooner without.
            from kafkafs.browse.partition_screen import PartitionScreen

            self.session.opened = PartitionScreen(self.session, chosen.parts[0])

    def _find(self, text: str) -> None:
        names = [each.name for each in self.rows]
        after = [*range(self.cursor.at + 1, len(names)), *range(self.cursor.at + 1)]
        for place in after if text else ():
            if text.casefold() in names[place].casefold():
                self.cursor.at = place
                return
        self.session.message = f"no name has {text!r}" if text else ""
