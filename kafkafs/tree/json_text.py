"""JSON for people and programs: indented, ASCII, with one newline at the end."""

from __future__ import annotations

from kafkafs.decode.shown_text import json_text


def pretty_json(facts: object) -> bytes:
    """Return a JSON document. Bytes of file names that are not UTF-8 are shown as \\x escapes."""
    return json_text(facts, indent=2).encode("ascii") + b"\n"
