"""Keys and values that a schema decodes, as a JSON line of a dump has them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.coding.layout import Buffer
from engine.lines.json_text import Values
from engine.lines.line_decoder import LineDecoder, details_json, field_json
from engine.record.record import Header
from engine.units import Timestamp


def decoded_member(
    decoder: LineDecoder,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header],
    timestamp: Timestamp,
) -> bytes:
    """Return the member "decoded" after a comma: the fields of a record line; empty without one."""
    shown = decoder.shown(key, value, headers, timestamp)
    members = [
        details_json(name, field)[1:]
        if field.text is None
        else field_json(name, b"", field, Values.TEXT)
        for name, field in zip((b"key", b"value"), shown, strict=True)
        if field is not None
    ]
    return b',"decoded":{%s}' % b",".join(members) if members else b""
