"""Texts of messages: each construct is read, each line that is none is refused, and our texts say nothing twice or in vain."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import engine
import kafkafs
from engine.topics.message.notation import parse_messages, read_messages
from engine.topics.message.schema import Array, Field, Message, Scalar, Struct, empty

FOLDERS = (
    Path(*engine.__path__) / "topics" / "message",
    Path(*kafkafs.__path__) / "serve" / "protocol" / "messages",
)
TEXTS = [path for folder in FOLDERS for path in sorted(folder.glob("*.txt"))]
EVERY_CONSTRUCT = """
# a comment
Message  2-7  flexible 4+  type 12  retired
  number    int32                     = -5
  flag      bool       3+             = true
  once      float64    3
  some      uuid       3-5
  text      string?    4+      tag 7  = null
  row       Row?
    bytes   bytes
    inner   []Inner?
      kind  uint16
  again     []Row
  more      []string?
  other     Inner

Empty  0
"""


def test_each_construct_is_read() -> None:
    message, other = parse_messages(EVERY_CONSTRUCT).values()
    assert (message.name, message.first_version, message.last_version) == ("Message", 2, 7)
    assert (message.flexible_since, message.type_id, message.is_retired) == (4, 12, True)
    number, flag, once, some, text, row, again, more, inner = message.fields
    assert (number.name, number.type, number.absent()) == ("number", Scalar.INT32, -5)
    assert (number.since, number.until, number.nullable, number.tag) == (0, None, False, None)
    assert (flag.since, flag.until, flag.absent()) == (3, None, True)
    assert (once.since, once.until, once.absent()) == (3, 3, 0.0)
    assert (some.since, some.until, some.absent()) == (3, 5, "AAAAAAAAAAAAAAAAAAAAAA")
    assert (text.since, text.nullable, text.tag, text.absent()) == (4, True, 7, None)
    assert isinstance(row.type, Struct)
    assert row.nullable
    assert [(each.name, each.nullable) for each in row.type.fields] == [("bytes", False), ("inner", True)]  # fmt: skip
    assert isinstance(again.type, Array)
    assert again.type.element is row.type
    assert isinstance(more.type, Array)
    assert (more.type.element, more.nullable) == (Scalar.STRING, True)
    assert isinstance(inner.type, Struct)
    assert [each.type for each in inner.type.fields] == [Scalar.UINT16]
    assert (other.name, other.last_version, other.fields) == ("Empty", 0, ())
    assert (other.flexible_since, other.type_id, other.is_retired) == (None, None, False)


@pytest.mark.parametrize(
    "line",
    ["Message", "Message  0+", "Message  0  flexible 1", "Message  0  flexible 1-2", "Message  0  type", "Message  0  odd"],
)  # fmt: skip
def test_a_line_that_is_no_message_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"no message: '{line}'")):
        parse_messages(line)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("  name", "no field: '  name'"),
        ("  name  int32  +", "no field"),
        ("  name  int32  1-", "no field"),
        ("  name  int32?x", "no field"),
        ("  name  [][]int32", "no field"),
        ("  name  int32  tag", "no field"),
        ("  name  int32  tag 1  2+", "no field"),
        ("  name  int32  =", "no field"),
        ("  name  int32  = none", "none"),
        ("  name  Row", "the structure Row has no fields"),
        ("  name  Row\n   odd  int32", "the structure Row has no fields"),
        ("  name  int32\n    odd  int32", "no field of this structure: '    odd  int32'"),
        ("  name  int32\n odd  int32", "no field of this structure"),
    ],
)
def test_a_line_that_is_no_field_is_refused_when_its_message_is_used(lines: str, why: str) -> None:
    message = parse_messages(f"Odd  0\n{lines}\n")["Odd"]
    with pytest.raises(ValueError, match=why):
        _ = message.fields


def test_the_fields_of_a_message_are_read_once() -> None:
    message = parse_messages("Message  0\n  name  string\n")["Message"]
    assert message.fields is message.fields


def test_a_text_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
        read_messages(engine.__name__, "nothing.txt")


def written(message: Message) -> str:
    """A message in the one way to write it: columns aligned, two blanks apart, and nothing that is so anyway."""
    head = [message.name, span(message.first_version, message.last_version)]
    head += [] if message.flexible_since is None else [f"flexible {message.flexible_since}+"]
    head += [] if message.type_id is None else [f"type {message.type_id}"]
    head += ["retired"] if message.is_retired else []
    rows = list(rows_of(message.fields, 1, set()))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width)
        for row in rows
    ]
    return "\n".join(["  ".join(head), *(line.rstrip() for line in lines)]) + "\n"


def span(first: int, last: int | None) -> str:
    return f"{first}+" if last is None else f"{first}" if first == last else f"{first}-{last}"


def rows_of(fields: tuple[Field, ...], depth: int, told: set[str]) -> list[tuple[str, ...]]:
    rows = []
    for field in fields:
        kind = field.type.element if isinstance(field.type, Array) else field.type
        name = kind.name if isinstance(kind, Struct) else kind.value  # type: ignore[union-attr]
        default = field.absent()
        rows.append(
            (
                "  " * depth + field.name,
                "[]" * isinstance(field.type, Array) + name + "?" * field.nullable,
                "" if (field.since, field.until) == (0, None) else span(field.since, field.until),
                "" if field.tag is None else f"tag {field.tag}",
                "" if default == empty(field.type) else f"= {json.dumps(default)}",
            )
        )
        if isinstance(kind, Struct) and name not in told:
            told.add(name)
            rows += rows_of(kind.fields, depth + 1, told)
    return rows


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_our_texts_are_written_in_one_way_and_nothing_in_them_is_left_unread(path: Path) -> None:
    text = path.read_text()
    said = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    assert "\n".join(map(written, parse_messages(text).values())) == said.lstrip("\n")
