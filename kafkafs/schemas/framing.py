"""The wire forms of keys and values that have a schema: which schema they ask for, and where their payload starts.

    Confluent           00, schema id (int32), payload
    Confluent, GUID     01, GUID (16 bytes), payload
    Confluent, header   header `__key_schema_id` or `__value_schema_id`: 01 and GUID, or 00 and id; bare payload
    Apicurio            00, global or content id (int64), payload
    Apicurio, header    header `apicurio.value.globalId`, `.contentId` (int64) or `.artifactId`; bare payload
    AWS Glue            03, compression (00 none, 05 zlib), schema version's UUID (16 bytes), payload
    Avro file           `Obj` 01: an object container file, with its own schema
    Avro single object  C3 01, CRC-64-AVRO of the schema (8 bytes, little-endian), payload

Integers are big-endian. Before a Protobuf payload stands its message: indexes of Confluent (with a header, in the
header), a Ref of Apicurio, an index of Glue. Sources: Confluent's SchemaId and DualSchemaIdDeserializer; Apicurio's
IdHandlers and DefaultHeadersHandler; Glue's GlueSchemaRegistryDeserializerDataParser; the Avro specification. Karapace
and Redpanda write Confluent's prefix.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from engine.coding.varint import read_unsigned_varint, read_varint
from engine.record.record import Header
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.schema import SchemaKind

LARGEST_PAYLOAD = 64 * 1024 * 1024
"""Most bytes that a compressed payload may inflate to."""

_MOST_INDEXES = 100
"""Most message indexes: protoc refuses messages nested deeper than this."""

_AVRO_FILE = b"Obj\x01"
_SINGLE_OBJECT = b"\xc3\x01"
_GLUE = 3
_GLUE_PLAIN, _GLUE_ZLIB = 0, 5

PREFIXES = (
    (b"\x00", 5),
    (b"\x01", 17),
    (bytes([_GLUE, _GLUE_PLAIN]), 18),
    (bytes([_GLUE, _GLUE_ZLIB]), 18),
    (_SINGLE_OBJECT, 10),
    (_AVRO_FILE, len(_AVRO_FILE)),
)
"""How keys and values of the forms without headers begin, and the size of the bytes that name the schema, with these."""


class HeaderNames(NamedTuple):
    """Keys of the headers that name the schema of a key or of a value: Confluent's, and those of Apicurio."""

    confluent: bytes
    global_id: bytes
    content_id: bytes
    group_id: bytes
    artifact_id: bytes
    version: bytes
    message: bytes


def _header_names(part: str, message: str) -> HeaderNames:
    apicurio = ("globalId", "contentId", "groupId", "artifactId", "version")
    names = (f"__{part}_schema_id", *(f"apicurio.{part}.{each}" for each in apicurio), message)
    return HeaderNames(*(name.encode() for name in names))


KEY_HEADERS = _header_names("key", "apicurio.protobuf.type.key")
VALUE_HEADERS = _header_names("value", "apicurio.protobuf.type")


class Form(StrEnum):
    """A wire form."""

    CONFLUENT = "confluent"
    CONFLUENT_GUID = "confluent-guid"
    CONFLUENT_HEADER = "confluent-header"
    APICURIO = "apicurio"
    APICURIO_HEADER = "apicurio-header"
    GLUE = "glue"
    AVRO_FILE = "avro-file"
    AVRO_SINGLE_OBJECT = "avro-single-object"
    BARE = "bare"


Message: TypeAlias = "tuple[int, ...] | int | str | None"
"""Message of a Protobuf payload: Confluent's indexes, from the file's messages inwards; Glue's index among the full names
of all messages of the file, sorted; a name, full or simple, from Apicurio; None for the first message.
"""


