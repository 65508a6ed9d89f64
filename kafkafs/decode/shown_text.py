"""Output of names and sentences: text for a terminal, JSON for a program.

Names of folders and files can hold any bytes but `/` and NUL. Python reads them with surrogateescape: a byte that is
not UTF-8 becomes a lone surrogate, which neither a terminal nor a JSON parser accepts. Every command prints names
through one of these functions. (For names that become file names again, see kafkafs.escaped_names.)
"""

from __future__ import annotations

import json
import re

_SURROGATES = re.compile("[\ud800-\udfff]")


def printable(text: str) -> str:
    """Return one line of text, with `\\x..` for the bytes of every character that could affect a terminal.

    Escaped are control characters, line breaks, marks that turn the direction of text, and bytes that are
    not UTF-8. Letters of all scripts stay as they are.

    >>> printable("orders-0"), printable("a\\x1b[2J\\u202e\\udcff")
    ('orders-0', 'a\\\\x1b[2J\\\\xe2\\\\x80\\\\xae\\\\xff')
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def printable_lines(text: str) -> str:
    """Return the same for text of several lines, and keep the line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def valid_text(text: str) -> str:
    """Return text that can be encoded as UTF-8: `\\x..` for bytes that were not UTF-8.

    >>> valid_text("caf\\udce9")
    'caf\\\\xe9'
    """
    if not _SURROGATES.search(text):
        return text
    return _SURROGATES.sub(lambda found: _escaped(found[0]), text)


def valid_facts(facts: object) -> object:
    """Return the same facts, with `valid_text` for every string in them."""
    if isinstance(facts, str):
        return valid_text(facts)
    if isinstance(facts, dict):
        return {valid_facts(key): valid_facts(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [valid_facts(each) for each in facts]
    return facts


def json_text(facts: object, *, indent: int | None = None) -> str:
    """Return facts as JSON in ASCII, so that no name can affect a terminal; compact without `indent`."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(valid_facts(facts), separators=separators, indent=indent, default=str)
    return text.replace("\x7f", "\\u007f")


def plain_json(facts: object) -> bytes:
    """Return compact JSON as bytes."""
    return json_text(facts).encode("ascii")


def pretty_json(facts: object) -> bytes:
    """Return a JSON document for people and programs: indented, in ASCII, with one newline at the end."""
    return json_text(facts, indent=2).encode("ascii") + b"\n"


def _escaped(character: str) -> str:
    try:
        data = character.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate for no byte, from JSON or UTF-16
        data = character.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)
