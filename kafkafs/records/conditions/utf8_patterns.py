"""Regular expressions that mean characters, as expressions on the bytes of UTF-8.

The parsed pattern is written again for bytes: `.` takes the bytes of one character, a class those of one of its
characters. Records may hold other bytes, too. A byte that is not part of a character (with the continuation bytes
behind it, up to the number that it announces) counts as one character, which `.` and negated classes take. `\\xff`
is that byte, and not the character U+00FF, which is `\\u00ff`.

`\\w` and `\\b` count every character beyond ASCII as a letter, `\\d` and `\\s` know those of ASCII. Without regard to
case, letters of ASCII match each other, and letters beyond ASCII by Unicode's simple case folding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from re import _constants as ops, _parser as regex_parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple, TypeAlias

Op: TypeAlias = Any
Argument: TypeAlias = Any
Parsed: TypeAlias = Any

_LAST = 0x10FFFF
_CARRIED = re.IGNORECASE | re.MULTILINE | re.DOTALL
_LETTERS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_HIGH = frozenset(range(0x80, 0x100))
_CONTINUED = rb"[\x80-\xbf]"
_NOT_CONTINUED = rb"(?![\x80-\xbf])"
_IS_BETWEEN = rb"(?:(?![\x80-\xbf])|(?<![\x80-\xff]))"
"""Holds at the ends of characters, and beside bytes that are not part of one."""
_ESCAPE = re.compile(r"\\(?:x([89a-fA-F][0-9a-fA-F])|.)", re.DOTALL)
_BYTES = 0xDC00
"""Added to a byte: the character that stands for it in a text, as in Python's `surrogateescape`."""
_ANCHORS = {
    ops.AT_BEGINNING: b"^",
    ops.AT_BEGINNING_STRING: rb"\A",
    ops.AT_END: b"$",
    ops.AT_END_STRING: rb"\Z",
}
_WORD = rb"\w\x80-\xff"
_BOUNDARIES = {
    ops.AT_BOUNDARY: b"(?:(?<=[%b])(?![%b])|(?<![%b])(?=[%b]))" % ((_WORD,) * 4),
    ops.AT_NON_BOUNDARY: b"(?:(?<=[%b])(?=[%b])|(?<![%b])(?![%b]))" % ((_WORD,) * 4),
}
_ASCII_WORD = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE = ((0x09, 0x0D), (0x20, 0x20))


class Characters(NamedTuple):
    """Some characters, as ranges of code points.

    Attributes:
        ranges: first and last code points.
        broken: bytes that are taken where they are not part of a character.
        everywhere: bytes that are taken everywhere.
    """

    ranges: tuple[tuple[int, int], ...]
    broken: frozenset[int] = frozenset()
    everywhere: frozenset[int] = frozenset()

    def others(self) -> Characters:
        """Return all other characters."""
        found, after = [], 0
        for first, last in sorted(self.ranges):
            if after < first:
                found.append((after, first - 1))
            after = max(after, last + 1)
        if after <= _LAST:
            found.append((after, _LAST))
        return Characters(tuple(found), _HIGH - self.broken - self.everywhere)

    def folded(self) -> Characters:
        """Return the characters, and those that differ from one of them in case only."""

        def has(code: int) -> bool:
            return any(first <= code <= last for first, last in self.ranges)

        found = list(self.ranges)
        for codes in (*_ascii_cases(), *_cases().values()):
            if any(map(has, codes)):
                found += [(code, code) for code in codes]
        return self._replace(ranges=tuple(found))


