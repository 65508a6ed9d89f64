"""Output of a dump: standard output, standard error, and the lists that DumpLogSegments prints at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import TypeVar

from engine.units import Offset
from kafkafs.decode.shown_text import printable
from kafkafs.dump.dump_items import Complaint, Contradicted, DumpItem, Followed, Tally
from kafkafs.dump.findings import Contradiction, Mismatch

Write = Callable[[bytes], object]
Value = TypeVar("Value", bound=Sized)

MOST_PAIRS = 1_000_000
"""Contradictions that are kept for the end; with more of them, the list is printed at once."""


class DumpReport:
    """Receiver of a dump's text and complaints.

    Args:
        out, err: write to the two streams; `err` is called with whole lines.
        begin: called with the path of each file, as shown.
        advance: called with numbers of bytes that were processed.

    Attributes:
        findings: number of damaged places and contradictions.
        unreadable: number of files that could not be read at all.
    """

    def __init__(
        self,
        out: Write,
        err: Write,
        *,
        begin: Callable[[str], object] = lambda _: None,
        advance: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.out = out
        self.err = err
        self.begin = begin
        self.advance = advance
        self.findings = 0
        self.unreadable = 0
        self._contradictions: dict[Mismatch, dict[str, list[tuple[int, int]]]] = {}
        self._gaps: dict[str, dict[int, int]] = {}
        self._waiting = 0
        self._last: Offset | None = None
        """Offset of the last record of the current file."""

    def take(self, item: DumpItem) -> None:
        """Write or count the next item of a dump."""
        if isinstance(item, bytes):
            self.out(item)
        elif isinstance(item, Complaint):
            self.complain(item.text, is_finding=item.is_finding)
        elif isinstance(item, Contradicted):
            self.contradict(item.path, item.found)
        elif isinstance(item, Followed):
            self._follow(item)
        elif isinstance(item, Tally):
            self.findings += item.findings
            self.unreadable += item.unreadable
            self.advance(item.processed)
        else:
            self._last = None
            self.begin(item.shown)

    def complain(self, text: str, *, is_finding: bool = True) -> None:
        """Write a line of text to standard error, without control characters for a terminal."""
        self.findings += is_finding
        self.err(printable(text).encode() + b"\n")

    def contradict(self, path: str, found: Contradiction) -> None:
        """Keep a contradiction of an index for the end; `path` is absolute."""
        self.findings += 1
        files = self._contradictions.setdefault(found.what, {})
        files.setdefault(path, []).append((found.stated, found.found))
        self._count(1)

    def gaps(self, path: str, pairs: Iterable[tuple[int, int]]) -> None:
        """Keep non-consecutive offsets for the end, as pairs of an offset and its successor.

        Only a successor that goes back is a finding: compaction and aborted appends leave gaps.
        """
        kept = self._gaps.setdefault(path, {})
        before = len(kept)
        for previous, following in pairs:
            kept[previous] = following
            self.findings += following <= previous
        self._count(len(kept) - before)

    def _follow(self, found: Followed) -> None:
        """Keep offsets that do not follow the one before them; the first record of a file has no predecessor."""
        gaps = found.gaps
        if self._last is not None and found.first != self._last + 1:
            gaps = [(self._last, found.first), *gaps]
        if gaps:
            self.gaps(found.path, gaps)
        self._last = found.last

    def _count(self, more: int) -> None:
        self._waiting += more
        if self._waiting > MOST_PAIRS:
            self.finish()

    def finish(self) -> None:
        """Print the kept contradictions and gaps, as DumpLogSegments does at its end."""
        contradictions, gaps = self._contradictions, self._gaps
        self._contradictions, self._gaps, self._waiting = {}, {}, 0
        for path, pairs in in_java_order(contradictions.get(Mismatch.OFFSET_INDEX, {})):
            by_offset = sorted(dict(pairs).items(), reverse=True)
            self._say(f"Mismatches in :{path}", "  Index offset: {}, log offset: {}", by_offset)
        for what, headline, line in _TIME_INDEX:
            for path, pairs in in_java_order(contradictions.get(what, {})):
                self._say(headline + path, line, pairs)
        for path, kept in in_java_order(gaps):
            headline = f"Non-consecutive offsets in {path}"
            self._say(headline, "  {} is followed by {}", sorted(kept.items()))

    def _say(self, headline: str, line: str, pairs: Iterable[tuple[int, int]]) -> None:
        lines = [printable(headline), *(line.format(*pair) for pair in pairs)]
        self.err("".join(f"{each}\n" for each in lines).encode())


_TIME_INDEX = (
    (
        Mismatch.TIMESTAMP,
        "Found timestamp mismatch in :",
        "  Index timestamp: {}, log timestamp: {}",
    ),
    (
        Mismatch.TIMESTAMP_ORDER,
        "Found out of order timestamp in :",
        "  Index timestamp: {}, Previously indexed timestamp: {}",
    ),
    (
        Mismatch.OFFSET_NOT_FOUND,
        "The following indexed offsets are not found in :",
        "Indexed offset: {}, found log offset: {}",
    ),
)


def in_java_order(by_path: dict[str, Value]) -> list[tuple[str, Value]]:
    """Return the items in the order of a java.util.HashMap that `computeIfAbsent` filled.

    computeIfAbsent puts a new key before the others of its slot, and checks for growth before it adds a key.
    """
    filled = len(by_path)
    if filled and len(next(reversed(by_path.values()))) == 1:
        filled -= 1  # no call after the one that added the last key
    slots = 16
    while filled > slots * 3 // 4:
        slots *= 2

    def slot(item: tuple[str, Value]) -> int:
        code = java_hash(item[0])
        return (code ^ (code >> 16)) & (slots - 1)

    newest_first = list(by_path.items())[::-1]
    return sorted(newest_first, key=slot)


def java_hash(text: str) -> int:
    """Return String.hashCode as an unsigned number of 32 bits.

    >>> java_hash("orders"), java_hash("")
    (3286196965, 0)
    """
    code = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
    return code
