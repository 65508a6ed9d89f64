"""Read the declarations of messages from text: a line for each message, and below it one for each of its fields.

    FetchRequest  4-18  flexible 12+
      clusterId            string?        12+   tag 0  = null
      maxBytes             int32          3+           = 2147483647
      topics               []FetchTopic
        topic              string         0-12
        topicId            uuid           13+
        partitions         []FetchPartition
        ...
      forgottenTopicsData  []ForgottenTopic  7+
        ...

A message has its versions, and the first one that is flexible. `type 3` is the number of the type of record whose key or
value it is, `retired` says that Kafka 4.4.0 no longer has it. A field has its name, its type, the versions that have it
(otherwise all), its tag, and its default if that is not zero or empty. `[]` is an array, `?` may be null. The fields of a
structure are below the first field with that type; later fields of the message may name it again. `#` begins a comment.

The facts come from the JSON schemas that Kafka 4.4.0 generates its classes from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial

from engine.package_text import package_text
from engine.topics.message.schema import (
    NO_DEFAULT,
    Array,
    Field,
    Message,
    Scalar,
    Struct,
    Type,
)

_MESSAGE = re.compile(
    r"(\w+) +(\d+)(?:-(\d+))?(?: +flexible (\d+)\+)?(?: +type (\d+))?( +retired)?"
)
_FIELD = re.compile(
    r"( +)(\w+) +(\[\])?(\w+)(\?)?(?: +(\d+)(\+|-\d+)?)?(?: +tag (\d+))?(?: += (-?\w+))?"
)
_INDENT = 2
_SCALARS: dict[str, Type] = {kind.value: kind for kind in Scalar}
_CONSTANTS = {"null": None, "true": True, "false": False}


@cache
def read_messages(package: str, name: str) -> Mapping[str, Message]:
    """Return the messages of a text file in a package, by their names.

    Raises:
        OSError: there is no such file.
        ValueError: a line is no message.
    """
    return parse_messages(package_text(package, name))


def parse_messages(text: str) -> dict[str, Message]:
    """Return the messages of a text by their names; their fields are parsed at their first use, which may raise ValueError.

    Raises:
        ValueError: a line is no message.
    """
    found: dict[str, Message] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            lines.append(line)
        elif line and not line.startswith("#"):
            lines = []
            message = _message(line, lines)
            found[message.name] = message
    return found


def _message(line: str, lines: list[str]) -> Message:
    match = _MESSAGE.fullmatch(line)
    if match is None:
        raise ValueError(f"no message: {line!r}")
    name, first, last, flexible, type_id, retired = match.groups()
    return Message(
        name,
        partial(_all_fields, lines),
        int(last or first),
        int(first),
        None if flexible is None else int(flexible),
        None if type_id is None else int(type_id),
        retired is not None,
    )


def _all_fields(lines: list[str]) -> tuple[Field, ...]:
    """Return the fields of a message.

    Raises:
        ValueError: a line is no field.
    """
    fields, end = _fields(lines, 0, 1, {})
    if end < len(lines):
        raise ValueError(f"no field of this structure: {lines[end]!r}")
    return fields


def _fields(
    lines: list[str], at: int, depth: int, structs: dict[str, Struct]
) -> tuple[tuple[Field, ...], int]:
    """Return the fields of a structure from a line on, and the line after them; add the structures in it."""
    found = []
    while at < len(lines):
        match = _FIELD.fullmatch(lines[at])
        if match is None:
            raise ValueError(f"no field: {lines[at]!r}")
        indent, name, array, kind_name, nullable, since, until, tag, default = match.groups()
        if len(indent) != depth * _INDENT:
            break
        at += 1
        kind = _SCALARS.get(kind_name) or structs.get(kind_name)
        if kind is None:
            inner, at = _fields(lines, at, depth + 1, structs)
            if not inner:
                raise ValueError(f"the structure {kind_name} has no fields: {lines[at - 1]!r}")
            kind = structs[kind_name] = Struct(kind_name, inner)
        found.append(
            Field(
                name,
                Array(kind) if array else kind,
                int(since or 0),
                _last(since, until),
                nullable is not None,
                None if tag is None else int(tag),
                NO_DEFAULT if default is None else _default(default),
            )
        )
    return tuple(found), at


def _last(since: str | None, until: str | None) -> int | None:
    """Return the last version of 3 (without an end), 3-5 or 3+."""
    if since is None or until == "+":
        return None
    return int(since) if until is None else int(until[1:])


def _default(text: str) -> int | bool | None:
    return _CONSTANTS[text] if text in _CONSTANTS else int(text)