_ANY = Characters(((0, _LAST),), _HIGH)
_DOT = Characters(((0, 9), (11, _LAST)), _HIGH)
_CATEGORIES = {
    ops.CATEGORY_DIGIT: Characters(((0x30, 0x39),)),
    ops.CATEGORY_SPACE: Characters(_SPACE),
    ops.CATEGORY_WORD: Characters((*_ASCII_WORD, (0x80, _LAST)), _HIGH),
}
_CATEGORIES |= {
    negated: _CATEGORIES[category].others()
    for category, negated in (
        (ops.CATEGORY_DIGIT, ops.CATEGORY_NOT_DIGIT),
        (ops.CATEGORY_SPACE, ops.CATEGORY_NOT_SPACE),
        (ops.CATEGORY_WORD, ops.CATEGORY_NOT_WORD),
    )
}


def compile_pattern(
    text: str, flags: re.RegexFlag = re.NOFLAG, *, is_word: bool = False
) -> re.Pattern[bytes]:
    """Return a pattern on bytes that finds the characters which a pattern means.

    Args:
        is_word: whether no letter, digit or underscore may be beside a match.

    Raises:
        re.error: the text is no regular expression.

    >>> bool(compile_pattern("Z.rich").search("Zürich".encode()))
    True
    """
    marked = _ESCAPE.sub(_marked, text)
    parsed = regex_parser.parse(marked, flags)
    flags = re.RegexFlag(parsed.state.flags)
    content = _sequence(parsed, flags)
    if not _begins_with_literal(parsed):
        content = _IS_BETWEEN + b"(?:" + content + b")"
    if is_word:
        content = b"(?<![%b])(?:%b)(?![%b])" % (_WORD, content, _WORD)
    return re.compile(content, flags & _CARRIED)


def _marked(escape: re.Match[str]) -> str:
    return escape[0] if escape[1] is None else chr(_BYTES + int(escape[1], 16))


def _begins_with_literal(parsed: Parsed) -> bool:
    """Return whether a match can begin only at the beginning of a character."""
    for op, argument in parsed:
        if op is ops.LITERAL:
            return True
        if op is ops.SUBPATTERN:
            return _begins_with_literal(argument[3])
        if op is ops.BRANCH:
            return all(map(_begins_with_literal, argument[1]))
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT) and argument[0]:
            return _begins_with_literal(argument[2])
        if op is not ops.AT:
            return False
    return True


def _sequence(parsed: Parsed, flags: re.RegexFlag, *, is_behind: bool = False) -> bytes:
    return b"".join(_operation(op, argument, flags, is_behind=is_behind) for op, argument in parsed)


def _operation(op: Op, argument: Argument, flags: re.RegexFlag, *, is_behind: bool) -> bytes:
    if op is ops.AT:
        if argument in _BOUNDARIES and not flags & re.ASCII:
            return _BOUNDARIES[argument]
        return _ANCHORS.get(argument) or (rb"\b" if argument is ops.AT_BOUNDARY else rb"\B")
    if op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
        return _characters(op, argument, flags, is_behind=is_behind)
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, getattr(ops, "POSSESSIVE_REPEAT", None)):
        return _repeat(op, argument, flags, is_behind=is_behind)
    return _group(op, argument, flags, is_behind=is_behind)


def _group(op: Op, argument: Argument, flags: re.RegexFlag, *, is_behind: bool) -> bytes:
    if op is ops.SUBPATTERN:
        group, on, off, content = argument
        written = _sequence(content, (flags | on) & ~off, is_behind=is_behind)
        if group is not None:
            return b"(" + written + b")"
        added, removed = (
            "".join(letter for flag, letter in _LETTERS.items() if flag & some)
            for some in (on, off)
        )
        return b"(?%b%b:%b)" % (added.encode(), f"-{removed}".encode() if removed else b"", written)
    if op is ops.BRANCH:
        ways = (_sequence(way, flags, is_behind=is_behind) for way in argument[1])
        return b"(?:" + b"|".join(ways) + b")"
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        direction, content = argument
        sign = b"!" if op is ops.ASSERT_NOT else b"="
        behind = b"<" if direction < 0 else b""
        return b"(?%b%b%b)" % (behind, sign, _sequence(content, flags, is_behind=direction < 0))
    if op is ops.GROUPREF:
        return b"(?:\\%d)" % argument
    if op is ops.GROUPREF_EXISTS:
        group, yes, no = argument
        other = b"" if no is None else b"|" + _sequence(no, flags, is_behind=is_behind)
        return b"(?(%d)%b%b)" % (group, _sequence(yes, flags, is_behind=is_behind), other)
    if op is ops.ATOMIC_GROUP:
        return b"(?>" + _sequence(argument, flags, is_behind=is_behind) + b")"
    raise re.error(f"{str(op).lower()} is not supported")


