"""JSON for people and programs: indented, ASCII, one newline at the end."""

from __future__ import annotations

from kafkafs.decode.shown_text import json_text


def pretty_json(facts: object) -> bytes:
    """A JSON document; names from a disk that are no UTF-8 come with \\x escapes."""
    return json_text(facts, indent=2).encode("ascii") + b"\n"