class Framing(NamedTuple):
    """A form that a key or value has, or may have.

    Attributes:
        form: the form.
        start: position after the form's own bytes; a Protobuf payload may have its message there.
        id: schema id of Confluent, or Apicurio's global or content id.
        guid: GUID of Confluent or of a Glue schema version: a UUID in lower case.
        fingerprint: CRC-64-AVRO of the schema.
        artifact: Apicurio's group, artifact and version, each perhaps empty.
        is_compressed: whether the payload is compressed with zlib.
        header: bytes of Confluent's header after the GUID or id: message indexes of Protobuf.
        message: message of a Protobuf payload, from a header of Apicurio or from the user.
    """

    form: Form
    start: int = 0
    id: int | None = None
    guid: str | None = None
    fingerprint: int | None = None
    artifact: tuple[str, str, str] | None = None
    is_compressed: bool = False
    header: bytes | None = None
    message: str | None = None


class Payload(NamedTuple):
    """The encoded value itself.

    Attributes:
        data: its bytes.
        start: position in the key or value; in the inflated bytes if it was compressed.
        message: message of Protobuf; None for other kinds, and for the first message.
    """

    data: bytes
    start: int
    message: Message = None


def framings(
    data: bytes, headers: Iterable[Header] = (), *, is_key: bool = False
) -> Iterator[Framing]:
    """Yield the forms that a key or value may have, the likeliest first; none for bytes without one.

    Bytes can look like two forms: Confluent's prefix is also the beginning of Apicurio's. Only a known schema tells.

    Args:
        data: the key or value.
        headers: headers of the record.
        is_key: whether the data is the record's key.
    """
    yield from header_framings(headers, is_key=is_key)
    yield from _from_prefix(data)


def header_framings(headers: Iterable[Header], *, is_key: bool = False) -> Iterator[Framing]:
    """Yield the forms that the headers of a record name for its key or value, the likeliest first."""
    newest = {header.key: header.value for header in headers}
    if not newest:
        return
    names = KEY_HEADERS if is_key else VALUE_HEADERS
    found = newest.get(names.confluent)
    if found is not None:
        framing = _confluent_header(found)
        if framing is not None:
            yield framing
    yield from _apicurio_headers(newest, names)


def _confluent_header(found: bytes) -> Framing | None:
    if found[:1] == b"\x01" and len(found) >= 17:
        return Framing(Form.CONFLUENT_HEADER, guid=_uuid(found[1:17]), header=found[17:])
    if found[:1] == b"\x00" and len(found) >= 5:
        return Framing(Form.CONFLUENT_HEADER, id=_int(found[1:5]), header=found[5:])
    return None


def _apicurio_headers(newest: dict[bytes, bytes | None], names: HeaderNames) -> Iterator[Framing]:
    def text(name: bytes) -> str:
        return (newest.get(name) or b"").decode("utf-8", "replace")

    message = text(names.message) or None
    for name in (names.global_id, names.content_id):
        found = newest.get(name)
        if found is not None and len(found) >= 8:
            yield Framing(Form.APICURIO_HEADER, id=_int(found[:8]), message=message)
    artifact = (text(names.group_id), text(names.artifact_id), text(names.version))
    if artifact[1]:
        yield Framing(Form.APICURIO_HEADER, artifact=artifact, message=message)


def _from_prefix(data: bytes) -> Iterator[Framing]:
    first = data[:1]
    if first == b"\x00":
        if len(data) >= 5:
            yield Framing(Form.CONFLUENT, 5, id=_int(data[1:5]))
        if len(data) >= 9:
            yield Framing(Form.APICURIO, 9, id=_int(data[1:9]))
    elif first == b"\x01" and len(data) >= 17:
        yield Framing(Form.CONFLUENT_GUID, 17, guid=_uuid(data[1:17]))
    elif first == b"\x03" and len(data) >= 18 and data[1] in (_GLUE_PLAIN, _GLUE_ZLIB):
        is_compressed = data[1] == _GLUE_ZLIB
        yield Framing(Form.GLUE, 18, guid=_uuid(data[2:18]), is_compressed=is_compressed)
    elif data[:4] == _AVRO_FILE:
        yield Framing(Form.AVRO_FILE)
    elif data[:2] == _SINGLE_OBJECT and len(data) >= 10:
        fingerprint = int.from_bytes(data[2:10], "little")
        yield Framing(Form.AVRO_SINGLE_OBJECT, 10, fingerprint=fingerprint)