def _repeat(op: Op, argument: Argument, flags: re.RegexFlag, *, is_behind: bool) -> bytes:
    least, most, content = argument
    suffix = b"" if op is ops.MAX_REPEAT else b"?" if op is ops.MIN_REPEAT else b"+"
    written = _sequence(content, flags, is_behind=is_behind)
    is_endless = most is ops.MAXREPEAT
    if is_endless and list(content) == [(ops.ANY, None)] and suffix != b"+":
        # As fast as on bytes, which are the same up to the end of a character.
        least_of_it = b"(?:%b){%d}" % (written, least) if least else b""
        dot = rb"[\x00-\xff]" if flags & re.DOTALL else rb"[^\n]"
        return least_of_it + dot + b"*" + suffix + _IS_BETWEEN
    return b"(?:%b){%d,%b}%b" % (written, least, b"" if is_endless else b"%d" % most, suffix)


def _characters(op: Op, argument: Argument, flags: re.RegexFlag, *, is_behind: bool) -> bytes:
    """Return the expression of an operation that takes one character."""
    if op is ops.LITERAL and (argument < 0x80 or not flags & re.IGNORECASE or _is_byte(argument)):
        return re.escape(_encoded(argument))
    if op is ops.ANY:
        some = _ANY if flags & re.DOTALL else _DOT
    else:
        members = [(ops.LITERAL, argument)] if op is not ops.IN else argument
        some = _union(_member(kind, value, flags) for kind, value in members)
        if flags & re.IGNORECASE:
            some = some.folded()
        if op is ops.NOT_LITERAL or (op is ops.IN and argument[0][0] is ops.NEGATE):
            some = some.others()
    if is_behind and some.broken:  # of its last byte: look-behind needs a fixed width
        return _class({*_ascii_of(some), *_HIGH})
    return _written(some)


def _member(kind: Op, argument: Argument, flags: re.RegexFlag) -> Characters:
    if kind is ops.NEGATE:
        return Characters(())
    if kind is ops.CATEGORY:
        if flags & re.ASCII and argument is ops.CATEGORY_WORD:
            return Characters(_ASCII_WORD)
        if flags & re.ASCII and argument is ops.CATEGORY_NOT_WORD:
            return Characters(_ASCII_WORD).others()
        return _CATEGORIES[argument]
    first, last = argument if kind is ops.RANGE else (argument, argument)
    if not _is_byte(last):
        return Characters(((first, last),))
    low = first - _BYTES if _is_byte(first) else first
    everywhere = frozenset(range(max(low, 0x80), last - _BYTES + 1))
    return Characters(((low, 0x7F),) if low < 0x80 else (), frozenset(), everywhere)


def _union(several: Iterable[Characters]) -> Characters:
    ranges: tuple[tuple[int, int], ...] = ()
    broken: frozenset[int] = frozenset()
    everywhere: frozenset[int] = frozenset()
    for each in several:
        ranges += each.ranges
        broken |= each.broken
        everywhere |= each.everywhere
    return Characters(ranges, broken, everywhere)


def _is_byte(code: int) -> bool:
    return _BYTES + 0x80 <= code <= _BYTES + 0xFF


def _encoded(code: int) -> bytes:
    return bytes([code - _BYTES]) if _is_byte(code) else chr(code).encode("utf-8", "surrogatepass")


def _ascii_of(some: Characters) -> set[int]:
    return {code for first, last in some.ranges for code in range(first, min(last, 0x7F) + 1)}


