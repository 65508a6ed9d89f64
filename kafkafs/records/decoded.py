"""Keys and values of records as JSON: decoded with a schema, a type or as Kafka's own, or JSON themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from engine import kernel
from engine.budgets import MiB
from engine.lines.json_text import Shown, Values, bytes_json
from engine.lines.line_decoder import BARE, DecodedField
from kafkafs.records.rows import Fields, Rows, are_marked

_JSON_STARTS = b"{[ \t\n\r"
_MOST_BYTES = 16 * MiB
_FIELD_COST = 200
"""Memory in bytes of a decoded key or value, besides its text."""


def json_of(data: bytes | None, field: DecodedField | None) -> bytes | None:
    """Return the JSON that a record line shows for a key or value; None for null, and for bytes that are no text.

    Args:
        data: the key or value.
        field: what a decoder made of it; None for nothing.
    """
    if field is not None and field.text is not None:
        return field.text
    if data is None:
        return None
    text, encoding = bytes_json(data)
    return None if encoding == "base64" else text


def embedded_json(data: bytes | None) -> bytes | None:
    """Return the JSON of a record line for bytes that are one JSON object or array; None for others."""
    if not data or data[0] not in _JSON_STARTS:
        return None
    if kernel.how_shown(data, Values.AUTO) != Shown.JSON:
        return None
    parts: list[bytes] = []
    at, in_string = 0, False
    while at < len(data):
        text, _, at, in_string = kernel.text_piece(
            data, at, _MOST_BYTES, Shown.JSON, in_string=in_string
        )
        parts.append(text or b"")
    return b"".join(parts)


def decoded_parts(rows: Rows, sides: Collection[str] = ("key", "value")) -> Iterator[Rows]:
    """Yield rows with their decoded fields, in parts of about 16 MiB of text, unless one record has more.

    Args:
        rows: the rows.
        sides: "key" and "value", or one of them, whose decoder does not need the other one.
    """
    decoder, columns = rows.decoder, rows.columns
    if rows.fields is not None:
        yield rows
        return
    if decoder is None:
        nothing: list[DecodedField | None] = [None] * len(rows)
        yield replace(rows, fields=(nothing, nothing))
        return
    start, cost = 0, 0
    fields: Fields = ([], [])
    may_decode = [True] * len(rows)
    if decoder.marks is not None:
        may_decode = are_marked(columns, decoder.marks, rows.indices, sides).tolist()
    for place, index in enumerate(rows.indices.tolist(), 1):
        both = BARE
        if may_decode[place - 1]:
            key = columns.key(index) if "key" in sides else None
            value = columns.value(index) if "value" in sides else None
            headers, timestamp = columns.headers(index), int(columns.timestamp[index])
            both = decoder.shown(key, value, headers, timestamp)
        for found, field in zip(fields, both, strict=True):
            found.append(field)
            cost += 0 if field is None else len(field.text or b"") + _FIELD_COST
        if cost > _MOST_BYTES or place == len(rows):
            yield replace(rows, indices=rows.indices[start:place], fields=fields)
            start, cost, fields = place, 0, ([], [])
