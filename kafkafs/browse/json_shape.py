"""Text of JSON as people read it: the members of a record line, and values over several lines.

Numbers, names and their order stay as they are written; nesting may be as deep as it likes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

_scan_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s{}\[\],:"]+')
_INDENT = 2
_DEEPEST = 40
"""Levels that are indented further than the one around them."""


def members(line: str) -> dict[str, str]:
    """Return the members of one JSON object by name, each as the text of its value.

    A text that is cut, or nested too deeply to be parsed, is the rest of the line.

    >>> members('{"offset":7,"value":{"n":1.10},"key":null}')
    {'offset': '7', 'value': '{"n":1.10}', 'key': 'null'}
    >>> members('{"offset":7,"value":{"n":1.1')
    {'offset': '7', 'value': '{"n":1.1'}
    """
    found: dict[str, str] = {}
    at = 1
    while at < len(line) and line[at] == '"':
        try:
            name, at = _scan_string(line, at + 1, False)
        except ValueError:
            break
        at += 1
        try:
            end = _DECODER.raw_decode(line, at)[1]
        except (ValueError, RecursionError):
            found[name] = line[at:]
            break
        found[name] = line[at:end]
        at = end + 1
    return found


def string(text: str | None) -> str | None:
    """Return what a JSON string says; another text as it is, None for null.

    >>> string('"a b"'), string('12'), string('null')
    ('a b', '12', None)
    """
    if text is None or text == "null":
        return None
    if not text.startswith('"'):
        return text
    try:
        return _scan_string(text, 1, False)[0]
    except ValueError:
        return text


def pretty(text: str) -> Iterator[str]:
    """Yield a JSON text line by line, indented.

    >>> list(pretty('{"id":105,"tags":["a",1.10],"none":{}}'))
    ['{', '  "id": 105,', '  "tags": [', '    "a",', '    1.10', '  ],', '  "none": {}', '}']
    """
    depth, line = 0, ""
    tokens = [each[0] for each in _TOKEN.finditer(text)]
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        if token in "{[":
            line += token
            if following not in ("}", "]"):
                yield line
                depth += 1
                line = _indent(depth)
        elif token in "}]":
            if tokens[place - 1] not in ("{", "["):
                if line.strip():
                    yield line
                depth = max(depth - 1, 0)
                line = _indent(depth)
            line += token
        elif token == ",":
            yield line + ","
            line = _indent(depth)
        else:
            line += ": " if token == ":" else token
    if line.strip():
        yield line


def _indent(depth: int) -> str:
    return " " * (_INDENT * min(depth, _DEEPEST))
