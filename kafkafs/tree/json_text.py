"""JSON for people and programs: indented, ASCII, one newline at the end."""

from __future__ import annotations

import json


def pretty_json(facts: object) -> bytes:
    """A JSON document; names from a disk that are no UTF-8 come with \\x escapes."""
    text = json.dumps(cleaned(facts), indent=2, default=str)
    return text.replace("\x7f", "\\u007f").encode("ascii") + b"\n"


def clean_name(name: str) -> str:
    """A file name without lone surrogates."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def cleaned(facts: object) -> object:
    """The same with every text free of lone surrogates."""
    if isinstance(facts, str):
        return clean_name(facts)
    if isinstance(facts, dict):
        return {cleaned(key): cleaned(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [cleaned(each) for each in facts]
    return facts
