"""Look for texts in bytes, also where they stand in Base64, in hex, in UTF-16 or escaped as in JSON.

A text is looked for by six of its bytes, chosen to be rare among all texts; where they stand, the rest is compared. Three
tables of pairs of bytes rule out most positions, so that the time hardly depends on the number of texts.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from engine.coding.layout import Buffer

SHORTEST = 6
"""Bytes of the shortest text that is looked for inside other bytes: shorter ones stand there by chance."""
_LONGEST = 256
"""Bytes of a text after which a match is certain."""
_WINDOWS = 16


class SoughtText(NamedTuple):
    """A text to look for.

    Attributes:
        text: its bytes.
        of: what it is: "key", "value" or "text".
        form: how it is written: "bytes", "Base64", "hex", "UTF-16" or "JSON".
    """

    text: bytes
    of: str
    form: str


class Needles:
    """Some texts in all their forms.

    Args:
        texts: what each text is, and its bytes.

    Attributes:
        longest: bytes of the longest form.
    """

    def __init__(self, texts: Iterable[tuple[str, bytes]]) -> None:
        needles = [
            SoughtText(form[0][:_LONGEST], of, form[1])
            for of, text in texts
            for form in forms(text)
            if len(form[0]) >= SHORTEST
        ]
        counts = Counter(
            needle.text[at : at + SHORTEST] for needle in needles for at in _places(needle.text)
        )
        self._tables = [np.zeros(1 << 16, np.bool_) for _ in range(SHORTEST // 2)]
        self._by_window: dict[bytes, list[tuple[int, SoughtText]]] = {}
        for needle in needles:
            at = min(_places(needle.text), key=lambda at: counts[needle.text[at : at + SHORTEST]])
            window = needle.text[at : at + SHORTEST]
            self._by_window.setdefault(window, []).append((at, needle))
            for table, pair in zip(self._tables, np.frombuffer(window, "<u2"), strict=True):
                table[pair] = True
        self.longest = max((len(needle.text) for needle in needles), default=0)

    def __bool__(self) -> bool:
        return bool(self._by_window)

    def found(self, data: Buffer) -> Iterator[tuple[int, SoughtText]]:
        """Yield where texts stand in some bytes, and which."""
        view = np.frombuffer(data, np.uint8)
        if not self._by_window or len(view) < SHORTEST:
            return
        pairs = view[:-1].astype(np.uint16)
        pairs |= view[1:].astype(np.uint16) << 8
        places = np.flatnonzero(self._tables[0][pairs[: len(view) - SHORTEST + 1]])
        for number, table in enumerate(self._tables[1:], 1):
            places = places[table[pairs[places + 2 * number]]]
        buffer = memoryview(data)
        for place in places.tolist():
            window = bytes(buffer[place : place + SHORTEST])
            for at, needle in self._by_window.get(window, ()):
                start = place - at
                if start >= 0 and buffer[start : start + len(needle.text)] == needle.text:
                    yield start, needle


def _places(text: bytes) -> list[int]:
    last = len(text) - SHORTEST
    return sorted({last * each // (_WINDOWS - 1) for each in range(_WINDOWS)})


def forms(text: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield the forms of a text, and their names.

    >>> [name for _, name in forms(b"anna@example.org")]
    ['bytes', 'hex', 'hex', 'Base64', 'Base64', 'Base64', 'UTF-16', 'UTF-16']
    """
    text = text[:_LONGEST]
    yield text, "bytes"
    yield text.hex().encode(), "hex"
    yield text.hex().upper().encode(), "hex"
    for lead in range(3):
        encoded = base64.b64encode(bytes(lead) + text)
        sure = encoded[(8 * lead + 5) // 6 : 8 * (lead + len(text)) // 6]
        yield sure, "Base64"
        if any(each in b"+/" for each in sure):
            yield sure.translate(bytes.maketrans(b"+/", b"-_")), "Base64"
    try:
        shown = text.decode()
    except UnicodeDecodeError:
        return
    yield shown.encode("utf-16-le"), "UTF-16"
    yield shown.encode("utf-16-be"), "UTF-16"
    escaped = json.dumps(shown)[1:-1].encode()
    if escaped != text:
        yield escaped, "JSON"
