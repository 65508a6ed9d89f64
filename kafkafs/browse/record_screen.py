"""One record in full: its key, value and headers, its batch, what the check found about it, and its bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kafkafs.browse.json_shape import members, pretty, string
from kafkafs.browse.lines import MARK, Cursor, Line, Style, wrapped
from kafkafs.browse.partition_facts import PartitionNotes
from kafkafs.browse.record_pages import MOST_LINE, PageItem, RecordPages
from kafkafs.browse.session import BrowseSession, Screen
from kafkafs.browse.work import READ_ERRORS
from kafkafs.tree.errors import MaskedError, NotFound
from kafkafs.tree.node import File

_MOST_LINES = 5000
_MOST_BYTES = 4096
_WIDE = 80
_BESIDE = ("topic", "partition", "offset", "key", "value", "headers", "control")


class RecordScreen(Screen):
    """A record, or a damaged place.

    Args:
        session: see `BrowseSession`.
        notes: its partition.
        pages: the records around it.
        item: the record.
    """

    keys = "< > other records  x bytes  y copy  w write  c check  ? help  Esc back"

    def __init__(
        self, session: BrowseSession, notes: PartitionNotes, pages: RecordPages, item: PageItem
    ) -> None:
        super().__init__(session)
        self.notes = notes
        self.pages = pages
        self.item = item
        self.shows_bytes = False
        self.cursor = Cursor()
        self._height = 1
        self._count = 0
        self._bytes_a_line = 16

    @property
    def title(self) -> str:  # type: ignore[override]
        """The path of the record."""
        return f"{self.notes.name}/offset/{self.item.span[0]}"

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the part of the text that fits."""
        lines: list[Line] = []
        self._bytes_a_line = 16 if width >= _WIDE else 8
        for line in self._text():
            lines += [Line(each, line.style) for each in wrapped(line.text, width, "    ")]
            if len(lines) > _MOST_LINES:
                lines = [*lines[:_MOST_LINES], Line("… kafkafs cat shows the rest", Style.DIM)]
                break
        self._height, self._count = height, len(lines)
        self.cursor.top = max(min(self.cursor.top, len(lines) - height), 0)
        return lines[self.cursor.top : self.cursor.top + height]

    def _text(self) -> Iterator[Line]:
        if self.item.damage is not None:
            yield Line("damaged", Style.DAMAGE)
            for text in pretty(json.dumps(self.item.damage, default=str)):
                yield Line(f"  {text}")
            yield from self._findings()
            return
        found = members(self.item.line.decode("utf-8", "replace"))
        for name, text in found.items():
            if name not in _BESIDE:
                yield Line(f"{name:14} {string(text)}")
        if "control" in found:
            yield from _part("control record", found["control"])
        else:
            yield from _part("key", found.get("key"))
            yield from _part("value", found.get("value"))
            yield from _headers(found.get("headers"))
        if not self.item.is_whole:
            yield Line(f"… only the first {MOST_LINE:,} bytes of the line are here", Style.DIM)
        yield from self._findings()
        yield from self._batch()
        if self.shows_bytes:
            yield from self._bytes("key")
            yield from self._bytes("value")

    def _findings(self) -> Iterator[Line]:
        yield Line("check", Style.HEAD)
        if not self.notes.is_checked:
            is_on = self.notes.is_under_check
            yield Line("  under way" if is_on else "  not checked: c checks this partition")
            return
        found = self.notes.findings_at(*self.item.span)
        for each in found:
            yield Line(f"{MARK} {each.severity.value} {each.rule}: {each.text}", Style.DAMAGE)
        if not found:
            yield Line("  nothing was found about this record")

    def _batch(self) -> Iterator[Line]:
        yield Line("batch", Style.HEAD)
        try:
            facts = self.session.tree.resolve(self.title).xattrs()
        except READ_ERRORS as error:
            yield Line(f"  {error}", Style.DAMAGE)
            return
        for name, content in facts.items():
            short = name.removeprefix("user.kafka.")
            if short.startswith("batch_") or short in ("segment", "magic", "crc", "compression"):
                yield Line(f"  {short:18} {content.decode('utf-8', 'replace')}")

    def _bytes(self, field: str) -> Iterator[Line]:
        yield Line(f"bytes of the {field}", Style.HEAD)
        try:
            tree = self.session.tree
            node = tree.follow(tree.resolve(f"{self.title}.{field}"))
            assert isinstance(node, File)
            content = node.open()
            try:
                size, data = content.size, content.read(0, _MOST_BYTES)
            finally:
                content.close()
        except MaskedError:
            yield Line("  the mask hides them")
        except NotFound:
            yield Line("  null")
        except READ_ERRORS as error:
            yield Line(f"  {error}", Style.DAMAGE)
        else:
            step = self._bytes_a_line
            for at in range(0, len(data), step):
                yield Line(_hex(at, bytes(data[at : at + step]), step))
            if size > len(data):
                yield Line(f"  … of {size:,} bytes", Style.DIM)

    def press(self, key: str) -> None:
        """Scroll, show another record, its bytes, copy, write, check."""
        steps = {
            "up": -1, "down": 1, "pageup": -self._height, "pagedown": self._height,
            "home": -self._count, "end": self._count,
        }  # fmt: skip
        if key in steps:
            self.cursor.top = max(self.cursor.top + steps[key], 0)
        elif key in "<>":
            self._other(is_back=key == "<")
        elif key == "x":
            self.shows_bytes = not self.shows_bytes
        elif key == "c":
            self.session.check(self.notes)
        elif key == "y":
            self.session.copy(self.item.line)
            self.session.message = "copied the line to the terminal's clipboard"
        elif key == "w":
            self.session.save_line(self.item.line)

    def _other(self, *, is_back: bool) -> None:
        try:
            if is_back:
                found = self.pages.backward(self.item.offset, 1, (self.item.key,))
            else:
                found = self.pages.forward(self.item.offset, 1, (self.item.key,))
        except READ_ERRORS as error:
            self.session.message = str(error)
            return
        if not found:
            self.session.message = "the start of the log" if is_back else "the end of the log"
            return
        self.item = found[0]
        self.notes.meet(found[:1])
        self.cursor.top = 0


def _part(name: str, text: str | None) -> Iterator[Line]:
    yield Line(name, Style.HEAD)
    if text is None or text == "null":
        yield Line("  null")
    elif text.startswith(("{", "[")):
        for each in pretty(text):
            yield Line(f"  {each}")
    else:
        for each in (string(text) or "").split("\n"):
            yield Line(f"  {each}")


def _headers(text: str | None) -> Iterator[Line]:
    """Yield a header a line; headers of a line that is cut as they are."""
    try:
        headers = json.loads(text or "[]", parse_int=str, parse_float=str)
        shown = [f"  {each['key']}: {_header(each)}" for each in headers]
    except (ValueError, KeyError, TypeError, RecursionError):
        yield from _part("headers", text)
        return
    yield Line("headers", Style.HEAD)
    yield from (Line(each) for each in shown or ["  none"])


def _header(header: dict[str, object]) -> str:
    value = header.get("value")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text + "".join(
        f" ({header[name]})" for name in ("valueEncoding", "keyEncoding") if name in header
    )


def _hex(at: int, data: bytes, step: int = 16) -> str:
    """Return a line as `hexdump -C` has it.

    >>> _hex(16, b"Kafka")
    '  00000010  4b 61 66 6b 61                                   |Kafka|'
    """
    text = "".join(chr(each) if 32 <= each < 127 else "." for each in data)
    return f"  {at:08x}  {data.hex(' '):{3 * step - 1}}  |{text}|"