def payload(
    data: bytes, framing: Framing, kind: SchemaKind, *, limit: int = LARGEST_PAYLOAD
) -> Payload:
    """Return the payload of a key or value, with its message if it is Protobuf.

    Args:
        data: the key or value.
        framing: its form.
        kind: kind of its schema.
        limit: most bytes that a compressed payload may have.

    Raises:
        UndecodableError: the message's indexes or the compressed bytes are damaged, or the payload is larger than the
            limit.
    """
    body, start = data, framing.start
    if framing.is_compressed:
        body, start = _inflated(data[start:], limit), 0
    if kind is not SchemaKind.PROTOBUF:
        return Payload(body[start:], start)
    if framing.form is Form.BARE:
        return Payload(body[start:], start, framing.message)
    if framing.form is Form.GLUE:
        index, start = _number(body, start)
        return Payload(body[start:], start, index)
    if framing.header is not None:
        message, _ = message_indexes(framing.header, 0)
        return Payload(body[start:], start, message)
    name, after = apicurio_ref(body, start)
    if name is not None or framing.form is Form.APICURIO_HEADER:
        return Payload(body[after:], after, name or framing.message)
    message, start = message_indexes(body, start)
    return Payload(body[start:], start, message)


def may_be_apicurio_ref(body: bytes) -> bool:
    """Return whether Confluent's message indexes at the start of bytes may be Apicurio's `Ref` instead."""
    return body[0] > 2 and body[1:2] == b"\x0a"


def message_indexes(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return Confluent's message indexes and the position after them. Raises UndecodableError."""
    count, position = _zigzag(data, start)
    if count == 0:
        return (0,), position
    if not 0 < count <= _MOST_INDEXES:
        raise UndecodableError(f"{count} message indexes, expected 1 to {_MOST_INDEXES}", start)
    indexes = []
    for _ in range(count):
        index, position = _zigzag(data, position)
        if index < 0:
            raise UndecodableError(f"the message index {index} is negative", position)
        indexes.append(index)
    return tuple(indexes), position


def apicurio_ref(data: bytes, start: int) -> tuple[str | None, int]:
    """Return the name in Apicurio's delimited `Ref` message and the position after it; None and the start without one."""
    try:
        size, position = read_unsigned_varint(data, start)
        if size < 3 or data[position] != 0x0A or position + size > len(data):
            return None, start
        length, name_at = read_unsigned_varint(data, position + 1)
    except (IndexError, ValueError):
        return None, start
    end = position + size
    name = data[name_at:end].decode("ascii", "replace")
    if name_at + length != end or not all(part.isidentifier() for part in name.split(".")):
        return None, start
    return name, end


def _number(data: bytes, start: int) -> tuple[int, int]:
    try:
        return read_unsigned_varint(data, start)
    except (IndexError, ValueError) as error:
        raise UndecodableError("the message index is cut off or too long", start) from error


def _zigzag(data: bytes, start: int) -> tuple[int, int]:
    try:
        return read_varint(data, start)
    except (IndexError, ValueError) as error:
        raise UndecodableError("the message indexes are cut off or too long", start) from error


def _inflated(data: bytes, limit: int) -> bytes:
    inflating = zlib.decompressobj()
    try:
        inflated = inflating.decompress(data, limit + 1)
    except zlib.error as error:
        raise UndecodableError(f"the compressed payload is damaged: {error}") from error
    if len(inflated) > limit:
        raise UndecodableError(f"the compressed payload is larger than {limit} bytes")
    if not inflating.eof:
        raise UndecodableError("the compressed payload is cut off")
    return inflated


def _int(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _uuid(data: bytes) -> str:
    return str(UUID(bytes=data))
