"""Files in Java's properties format: "key=value" lines in ISO 8859-1 with backslash escapes.

See java.util.Properties.load. Keys end at the first unescaped "=", ":" or blank; a backslash at the
end of a line continues it on the next; "#" and "!" start comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from engine.checkpoint.decimal_text import parse_int32
from engine.errors import CorruptCheckpointError, LimitExceededError

MAX_LINES = 100_000
"""Most lines of a file; a meta.properties has about ten."""
_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_BETWEEN = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)?", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LETTERS = {character: letter for letter, character in _CONTROLS.items()}
_SPECIAL = re.compile(r"[\\=:#!\t\n\r\f]")
_KEY_BLANKS = re.compile(" ")
_LEADING_BLANK = re.compile(r"\A ")


def parse_properties(data: bytes, *, path: str | None = None) -> dict[str, str]:
    """Return the properties of a file; the last one of a key wins.

    Raises CorruptCheckpointError for a malformed unicode escape, LimitExceededError for more than MAX_LINES.
    """
    properties = {}
    for line, text in _logical_lines(data.decode("iso-8859-1"), path):
        match = _KEY.match(text)
        key = match[0] if match else ""
        between = _BETWEEN.match(text, len(key))
        value = text[between.end() if between else len(key) :]
        properties[_unescape(key, line, path)] = _unescape(value, line, path)
    return properties


def render_properties(properties: Mapping[str, str]) -> bytes:
    """Return the file of these properties, in order; all but printable ASCII is escaped.

    >>> render_properties({"node.id": "1", "a b": "x=y"})
    b'#\\nnode.id=1\\na\\\\ b=x\\\\=y\\n'
    """
    lines = (f"{_escape(key, _KEY_BLANKS)}={_escape(properties[key])}\n" for key in properties)
    return ("#\n" + "".join(lines)).encode("ascii")


def required_int(properties: Mapping[str, str], name: str, *, path: str | None = None) -> int:
    """Return a required property as a 32-bit number. Raises CorruptCheckpointError."""
    text = properties.get(name)
    if text is None:
        raise CorruptCheckpointError(f"there is no {name}", path=path)
    try:
        return parse_int32(text)
    except ValueError:
        raise CorruptCheckpointError(
            f"{name} is not a number", path=path, found=ascii(text[:40])
        ) from None


def _logical_lines(text: str, path: str | None) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, without comments and blank lines, continued lines joined."""
    parts: list[str] = []
    start = 0
    for number, natural in enumerate(_LINE.finditer(text), 1):
        if number > MAX_LINES:
            raise LimitExceededError("there are too many lines", limit="MAX_LINES", path=path)
        stripped = natural[1].lstrip(_BLANKS)
        if not parts:
            start = number
            if not stripped or stripped[0] in "#!":
                continue
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            parts.append(stripped[:-1])
            continue
        parts.append(stripped)
        yield start, "".join(parts)
        parts = []


def _unescape(text: str, line: int, path: str | None) -> str:
    if "\\" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        escaped = match[1] or ""
        if escaped == "u":
            raise CorruptCheckpointError("malformed \\u escape", line=line, path=path)
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _CONTROLS.get(escaped, escaped)

    return _ESCAPE.sub(plain, text)


def _escape(text: str, blanks: re.Pattern[str] = _LEADING_BLANK) -> str:
    text = _SPECIAL.sub(lambda match: "\\" + _LETTERS.get(match[0], match[0]), text)
    text = blanks.sub(r"\\ ", text)
    # Java's characters are UTF-16 code units.
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04X}" for code in codes)
