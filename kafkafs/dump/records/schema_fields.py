"""Keys and values that a schema decodes, as a JSON line of a dump has them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.coding.layout import Buffer
from engine.lines.json_text import Values
from engine.lines.line_decoder import DecodedField, LineDecoder, details_json, field_json
from engine.record.record import Header
from engine.units import Timestamp
from kafkafs.decode.batch_lines import MOST_DECODED


def decoded_member(
    decoder: LineDecoder,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header],
    timestamp: Timestamp,
) -> bytes:
    """Return the member "decoded" after a comma: the fields of a record line; empty without one.

    As in record lines, a key and value above MOST_DECODED bytes together are not decoded.
    """
    if not decoder.may_decode(key, value, headers):
        return b""
    sizes = len(key or b""), len(value or b"")
    shown: tuple[DecodedField | None, DecodedField | None]
    if sum(sizes) <= MOST_DECODED:
        plain_key = None if key is None else bytes(key)
        plain_value = None if value is None else bytes(value)
        shown = decoder.fields(plain_key, plain_value, headers, timestamp)
    else:
        shown = _too_large(sizes[0]), _too_large(sizes[1])
    members = [
        details_json(name, field)[1:]
        if field.text is None
        else field_json(name, b"", field, Values.TEXT)
        for name, field in zip((b"key", b"value"), shown, strict=True)
        if field is not None
    ]
    return b',"decoded":{%s}' % b",".join(members) if members else b""


def _too_large(size: int) -> DecodedField | None:
    if size <= MOST_DECODED:
        return None
    return DecodedField(None, note=f"{size} bytes are not decoded")
