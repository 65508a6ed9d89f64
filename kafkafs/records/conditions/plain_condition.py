"""Conditions in jq's language that need no libjq: comparisons of fields with values, joined by and, or, not.

    .value.amount > 100 and (.key == "k7" or .value."first name" != null) | not

Other expressions are left to libjq.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafkafs.records.conditions.condition import (
    SIGNS,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Constant,
    LineField,
    Not,
)

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<path>\.(?:[A-Za-z_]\w*|"[^"\\]*")(?:\.(?:[A-Za-z_]\w*|"[^"\\]*"))*) |
    (?P<text>"[^"\\]*") | (?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?![0-9.eE])) |
    (?P<word>[a-z]+) | (?P<sign>==|!=|<=|>=|[<>()|])
    )""",
    re.VERBOSE | re.ASCII,
)
_KEY = re.compile(r'\.(?:"([^"]*)"|(\w+))', re.ASCII)
_VALUES = {"null": None, "true": True, "false": False}
_MOST_DEPTH = 50


class _Refused(Exception):
    """An expression of another kind."""


def plain_condition(text: str) -> Condition | None:
    """Return the condition of an expression; None if only libjq knows what it says.

    >>> condition = plain_condition('.value.amount > 100 and .key == "k7"')
    >>> [condition.answer({"key": "k7", "value": {"amount": each}}) for each in (100, 101)]
    [False, True]
    >>> plain_condition(".value | length")
    """
    try:
        tokens = list(_tokens(text))
        reader = _Reader(tokens)
        found = reader.piped(0)
        reader.take("end")
    except _Refused:
        return None
    return found


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _Refused
        yield match.lastgroup, match[match.lastgroup]
        at = match.end()
    yield "end", ""


class _Reader:
    """Reader of an expression; each method returns the condition of a part, by jq's precedence."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def take(self, kind: str, text: str | None = None) -> str:
        found = self.given(kind, text)
        if found is None:
            raise _Refused
        return found

    def given(self, kind: str, text: str | None = None) -> str | None:
        """Return the next token's text if it is the wanted one, and go on behind it."""
        found, content = self._tokens[self._at]
        if found != kind or (text is not None and content != text):
            return None
        self._at += 1
        return content

    def piped(self, depth: int) -> Condition:
        if depth > _MOST_DEPTH:
            raise _Refused
        found = self._joined("or", depth)
        while self.given("sign", "|") is not None:
            self.take("word", "not")
            found = Not(found)
        return found

    def _joined(self, word: str, depth: int) -> Condition:
        def part() -> Condition:
            return self._joined("and", depth) if word == "or" else self._compared(depth)

        parts = [part()]
        while self.given("word", word) is not None:
            parts.append(part())
        return parts[0] if len(parts) == 1 else (AnyOf if word == "or" else AllOf)(tuple(parts))

    def _compared(self, depth: int) -> Condition:
        left = self._value(depth)
        sign = self._tokens[self._at][1]
        if sign not in SIGNS or self.given("sign") is None:
            return left
        return Comparison(sign, left, self._value(depth))

    def _value(self, depth: int) -> Condition:
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "path":
            return LineField(tuple(quoted or name for quoted, name in _KEY.findall(text)))
        if kind == "text":
            return Constant(text[1:-1])
        if kind == "number":
            return Constant(float(text) if "." in text else int(text))
        if kind == "word" and text in _VALUES:
            return Constant(_VALUES[text])
        if (kind, text) == ("sign", "("):
            found = self.piped(depth + 1)
            self.take("sign", ")")
            return found
        raise _Refused