def _written(some: Characters) -> bytes:
    """Return the expression for one of some characters."""
    single = _ascii_of(some) | some.everywhere
    ways = [_class(single)] if single else []
    for first, last in _joined(some.ranges):
        if (first, last) == (0x80, _LAST):
            ways += [rb"[\xc0-\xdf]" + _CONTINUED, rb"[\xe0-\xef]" + _CONTINUED * 2]
            ways += [rb"[\xf0-\xf7]" + _CONTINUED * 3]
        else:
            ways += [b"".join(map(_byte_range, each)) for each in sequences(first, last)]
    ways += _broken(some.broken)
    if not ways:
        return rb"(?!)"
    return ways[0] if len(ways) == 1 else b"(?:" + b"|".join(ways) + b")"


def _joined(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges beyond ASCII in order, joined where they touch."""
    first, last = 0, -1
    for low, high in sorted((max(low, 0x80), high) for low, high in ranges if high >= 0x80):
        if low > last + 1:
            if last >= 0:
                yield first, last
            first = low
        last = max(last, high)
    if last >= 0:
        yield first, last


def _broken(some: frozenset[int]) -> Iterator[bytes]:
    """Yield the expressions for bytes that are not part of a character."""
    alone = {byte for byte in some if byte < 0xC0 or byte >= 0xF8}
    if alone:
        yield _class(alone)
    for count, lowest in enumerate((0xC0, 0xE0, 0xF0)):
        leading = {byte for byte in some if lowest <= byte < 0xF8}
        if leading:
            yield _class(leading) + _CONTINUED * count + _NOT_CONTINUED


def sequences(first: int, last: int) -> Iterator[list[tuple[int, int]]]:
    """Yield ranges of bytes, one for each byte of a character, that together are the characters of a range.

    >>> list(sequences(0xE4, 0xFC))
    [[(195, 195), (164, 188)]]
    """
    for end in (0x7F, 0x7FF, 0xFFFF):
        if first <= end < last:
            yield from sequences(first, end)
            yield from sequences(end + 1, last)
            return
    for bits in (6, 12, 18):
        mask = (1 << bits) - 1
        if first & ~mask != last & ~mask:
            if first & mask:
                yield from sequences(first, first | mask)
                yield from sequences((first | mask) + 1, last)
                return
            if last & mask != mask:
                yield from sequences(first, (last & ~mask) - 1)
                yield from sequences(last & ~mask, last)
                return
    low, high = (chr(code).encode("utf-8", "surrogatepass") for code in (first, last))
    yield list(zip(low, high, strict=True))


def _byte_range(bounds: tuple[int, int]) -> bytes:
    low, high = bounds
    return b"\\x%02x" % low if low == high else b"[\\x%02x-\\x%02x]" % (low, high)


def _class(some: Iterable[int]) -> bytes:
    """Return a class of bytes."""
    ranges: list[list[int]] = []
    for byte in sorted(some):
        if ranges and ranges[-1][1] == byte - 1:
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    if len(ranges) == 1:
        return _byte_range((ranges[0][0], ranges[0][1]))
    inside = (
        b"\\x%02x" % low if low == high else b"\\x%02x-\\x%02x" % (low, high)
        for low, high in ranges
    )
    return b"[" + b"".join(inside) + b"]"


def _ascii_cases() -> Iterator[list[int]]:
    for code in range(0x41, 0x5B):
        yield [code, code + 0x20]


@cache
def _cases() -> dict[str, list[int]]:
    """Return the characters beyond ASCII that differ in case only, by their folded form."""
    found: dict[str, list[int]] = {}
    for code in range(0x80, 0x1E944):
        character = chr(code)
        folded = character.casefold()
        if len(folded) != 1:
            folded = character.lower()
        found.setdefault(folded, []).append(code)
    return {folded: codes for folded, codes in found.items() if len(codes) > 1}
