"""Convert bytes to JSON that is safe to print, for record lines.

`engine/kernel/c/text.h` is the compiled twin; both must agree byte for byte.

The result is always valid JSON on one line, in valid UTF-8, without a control character
(C0, DEL, C1), bidi control, zero-width or tag character, or byte order mark: those are escaped as \\u.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import cache

from engine.coding.layout import Buffer
from engine.units import LAST_TIME

JSON_DEPTH = 128
"""Deepest nesting of arrays and objects; deeper JSON is shown as text."""
JSON_NUMBER = 4300
"""Most characters of a number, the limit of Python's json; JSON with longer ones is shown as text."""


class Values(IntEnum):
    """Ways to show keys and values; the lower-case names are the values of `--values`."""

    AUTO = 0
    """Embedded if it is one JSON object or array, else as TEXT."""
    TEXT = 1
    """A string if it is UTF-8, else base64."""
    JSON = 2
    """Same as AUTO."""
    BASE64 = 3
    HEX = 4
    NONE = 5
    """Sizes only."""


_HIDDEN_RANGES = (
    r"\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f"
)
_HIDDEN = re.compile(f"[{_HIDDEN_RANGES}]")
_SPECIAL = re.compile(rf'["\\\x00-\x1f{_HIDDEN_RANGES}]')
_LETTERS = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


def _escape(match: re.Match[str]) -> str:
    return _escaped(match[0])


@cache
def _escaped(character: str) -> str:
    letter = _LETTERS.get(character)
    if letter is not None:
        return "\\" + letter
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def string_json(text: str) -> str:
    """Return a JSON string, with its quotes. The text must not have lone surrogates."""
    return f'"{_SPECIAL.sub(_escape, text)}"'


def hide(json_text: str) -> str:
    """Return JSON text with the unprintable characters in its strings escaped."""
    return _HIDDEN.sub(_escape, json_text)


def bytes_json(data: bytes, values: Values = Values.AUTO) -> tuple[bytes, str | None]:
    """Return the JSON of non-null bytes, and the name of its Encoding field, None for plain text.

    Raises ValueError for Values.NONE, which shows no bytes.
    """
    if values is Values.NONE:
        raise ValueError("nothing to show")
    if values is Values.HEX:
        return b'"%s"' % data.hex().encode(), "hex"
    if values is not Values.BASE64:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            if values is not Values.TEXT and (embedded := minified_container(text)) is not None:
                return hide(embedded).encode(), "json"
            return string_json(text).encode(), None
    return b'"%s"' % base64.b64encode(data), "base64"


class Shown(IntEnum):
    """Forms of shown bytes, as in their Encoding field."""

    TEXT = 0
    JSON = 1
    BASE64 = 2
    HEX = 3
    NONE = 4


def how_shown(data: Buffer, mode: int) -> int:
    """Return how a field's bytes are shown (a `Shown`) for a `mode` (a `Values`)."""
    if mode in (Values.HEX, Values.BASE64, Values.NONE):
        return Shown[Values(mode).name]
    _, encoding = bytes_json(bytes(data), Values(mode))
    return Shown.TEXT if encoding is None else Shown[encoding.upper()]


def text_piece(
    data: Buffer,
    start: int,
    most: int,
    shown: int,
    in_string: bool = False,
    measure: bool = False,
) -> tuple[bytes | None, int, int, bool]:
    """Return a piece of the JSON of bytes; all pieces together equal `bytes_json`.

    Args:
        data: the bytes of the whole field.
        start: start of the piece in `data`, the end of the previous piece.
        most: approximate number of bytes of `data` to take, 16 or more.
        shown: a `Shown`, from `how_shown`.
        in_string: for JSON, whether the piece begins in a string.
        measure: only return the size of the text.

    Returns:
        the text (None if measured), its size, the start of the next piece, and whether that is in a string.
    """
    view = memoryview(data)
    if not 0 <= start <= len(view) or most < 16 or not Shown.TEXT <= shown < Shown.NONE:
        raise ValueError("no such piece")
    stop = min(start + most, len(view))
    if shown == Shown.JSON:
        text, stop, in_string = _json_piece(view, start, stop, in_string)
    else:
        if stop < len(view) and shown == Shown.BASE64:
            stop -= (stop - start) % 3
        while start < stop < len(view) and shown == Shown.TEXT and view[stop] & 0xC0 == 0x80:
            stop -= 1
        mode = {Shown.TEXT: Values.TEXT, Shown.HEX: Values.HEX}.get(Shown(shown), Values.BASE64)
        text, encoding = bytes_json(bytes(view[start:stop]), mode)
        if shown == Shown.TEXT and encoding is not None:
            raise ValueError("the bytes are not of this encoding")
        text = text[1 if start else 0 : len(text) if stop == len(view) else -1]
    return None if measure else text, len(text), stop, in_string


