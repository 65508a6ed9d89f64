"""Decoders of keys and values for record lines: the protocol, and the fields of a decoded record; the protocol of masks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from engine.arrays import np, npt
from engine.coding.layout import Buffer
from engine.columns.columns import Columns
from engine.lines.json_text import Values, bytes_json, string_json
from engine.record.record import Header
from engine.units import Timestamp

MOST_DECODED = 16 * 1024 * 1024
"""Most bytes of a key and a value together that are decoded."""


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
        made_by: the decoder of that schema, perhaps with what it read, for readers of the text; None if it is of no use to
            them.
    """

    text: bytes | None
    encoding: bytes = b""
    note: str | None = None
    schema: bytes | None = None
    made_by: object = None


Pair: TypeAlias = tuple[DecodedField | None, DecodedField | None]
"""The key and the value of a record; None for one that is shown as in any other topic."""

BARE: Pair = (None, None)


class FieldTexts(NamedTuple):
    """Keys and values of the first of some records as their lines show them.

    Attributes:
        text: bytes that have all texts: each is the JSON of a key or value with its Encoding, schema and Note.
        places: array (records, 4) of int64: start and size of a key's text, start and size of a value's; a size of -1
            says that the bytes are shown as in any other topic.
        is_plain: whether no record looks like one to decode.
    """

    text: Buffer
    places: npt.NDArray[np.int64]
    is_plain: bool

    def of(self, index: int) -> tuple[bytes | None, bytes | None]:
        """Return the texts of a record's key and value; None for bytes that are shown as in any other topic."""
        key_at, key_size, value_at, value_size = self.places[index].tolist()
        return (
            None if key_size < 0 else bytes(self.text[key_at : key_at + key_size]),
            None if value_size < 0 else bytes(self.text[value_at : value_at + value_size]),
        )


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

    def shown(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
        timestamp: Timestamp,
    ) -> Pair:
        """Return the key and the value of any record: decoded if it looks like one to decode.

        A key and a value above MOST_DECODED bytes together are not decoded; a note says so of one that is above alone.
        """
        if not self.may_decode(key, value, headers):
            return BARE
        if (0 if key is None else len(key)) + (0 if value is None else len(value)) > MOST_DECODED:
            return _too_large(key), _too_large(value)
        return self.fields(
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            headers,
            timestamp,
        )

    @abstractmethod
    def fields(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: Timestamp,
    ) -> Pair:
        """Return the key and the value; None for one that is shown as in any other topic. Never raises for bad bytes."""

    def texts(
        self, columns: Columns, mode: Values, enough: int, *, is_bare: bool = False
    ) -> FieldTexts:
        """Return the keys and values of the first records, at least of one; the same as of `fields`.

        Args:
            columns: some records; not none.
            mode: how keys and values are shown that are not decoded.
            enough: stop once the texts have so many bytes.
            is_bare: leave out what follows the JSON of a key or value, and those that have only a note.
        """
        places = np.full((len(columns), 4), -1, np.int64)
        parts: list[bytes] = []
        size, is_plain, done = 0, True, 0
        while done < len(columns) and (size < enough or not done):
            key, value = columns.key(done), columns.value(done)
            headers = columns.headers(done)
            if self.may_decode(key, value, headers):
                is_plain = False
                shown = self.shown(key, value, headers, int(columns.timestamp[done]))
                for at, data, field in zip((0, 2), (key, value), shown, strict=True):
                    name = b"value" if at else b"key"
                    text = shown_text(name, data, field, mode, is_bare=is_bare)
                    if text is not None:
                        places[done, at : at + 2] = size, len(text)
                        parts.append(text)
                        size += len(text)
            done += 1
        return FieldTexts(b"".join(parts), places[:done], is_plain)


class LineMasking(Protocol):
    """Changes finished record lines of a topic before anything else sees them. Thread-safe."""

    def line(self, line: bytes) -> bytes:
        """Return one line, masked, with its newline."""

    def lines(self, text: bytes) -> bytes:
        """Return whole lines, masked."""

    def damage(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the facts of a damaged place without those that may come from the bytes of records."""


class HiddenFields(LineDecoder):
    """Decoder that shows null for each key and value.

    Options of lines have it in place of the topic's own decoder while they have a mask: a function of the kernel that
    does not know masks makes no line with it, or one without keys and values.
    """

    def __reduce__(self) -> str:
        return "HIDDEN"

    def fields(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: Timestamp,
    ) -> Pair:
        """Return two nulls."""
        return DecodedField(b"null"), DecodedField(b"null")


HIDDEN = HiddenFields()


def decoded_json(
    decoder: LineDecoder,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    timestamp: Timestamp,
    mode: Values,
) -> bytes:
    """Return the key and value of a record line with all that belongs to them, without a leading comma."""
    shown = decoder.shown(key, value, headers, timestamp)
    return b"%s,%s" % (
        field_json(b"key", key, shown[0], mode),
        field_json(b"value", value, shown[1], mode),
    )


def decoded_texts(
    decoder: LineDecoder,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    timestamp: Timestamp,
) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
    """Return what to search in of a key and of a value: decoded text, and bytes that the decoder does not own."""
    shown = decoder.shown(key, value, headers, timestamp)
    found: list[list[bytes]] = []
    for data, field in zip((key, value), shown, strict=True):
        texts = [] if data is None else [data]
        if field is not None and field.text is not None:
            texts = [field.text] if decoder.marks is None else [*texts, field.text]
        found.append(texts)
    return found[0], found[1]


def _too_large(data: Buffer | None) -> DecodedField | None:
    if data is None or len(data) <= MOST_DECODED:
        return None
    return DecodedField(None, note=f"{len(data)} bytes are not decoded")


def field_json(name: bytes, data: bytes | None, shown: DecodedField | None, mode: Values) -> bytes:
    """Return a field and its Encoding, schema and Note, as far as they apply."""
    return b'"%s":%s' % (name, field_text(name, data, shown, mode))


def field_text(name: bytes, data: bytes | None, shown: DecodedField | None, mode: Values) -> bytes:
    """Return what follows the name of a field: its JSON, Encoding, schema and Note, as far as they apply."""
    if shown is None or shown.text is None:
        if data is None:
            return b"null"
        text, kind = bytes_json(data, mode)
        encoding = b"" if kind is None else kind.encode()
    else:
        text, encoding = shown.text, shown.encoding
    parts = [text]
    if encoding:
        parts.append(b',"%sEncoding":"%s"' % (name, encoding))
    if shown is not None:
        parts.append(details_json(name, shown))
    return b"".join(parts)


def shown_text(
    name: bytes, data: bytes | None, shown: DecodedField | None, mode: Values, *, is_bare: bool
) -> bytes | None:
    """Return the text of a field that is decoded or has a note, as `LineDecoder.texts`; None for any other."""
    if shown is None or is_bare:
        return None if shown is None else shown.text
    return field_text(name, data, shown, mode)


def details_json(name: bytes, shown: DecodedField) -> bytes:
    """Return what follows the Encoding of a field: the schema and the Note."""
    found = b""
    if shown.schema is not None:
        label = b"schema" if name == b"value" else b"%sSchema" % name
        found = b',"%s":%s' % (label, shown.schema)
    if shown.note is not None:
        found += b',"%sNote":%s' % (name, string_json(shown.note).encode())
    return found
