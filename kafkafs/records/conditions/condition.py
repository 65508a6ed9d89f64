"""The tree of a condition on record lines.

A tree is asked of lines as Python objects, and says what libjq says at a fraction of its time. Before
that it is asked of what is known without a line: the offsets of a log, the headers of batches, the
columns and the bytes of records. What these decide is not read, not decoded, and not made a line.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.units import Offset

Marks: TypeAlias = npt.NDArray[np.bool_] | np.bool_
"""One mark for each record or batch, or the one of all of them."""
Interval: TypeAlias = tuple[Any, Any]
"""The smallest and the largest number that a field may be, for each record or batch or for all."""
Answer: TypeAlias = Callable[[Any], object]
"""What an expression yields of a record line as Python objects."""

SIGNS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_EXACT = 2**53
_RANKS = {type(None): 0, bool: 1, int: 3, float: 3, str: 4}
"""Order of jq's types; those of arrays and objects come last."""
_NAMES = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}


class UndecidedError(Exception):
    """Values that are left to libjq: arrays, objects and numbers above 2**53 that would be compared."""


class OtherTypeError(Exception):
    """A field was asked for of what is no object; the text is libjq's."""


class Truth(NamedTuple):
    """What is known of a condition without a line.

    Attributes:
        is_sure: of which records it is true.
        is_possible: of which it may be true.
        may_fail: whether a line may have another type than the condition asks for, which is not true.
    """

    is_sure: Marks
    is_possible: Marks
    may_fail: bool = False


