"""A literal that each match of a regular expression contains; the kernel looks for it before `re` is run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _constants as ops, _parser as regex_parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple, TypeAlias

Parsed: TypeAlias = Iterable[tuple[Any, Any]]
"""Operations of a parsed pattern, each with its argument."""


class RequiredLiteral(NamedTuple):
    """Bytes that every match contains.

    Attributes:
        content: the bytes; empty if none are known.
        fold: whether capital and small ASCII letters are the same.
        is_all: whether all bytes that contain the literal match.
    """

    content: bytes
    fold: bool
    is_all: bool


NO_LITERAL = RequiredLiteral(b"", False, False)


def required_literal(pattern: re.Pattern[bytes]) -> RequiredLiteral:
    """Return the longest run of plain bytes that every match of a pattern contains."""
    if pattern.flags & re.LOCALE:
        return NO_LITERAL
    best = current = b""
    parsed = regex_parser.parse(pattern.pattern, pattern.flags)
    for byte in _bytes_of(parsed):
        current = b"" if byte is None else current + bytes([byte])
        best = max(best, current, key=len)
    is_all = all(op is ops.LITERAL for op, _ in parsed)
    return RequiredLiteral(best, bool(pattern.flags & re.IGNORECASE), is_all)


def _bytes_of(parsed: Parsed) -> Iterator[int | None]:
    """Yield the bytes that follow each other in every match, and None between them where others may be."""
    for op, argument in parsed:
        if op is ops.LITERAL:
            yield argument
        elif op is ops.SUBPATTERN and not argument[1] and not argument[2]:  # flags on and off
            yield from _bytes_of(argument[3])
        elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT) and argument[0]:  # at least once
            yield None
            yield from _bytes_of(argument[2])
            yield None
        elif op is not ops.AT:  # an anchor takes no bytes
            yield None
