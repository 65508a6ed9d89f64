"""Decoders of keys and values for record lines: the protocol, and the fields of a decoded record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from engine.coding.layout import Buffer
from engine.lines.json_text import Values, bytes_json, string_json
from engine.record.record import Header
from engine.units import Timestamp


class Marks(NamedTuple):
    """How records look that a decoder may decode; it leaves all others as they are.

    Attributes:
        first_bytes: first bytes of such a key or value.
        header_keys: how the keys of headers begin that ask for decoding; up to four, each of up to 32 bytes.
    """

    first_bytes: bytes
    header_keys: tuple[bytes, ...] = ()

    def are_on(self, key: Buffer | None, value: Buffer | None, headers: Sequence[Header]) -> bool:
        """Return whether a record may be decoded."""
        return (
            (value is not None and len(value) > 0 and value[0] in self.first_bytes)
            or (key is not None and len(key) > 0 and key[0] in self.first_bytes)
            or any(header.key.startswith(self.header_keys) for header in headers)
        )


class DecodedField(NamedTuple):
    """A key or value as a line shows it.

    Attributes:
        text: one JSON value on one line, safe to print; None if the bytes are shown as in any other topic.
        encoding: the field's Encoding, if there is a text.
        note: why the bytes stay, or what is odd about the text.
        schema: JSON object that names the schema; None without one.
    """

    text: bytes | None
    encoding: bytes = b""
    note: str | None = None
    schema: bytes | None = None


class LineDecoder(ABC):
    """Decoder of the keys and values of a topic. Thread-safe; the same record always gives the same fields.

    Attributes:
        marks: how records look that it may decode; None if each record may be.
    """

    marks: Marks | None = None

    def may_decode(
        self, key: Buffer | None, value: Buffer | None, headers: Sequence[Header]
    ) -> bool:
        """Return whether a record looks like one to decode."""
        return self.marks is None or self.marks.are_on(key, value, headers)

    @abstractmethod
    def fields(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: Timestamp,
    ) -> tuple[DecodedField | None, DecodedField | None]:
        """Return the key and the value; None for one that is shown as in any other topic. Never raises for bad bytes."""


def decoded_json(
    decoder: LineDecoder,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    timestamp: Timestamp,
    mode: Values,
) -> bytes:
    """Return the key and value of a record line with all that belongs to them, without a leading comma."""
    shown_key, shown_value = None, None
    if decoder.may_decode(key, value, headers):
        shown_key, shown_value = decoder.fields(key, value, headers, timestamp)
    return b"%s,%s" % (
        field_json(b"key", key, shown_key, mode),
        field_json(b"value", value, shown_value, mode),
    )


def decoded_texts(
    decoder: LineDecoder,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    timestamp: Timestamp,
) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
    """Return what to search in of a key and of a value: decoded text, and bytes that the decoder does not own."""
    shown: tuple[DecodedField | None, DecodedField | None] = (None, None)
    if decoder.may_decode(key, value, headers):
        shown = decoder.fields(key, value, headers, timestamp)
    found: list[list[bytes]] = []
    for data, field in zip((key, value), shown, strict=True):
        texts = [] if data is None else [data]
        if field is not None and field.text is not None:
            texts = [field.text] if decoder.marks is None else [*texts, field.text]
        found.append(texts)
    return found[0], found[1]


def field_json(name: bytes, data: bytes | None, shown: DecodedField | None, mode: Values) -> bytes:
    """Return a field and its Encoding, schema and Note, as far as they apply."""
    if shown is None or shown.text is None:
        if data is None:
            return b'"%s":null' % name
        text, kind = bytes_json(data, mode)
        encoding = b"" if kind is None else kind.encode()
    else:
        text, encoding = shown.text, shown.encoding
    parts = [b'"%s":%s' % (name, text)]
    if encoding:
        parts.append(b',"%sEncoding":"%s"' % (name, encoding))
    if shown is not None:
        parts.append(details_json(name, shown))
    return b"".join(parts)


def details_json(name: bytes, shown: DecodedField) -> bytes:
    """Return what follows the Encoding of a field: the schema and the Note."""
    found = b""
    if shown.schema is not None:
        label = b"schema" if name == b"value" else b"%sSchema" % name
        found = b',"%s":%s' % (label, shown.schema)
    if shown.note is not None:
        found += b',"%sNote":%s' % (name, string_json(shown.note).encode())
    return found
