"""Conditions in jq's language that need no libjq: comparisons of fields with values, joined by and, or, not.

    .value.amount > 100 and (.key == "k7" or .value."first name" != null) | not

They say of a line what libjq says, at a fraction of its time. What they do not decide they leave to libjq: other
expressions, and lines where arrays, objects or numbers above 2**53 would be compared.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Condition: TypeAlias = Callable[[Any], object]
"""Function of a record line as Python objects; returns what the expression yields."""

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
_SIGNS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_MOST_EXACT = 2**53
_MOST_DEPTH = 50
_RANKS = {type(None): 0, bool: 1, int: 3, float: 3, str: 4}
"""Order of jq's types; those of arrays and objects come last."""
_NAMES = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}


class UndecidedError(Exception):
    """Values that are left to libjq."""


class OtherTypeError(Exception):
    """A field was asked for of what is no object; the text is libjq's."""


class _Refused(Exception):
    """An expression of another kind."""


def plain_condition(text: str) -> Condition | None:
    """Return the condition of an expression; None if only libjq knows what it says.

    The condition raises UndecidedError and OtherTypeError.

    >>> condition = plain_condition('.value.amount > 100 and .key == "k7"')
    >>> [condition({"key": "k7", "value": {"amount": each}}) for each in (100, 101)]
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
    """Reader of an expression; each method returns the condition of a part, by jq's precedence of operators."""

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
            found = _not(found)
        return found

    def _joined(self, word: str, depth: int) -> Condition:
        def part() -> Condition:
            return self._joined("and", depth) if word == "or" else self._compared(depth)

        parts = [part()]
        while self.given("word", word) is not None:
            parts.append(part())
        return parts[0] if len(parts) == 1 else (_any if word == "or" else _all)(parts)

    def _compared(self, depth: int) -> Condition:
        left = self._value(depth)
        sign = self._tokens[self._at][1]
        if sign not in _SIGNS or self.given("sign") is None:
            return left
        return _comparison(_SIGNS[sign], left, self._value(depth))

    def _value(self, depth: int) -> Condition:
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "path":
            return _path(tuple(quoted or name for quoted, name in _KEY.findall(text)))
        if kind == "text":
            return _constant(text[1:-1])
        if kind == "number":
            return _constant(float(text) if "." in text else int(text))
        if kind == "word" and text in _VALUES:
            return _constant(_VALUES[text])
        if (kind, text) == ("sign", "("):
            found = self.piped(depth + 1)
            self.take("sign", ")")
            return found
        raise _Refused


def _constant(value: object) -> Condition:
    return lambda _: value


def _path(keys: tuple[str, ...]) -> Condition:
    def found(value: Any) -> object:  # noqa: ANN401
        for key in keys:
            if type(value) is dict:
                value = value.get(key)
            elif value is not None:
                raise OtherTypeError(f'Cannot index {_NAMES[type(value)]} with string ("{key}")')
        return value

    return found


def _is_true(value: object) -> bool:
    return value is not None and value is not False


def _not(part: Condition) -> Condition:
    return lambda line: not _is_true(part(line))


def _any(parts: list[Condition]) -> Condition:
    return lambda line: any(_is_true(part(line)) for part in parts)


def _all(parts: list[Condition]) -> Condition:
    return lambda line: all(_is_true(part(line)) for part in parts)


def _comparison(
    compare: Callable[[Any, Any], bool], left: Condition, right: Condition
) -> Condition:
    def found(line: Any) -> bool:  # noqa: ANN401
        second, first = right(line), left(line)  # in jq's order: of two errors it has the second's
        if type(first) is str and type(second) is str:
            return compare(first, second)
        return compare(_ordered(first), _ordered(second))

    return found


def _ordered(value: object) -> tuple[int, object]:
    """Return what sorts among other values as jq sorts them."""
    rank = _RANKS.get(type(value))
    if rank is None or (rank == 3 and not -_MOST_EXACT <= value <= _MOST_EXACT):  # type: ignore[operator]
        raise UndecidedError
    return (rank, value) if rank > 1 else (rank + (value is True), 0)