UNKNOWN = Truth(np.False_, np.True_, may_fail=True)
BytesTruth: TypeAlias = Callable[[tuple[str, ...], str], Truth]
"""Returns of which records a field, by its path, is a text."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of records without their lines.

    Attributes:
        texts, numbers: fields at the top of the line.
        by_bytes: tells texts by the bytes of keys and values.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, Interval] = field(default_factory=dict)
    by_bytes: BytesTruth | None = None

    def compared(self, path: tuple[str, ...], sign: str, value: object) -> Truth:
        """Return of which records a comparison of a field with a constant is true."""
        name = path[0] if len(path) == 1 else ""
        if name in self.texts:
            return _constant_truth(SIGNS[sign](_ordered(self.texts[name]), _ordered(value)))
        if name in self.numbers:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return _constant_truth(SIGNS[sign](_ordered(0), _ordered(value)))
            interval = self.numbers[name]
            return Truth(~_may_be(interval, _OPPOSITE[sign], value), _may_be(interval, sign, value))
        if self.by_bytes is None or not isinstance(value, str) or sign not in ("==", "!="):
            return UNKNOWN
        truth = self.by_bytes(path, value)
        return truth if sign == "==" else _negated(truth)


class Condition(Protocol):
    """A part of the tree."""

    @property
    def answer(self) -> Answer:
        """Return what the part yields of a line; raises UndecidedError and OtherTypeError."""

    def truth(self, known: Known) -> Truth:
        """Return of which records it is true, as far as that is known."""


@dataclass(frozen=True)
class Constant:
    """A value."""

    value: object

    @cached_property
    def answer(self) -> Answer:
        """Return what the part yields of a line."""
        value = self.value
        return lambda _: value

    def truth(self, known: Known) -> Truth:
        """Return of which records it is true, as far as that is known."""
        return _constant_truth(_is_true(self.value))


@dataclass(frozen=True)
class LineField:
    """A field of the line, by its path."""

    path: tuple[str, ...]

    @cached_property
    def answer(self) -> Answer:
        """Return what the part yields of a line."""
        path = self.path

        def found(value: Any) -> object:  # noqa: ANN401
            for key in path:
                if type(value) is dict:
                    value = value.get(key)
                elif value is not None:
                    raise OtherTypeError(
                        f'Cannot index {_NAMES[type(value)]} with string ("{key}")'
                    )
            return value

        return found

    def truth(self, known: Known) -> Truth:
        """Return of which records it is true, as far as that is known."""
        return known.compared(self.path, "!=", None) if len(self.path) == 1 else UNKNOWN


@dataclass(frozen=True)
class Comparison:
    """Two values and a sign of `SIGNS` between them."""

    sign: str
    left: Condition
    right: Condition

    @cached_property
    def answer(self) -> Answer:
        """Return what the part yields of a line."""
        compare, left, right = SIGNS[self.sign], self.left.answer, self.right.answer

        def found(line: Any) -> bool:  # noqa: ANN401
            # In jq's order: of two errors it has the second's.
            second, first = right(line), left(line)
            if type(first) is str and type(second) is str:
                return compare(first, second)  # type: ignore[no-any-return]
            return compare(_ordered(first), _ordered(second))  # type: ignore[no-any-return]

        return found

    def truth(self, known: Known) -> Truth:
        """Return of which records it is true, as far as that is known."""
        match self.left, self.right:
            case LineField(path), Constant(value):
                return known.compared(path, self.sign, value)
            case Constant(value), LineField(path):
                return known.compared(path, _MIRRORED.get(self.sign, self.sign), value)
        return UNKNOWN


@dataclass(frozen=True)
class Not:
    """The opposite of a part."""

    part: Condition

    @cached_property
    def answer(self) -> Answer:
        """Return what the part yields of a line."""
        part = self.part.answer
        return lambda line: not _is_true(part(line))

    def truth(self, known: Known) -> Truth:
        """Return of which records it is true, as far as that is known."""
        return _negated(self.part.truth(known))


@dataclass(frozen=True)
class AnyOf:
    """Several parts of which one is true; those behind it are not asked."""

    parts: tuple[Condition, ...]

    @cached_property
    def answer(self) -> Answer:
        """Return what the part yields of a line."""
        parts = [each.answer for each in self.parts]
        return lambda line: any(_is_true(part(line)) for part in parts)

    def truth(self, known: Known) -> Truth:
        """Return of which records it is true, as far as that is known."""
        sure: Marks = np.False_
        possible: Marks = np.False_
        may_fail = False
        for each in self.parts:
            truth = each.truth(known)
            if not may_fail:
                sure = sure | truth.is_sure
            possible = possible | truth.is_possible
            may_fail |= truth.may_fail
        return Truth(sure, possible, may_fail)


@dataclass(frozen=True)
class AllOf:
    """Several parts that are all true; those behind one that is not are not asked."""

    parts: tuple[Condition, ...]

    @cached_property
    def answer(self) -> Answer:
        """Return what the part yields of a line."""
        parts = [each.answer for each in self.parts]
        return lambda line: all(_is_true(part(line)) for part in parts)

    def truth(self, known: Known) -> Truth:
        """Return of which records it is true, as far as that is known."""
        sure: Marks = np.True_
        possible: Marks = np.True_
        may_fail = False
        for truth in (each.truth(known) for each in self.parts):
            sure, possible = sure & truth.is_sure, possible & truth.is_possible
            may_fail |= truth.may_fail
        return Truth(sure, possible, may_fail)


def narrowed_offsets(
    may_match: Callable[[Offset, Offset], bool], start: Offset, stop: Offset
) -> tuple[Offset, Offset]:
    """Return the smallest part of [start, stop) outside of which a condition is true of no record.

    Args:
        may_match: returns whether it may be true of an offset in [first, last].
    """
    if start >= stop or not may_match(start, stop - 1):
        return stop, stop
    first = first_true(start, stop, lambda at: may_match(start, at))
    last = first_true(0, stop - first, lambda back: may_match(stop - 1 - back, stop - 1))
    return first, stop - last


def first_true(low: int, high: int, is_true: Callable[[int], bool]) -> int:
    """Return the first number of [low, high) for which an ascending condition is true, else `high`."""
    while low < high:
        middle = (low + high) // 2
        if is_true(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _may_be(interval: Interval, sign: str, value: float) -> Marks:
    low, high = interval
    found: Any
    if sign == "==":
        found = np.less_equal(low, value) & np.greater_equal(high, value)
    elif sign == "!=":
        found = np.not_equal(low, value) | np.not_equal(high, value)
    else:
        found = SIGNS[sign](np.asarray(low if sign[0] == "<" else high), value)
    return found  # type: ignore[no-any-return]


def _constant_truth(is_true: bool) -> Truth:
    return Truth(np.bool_(is_true), np.bool_(is_true))


def _negated(truth: Truth) -> Truth:
    return UNKNOWN if truth.may_fail else Truth(~truth.is_possible, ~truth.is_sure)


def _is_true(value: object) -> bool:
    return value is not None and value is not False


def _ordered(value: object) -> tuple[int, object]:
    """Return what sorts among other values as jq sorts them."""
    rank = _RANKS.get(type(value))
    if rank is None or (rank == 3 and not -_MOST_EXACT <= value <= _MOST_EXACT):  # type: ignore[operator]
        raise UndecidedError
    return (rank, value) if rank > 1 else (rank + (value is True), 0)