_JSON_STRING = re.compile(rb'[^"\\\x7f-\xff]+')
_NO_STRING = re.compile(rb'[^" \n\r\t]+')


def _json_piece(
    view: memoryview, start: int, stop: int, in_string: bool
) -> tuple[bytes, int, bool]:
    """Return a piece of a valid container, without whitespace and with unprintable characters escaped."""
    parts: list[bytes] = []
    at = start
    while at < stop:
        plain = (_JSON_STRING if in_string else _NO_STRING).match(view, at, stop)
        byte = view[at]
        if plain is not None:
            parts.append(plain[0])
            at = plain.end()
        elif byte == 0x22:
            in_string = not in_string
            parts.append(b'"')
            at += 1
        elif not in_string:
            at += 1
        elif byte == 0x5C:
            # A surrogate pair is two escapes; each can be copied alone.
            size = 6 if view[at + 1] == 0x75 else 2
            parts.append(bytes(view[at : at + size]))
            at += size
        else:
            size = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            parts.append(hide(bytes(view[at : at + size]).decode()).encode())
            at += size
    return b"".join(parts), at, in_string


def time_json(ms: int) -> bytes:
    """Return milliseconds since 1970 as an RFC 3339 string in UTC; null before 1970 and after the year 9999."""
    if not 0 <= ms <= LAST_TIME:
        return b"null"
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return f'"{moment.isoformat(timespec="milliseconds")[:-6]}Z"'.encode()


_SPACE = " \n\r\t"
_TOKEN = re.compile(
    r"[ \n\r\t]*"
    r"(?:(?P<mark>[\[\]{},:\"])|(?P<scalar>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null))"
)
_HEX2 = "[0-9a-fA-F]{2}"
_STRING_PART = re.compile(
    r'[^"\\\x00-\x1f]*'
    r'(?:"|\\(?:["\\/bfnrt]|u(?:'
    rf"[0-9a-cefA-CEF][0-9a-fA-F]{_HEX2}|[dD][0-7]{_HEX2}|[dD][89abAB]{_HEX2}\\u[dD][c-fC-F]{_HEX2})))"
)
_AFTER_MARK = {"{": "name or end", "[": "value or end", ":": "value"}


def minified_container(text: str) -> str | None:
    """Return the text without whitespace between tokens if it is exactly one JSON object or array, else None.

    Strict RFC 8259, and besides: no lone surrogate among the \\u escapes, at most JSON_DEPTH nested
    containers, no number of more than JSON_NUMBER characters.
    """
    stripped = text.strip(_SPACE)
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return None
    tokens: list[str] = []
    closers: list[str] = []
    at, expected = 0, "container"
    while expected != "end of text":
        match = _TOKEN.match(stripped, at)
        if match is None:
            return None
        kind = token = match["mark"] or match["scalar"]
        at = match.end()
        if match["scalar"]:
            if len(token) > JSON_NUMBER:
                return None
            kind = "scalar"
        elif token == '"':
            end = _string_end(stripped, at)
            if end is None:
                return None
            token = stripped[at - 1 : end]
            at = end
        following = _step(expected, kind, closers)
        if following is None:
            return None
        expected = following
        tokens.append(token)
    return "".join(tokens) if at == len(stripped) else None


def _step(expected: str, kind: str, closers: list[str]) -> str | None:
    """Return what may follow a token of this kind (a mark or "scalar") where `expected` was; None if not allowed."""
    takes_value = expected in ("value", "value or end")
    if kind in "{[":
        if not (takes_value or expected == "container") or len(closers) == JSON_DEPTH:
            return None
        closers.append("}" if kind == "{" else "]")
        return _AFTER_MARK[kind]
    if kind in "}]":
        if not (expected == "comma" or expected.endswith(" or end")) or closers.pop() != kind:
            return None
        return "comma" if closers else "end of text"
    if kind == '"' and expected in ("name", "name or end"):
        return "colon"
    if kind in ('"', "scalar"):
        return "comma" if takes_value else None
    if kind == ":":
        return "value" if expected == "colon" else None
    if expected != "comma":
        return None
    return "name" if closers[-1] == "}" else "value"


def _string_end(text: str, at: int) -> int | None:
    """Return the end of the string with its opening quote before `at`, in one step per escape to bound memory."""
    while (match := _STRING_PART.match(text, at)) is not None:
        at = match.end()
        if match[0][-1] == '"' and not match[0].endswith('\\"'):
            return at
    return None
