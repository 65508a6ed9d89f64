"""Automata for regular expressions: the kernel searches fields with them in one pass, without Python.

The parsed pattern becomes a graph of nodes (Thompson's construction), and sets of its nodes become the states of a
table (the subset construction). What an automaton cannot do is left to `re`: references to groups, look-around at more
than one byte, atomic groups, `$` before the end of the pattern, and patterns that need too many states.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _constants as ops, _parser as regex_parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from engine.columns.matching import BYTES, Automaton

MOST_NODES = 2000
MOST_STATES = 256
MOST_STEPS = 8000
"""States times classes of bytes: more would take longer than `re` on a small log."""

Op: TypeAlias = Any
"""A constant of the parser of `re`."""
Argument: TypeAlias = Any
"""The argument of an operation: a number, a list of operations, or a tuple of these."""
Bytes: TypeAlias = frozenset[int]
Nodes: TypeAlias = frozenset[int]
_NEWLINE = ord("\n")
_CATEGORIES = {
    category: frozenset(byte for byte in range(BYTES) if re.match(pattern, bytes([byte])))
    for category, pattern in (
        (ops.CATEGORY_DIGIT, rb"\d"),
        (ops.CATEGORY_NOT_DIGIT, rb"\D"),
        (ops.CATEGORY_SPACE, rb"\s"),
        (ops.CATEGORY_NOT_SPACE, rb"\S"),
        (ops.CATEGORY_WORD, rb"\w"),
        (ops.CATEGORY_NOT_WORD, rb"\W"),
    )
}
_WORD = _CATEGORIES[ops.CATEGORY_WORD]
_ALL = frozenset(range(BYTES))
_SMALL = bytes(range(BYTES)).lower()
"""The small letter of each capital ASCII letter; other bytes as they are."""


class Look(NamedTuple):
    """An anchor that looks at one neighbour: whether it is one of some bytes, or is not."""

    is_behind: bool
    is_negated: bool
    taken: Bytes


class GraphNode(NamedTuple):
    """A node of the graph: takes one of some bytes, or holds at an anchor, or takes nothing, and goes on."""

    following: tuple[int, ...]
    taken: Bytes | None = None
    anchor: Op = None


class Unsupported(Exception):
    """The pattern needs more than an automaton."""


def automaton_of(pattern: re.Pattern[bytes]) -> Automaton | None:
    """Return an automaton that finds what a pattern finds; None if `re` has to be used."""
    if pattern.flags & re.LOCALE:
        return None
    graph = _Graph()
    try:
        start = graph.sequence(regex_parser.parse(pattern.pattern, pattern.flags), pattern.flags, 0)
        return _States(graph.nodes, start).automaton()
    except Unsupported:
        return None


class _Graph:
    """Nodes of a pattern. GraphNode 0 is the match. Each method adds the nodes before a node, and returns the first."""

    def __init__(self) -> None:
        self.nodes = [GraphNode(())]

    def add(self, node: GraphNode) -> int:
        """Add a node."""
        if len(self.nodes) >= MOST_NODES:
            raise Unsupported
        self.nodes.append(node)
        return len(self.nodes) - 1

    def sequence(self, parsed: Argument, flags: int, following: int) -> int:
        for op, argument in reversed(list(parsed)):
            following = self.operation(op, argument, flags, following)
        return following

    def operation(self, op: Op, argument: Argument, flags: int, following: int) -> int:
        if op is ops.AT:
            return self.anchor(argument, flags, following)
        if op is ops.BRANCH:
            ways = [self.sequence(each, flags, following) for each in argument[1]]
            return self.add(GraphNode(tuple(ways)))
        if op is ops.SUBPATTERN:
            _, on, off, content = argument
            return self.sequence(content, (flags | on) & ~off, following)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            least, most, content = argument
            return self.repeat(least, most, content, flags, following)
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            direction, content = argument
            if len(content) != 1:
                raise Unsupported
            inside, what = content[0]
            taken = bytes_taken(inside, what, flags)
            look = Look(direction < 0, op is ops.ASSERT_NOT, taken)
            return self.add(GraphNode((following,), anchor=look))
        return self.add(GraphNode((following,), taken=bytes_taken(op, argument, flags)))

    def repeat(self, least: int, most: int, content: Argument, flags: int, following: int) -> int:
        first = following
        if least > MOST_NODES:
            raise Unsupported
        if most is ops.MAXREPEAT:
            first = self.add(GraphNode(()))
            body = self.sequence(content, flags, first)
            self.nodes[first] = GraphNode((body, following))
        else:
            for _ in range(most - least):
                first = self.add(GraphNode((self.sequence(content, flags, first), following)))
        for _ in range(least):
            first = self.sequence(content, flags, first)
        return first

    def anchor(self, anchor: Op, flags: int, following: int) -> int:
        if flags & re.MULTILINE:
            anchor = ops.AT_MULTILINE.get(anchor, anchor)
        if anchor is not ops.AT_END:
            return self.add(GraphNode((following,), anchor=anchor))
        if following:  # more than one byte would have to be seen ahead
            raise Unsupported
        end = self.add(GraphNode((0,), anchor=ops.AT_END_STRING))
        newline = self.add(GraphNode((end,), taken=frozenset({_NEWLINE})))
        return self.add(GraphNode((end, newline)))


def bytes_taken(op: Op, argument: Argument, flags: int) -> Bytes:
    """Return the bytes that an operation on a single byte takes.

    Raises:
        Unsupported: another operation.
    """
    if op is ops.FAILURE:
        return frozenset()
    if op is ops.ANY:
        return _ALL if flags & re.DOTALL else _ALL - {_NEWLINE}
    if op in (ops.LITERAL, ops.NOT_LITERAL):
        taken = frozenset({argument})
    elif op is ops.IN:
        taken = frozenset().union(*map(_members, argument))
    else:
        raise Unsupported
    if flags & re.IGNORECASE:
        small = {_SMALL[byte] for byte in taken}
        taken = frozenset(byte for byte in _ALL if _SMALL[byte] in small)
    is_negated = op is ops.NOT_LITERAL or (op is ops.IN and argument[0][0] is ops.NEGATE)
    return _ALL - taken if is_negated else taken


def _members(member: tuple[Op, Argument]) -> Bytes:
    kind, argument = member
    if kind is ops.LITERAL:
        return frozenset({argument})
    if kind is ops.RANGE:
        return frozenset(range(argument[0], argument[1] + 1))
    if kind is ops.CATEGORY:
        return _CATEGORIES[argument]
    if kind is ops.NEGATE:
        return frozenset()
    raise Unsupported


def holds(anchor: Op | Look, before: int | None, after: int | None) -> bool:
    """Return whether an anchor holds between two neighbours; None is the beginning or the end of the field."""
    if isinstance(anchor, Look):
        return ((before if anchor.is_behind else after) in anchor.taken) != anchor.is_negated
    is_start, is_end = before is None, after is None
    if anchor in (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING):
        return is_start
    if anchor is ops.AT_BEGINNING_LINE:
        return is_start or before == _NEWLINE
    if anchor is ops.AT_END_STRING:
        return is_end
    if anchor is ops.AT_END_LINE:
        return is_end or after == _NEWLINE
    is_boundary = (before in _WORD) != (after in _WORD)
    if anchor is ops.AT_BOUNDARY:
        return is_boundary
    if anchor is ops.AT_NON_BOUNDARY:
        return not is_boundary and not (is_start and is_end)  # `re` finds none in an empty field
    raise Unsupported


def bytes_seen(anchor: Op | Look) -> Bytes:
    """Return the bytes that an anchor tells from the others."""
    if isinstance(anchor, Look):
        return anchor.taken
    if anchor in (ops.AT_BOUNDARY, ops.AT_NON_BOUNDARY):
        return _WORD
    return frozenset({_NEWLINE})


class _States:
    """States of the automaton: the nodes that were reached, and what was before."""

    def __init__(self, nodes: list[GraphNode], start: int) -> None:
        self.nodes = nodes
        self.start = start
        anchors = {node.anchor for node in nodes} - {None}
        looks_back = [each for each in anchors if _looks_back(each)]
        self._sees_before = bool(looks_back)
        self._before = _representatives(map(bytes_seen, looks_back))
        """For each byte the first one that the anchors do not tell from it."""
        taken = {node.taken for node in nodes if node.taken is not None}
        alike = _representatives({*taken, *map(bytes_seen, anchors)})
        self.classes = sorted(set(alike))
        self.class_of = np.array([self.classes.index(byte) for byte in alike])
        self.numbers: dict[tuple[Nodes, int | None], int] = {}
        self.waiting: list[tuple[Nodes, int | None]] = []

    def automaton(self) -> Automaton:
        """Return the table of all states."""
        self._number(frozenset(), None)
        rows, ends = [np.zeros(BYTES, np.uint32)], [1]
        for nodes, before in self.waiting:
            steps = [self._step(nodes, before, byte) for byte in self.classes]
            rows.append(np.array(steps, np.uint32)[self.class_of])
            ends.append(0 in self._closure(nodes, before, None))
            if len(rows) * len(self.classes) > MOST_STEPS:
                raise Unsupported
        return Automaton(np.concatenate(rows) * np.uint32(BYTES), np.array(ends, np.uint8))

    def _number(self, nodes: Nodes, before: int | None) -> int:
        state = nodes, before if self._sees_before else None
        if state not in self.numbers:
            if len(self.numbers) >= MOST_STATES:
                raise Unsupported
            self.numbers[state] = len(self.numbers) + 1
            self.waiting.append(state)
        return self.numbers[state]

    def _step(self, nodes: Nodes, before: int | None, byte: int) -> int:
        """Return the state after a byte; 0 if there was a match before it."""
        here = self._closure(nodes, before, byte)
        if 0 in here:
            return 0
        reached = (
            node.following[0]
            for node in map(self.nodes.__getitem__, here)
            if node.taken is not None and byte in node.taken
        )
        return self._number(frozenset(reached), self._before[byte])

    def _closure(self, nodes: Nodes, before: int | None, after: int | None) -> set[int]:
        """Return the nodes that are reached without a byte. A match may begin at every place."""
        found: set[int] = set()
        waiting = [self.start, *nodes]
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            node = self.nodes[number]
            if node.taken is None and (node.anchor is None or holds(node.anchor, before, after)):
                waiting += node.following
        return found


def _looks_back(anchor: Op | Look) -> bool:
    if isinstance(anchor, Look):
        return anchor.is_behind
    return anchor not in (ops.AT_END_STRING, ops.AT_END_LINE)


def _representatives(kinds: Iterable[Bytes]) -> list[int]:
    """Return for each byte the first one that is in the same kinds."""
    kinds = list(kinds)
    first: dict[tuple[bool, ...], int] = {}
    return [first.setdefault(tuple(byte in kind for kind in kinds), byte) for byte in range(BYTES)]
