"""Keys and values of a type as JSON: what wraps them is taken off, and what is left is read by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import UUID

from engine.arrays import np
from engine.coding.compression import CompressionType, decompress
from engine.errors import KafkaStorageError, LimitExceededError
from engine.lines.json_text import bytes_json, string_json
from engine.lines.line_decoder import DecodedField
from kafkafs.schemas.decoders.json_schema import JsonSchemaDecoder
from kafkafs.schemas.decoders.limits import MOST_BYTES, check_size
from kafkafs.schemas.decoders.value_decoder import Payloads, PayloadTexts, json_bytes
from kafkafs.schemas.errors import UndecodableError, undecodable
from kafkafs.schemas.topic_type import TopicType
from kafkafs.schemas.types.numbers import NUMBERS

_UUID_TEXT = 36
_WINDOWS = {
    "windowed": (8, (("start", 0, 8),)),
    "windowed-store": (12, (("start", 0, 8), ("sequence", 8, 12))),
    "session": (16, (("start", 8, 16), ("end", 0, 8))),
}
"""Bytes behind a key of Kafka Streams, and where they have what: Kafka's WindowKeySchema and SessionKeySchema."""
_MARKED = {"utf-16": "utf-16-be", "utf-32": "utf-32-be"}
"""Charsets with a byte order mark; without one they are big-endian, as in Java."""
_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")

Plain = Callable[[bytes], DecodedField | None]
"""Function that returns bytes as a topic without a type has them."""


_STRING, _VERSION = 0, -2
_SHAPES: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "mirror-checkpoint": (
        {"group": _STRING, "topic": _STRING, "partition": 4},
        {"version": _VERSION, "upstreamOffset": 8, "offset": 8, "metadata": _STRING},
    ),
    "mirror-heartbeat": (
        {"sourceClusterAlias": _STRING, "targetClusterAlias": _STRING},
        {"version": _VERSION, "timestamp": 8},
    ),
    "mirror-offset-sync": (
        {"topic": _STRING, "partition": 4},
        {"upstreamOffset": 8, "offset": 8},
    ),
}
"""Fields of keys and values: widths of integers, _STRING, or _VERSION."""


def mirror_json(data: bytes, name: str, *, is_key: bool) -> bytes:
    """Return the JSON of a key or value.

    Args:
        data: the key or value.
        name: its type.
        is_key: whether it is a key.

    Raises:
        UndecodableError: the bytes are not of the type.
    """
    found: dict[str, str | int] = {}
    at = 0
    for field, width in _SHAPES[name][not is_key].items():
        size = abs(width) or 2
        number = int.from_bytes(data[at : at + size], "big", signed=True)
        at += size
        if width == _STRING:
            if number < 0:
                raise UndecodableError(f"the size of {field} is {number}", at - size)
            try:
                found[field] = data[at : at + number].decode()
            except UnicodeDecodeError:
                raise UndecodableError(f"{field} is not UTF-8", at) from None
            at += number
            continue
        if width == _VERSION and number:
            raise UndecodableError(f"the version {number} is not known", 0)
        found[field] = number
    if at != len(data):
        raise UndecodableError(f"{len(data)} bytes, expected {at}")
    return json_bytes(found)


def typed_field(data: bytes, kind: TopicType, plain: Plain, *, is_key: bool) -> DecodedField:
    """Return a key or value of a type; one that does not fit has a note and no text.

    Args:
        data: the key or value.
        kind: the type.
        plain: returns what is in wrappers alone; None for bytes without a schema.
        is_key: whether it is a key.
    """
    try:
        check_size(len(data))
        return _wrapped(data, kind.wrappers, kind, plain, is_key=is_key)
    except Exception as error:  # noqa: BLE001 - hostile bytes
        name = "/".join((*kind.wrappers, kind.name or ""))
        reason = undecodable(error, "the value").reason
        return DecodedField(None, note=f"not of the type {name.strip('/')}: {reason}")


def typed_texts(
    payloads: Payloads, kind: TopicType, enough: int, *, is_key: bool, is_bare: bool
) -> PayloadTexts:
    """Return the first keys or values as `LineDecoder.texts` has them; their type is alone (`TopicType.is_alone`)."""
    name, parts, places, at = kind.name or "", [], [], 0
    suffix = b',"%sEncoding":"%s"' % (b"key" if is_key else b"value", name.encode())
    suffix = b"" if is_bare else suffix
    for start, size in zip(payloads.starts.tolist(), payloads.sizes.tolist(), strict=True):
        text, left = b"", 1
        if size <= MOST_BYTES:
            with suppress(Exception):  # each says why it does not fit
                data = bytes(payloads.arena[start : start + size])
                text, left = _named(data, kind, name, is_key=is_key)
        if left:
            places.append((0, -1))
            continue
        parts.append(text + suffix)
        places.append((at, len(parts[-1])))
        at += len(parts[-1])
        if at >= enough:
            break
    return PayloadTexts(b"".join(parts), np.array(places, np.int64).reshape(-1, 2))


def key_bytes(text: str, kind: TopicType) -> bytes | None:
    """Return the bytes of a key that is written as its line shows it; None if there may be several.

    Raises:
        ValueError: the text is no key of the type.
    """
    if kind.wrappers:
        return None
    if kind.name == "string" and kind.charset not in _MARKED:
        return text.encode(kind.charset)
    number = NUMBERS.get(kind.name or "")
    return None if number is None else number.bytes_of(text)


def _wrapped(
    data: bytes, wrappers: Sequence[str], kind: TopicType, plain: Plain, *, is_key: bool
) -> DecodedField:
    if not wrappers:
        return _unwrapped(data, kind, plain, is_key=is_key)
    name, rest = wrappers[0], wrappers[1:]
    if name in _WINDOWS:
        content, window = _window(data, name)
        inner = _wrapped(content, rest, kind, plain, is_key=is_key)
        inner = inner._replace(text=b'{"key":%s,%s}' % (inner.text, window), made_by=None)
    else:
        inner = _wrapped(_inflated(data, name), rest, kind, plain, is_key=is_key)
    encoding = b"%s/%s" % (name.encode(), inner.encoding)
    return inner._replace(encoding=encoding.rstrip(b"/"))


def _inflated(data: bytes, codec: str) -> bytes:
    try:
        return decompress(CompressionType[codec.upper()], data, limit=MOST_BYTES)
    except LimitExceededError:
        raise UndecodableError(f"it inflates to more than {MOST_BYTES} bytes") from None
    except KafkaStorageError as error:
        raise UndecodableError(str(error)) from None


def _window(data: bytes, name: str) -> tuple[bytes, bytes]:
    """Return a windowed key without its window, and the window's part of the JSON."""
    size, fields = _WINDOWS[name]
    if len(data) < size:
        raise UndecodableError(f"{len(data)} bytes are too few for a window")
    window = data[len(data) - size :]
    parts = (
        b'"%s":%d' % (field.encode(), int.from_bytes(window[start:end], "big", signed=True))
        for field, start, end in fields
    )
    return data[: len(data) - size], b",".join(parts)


def _unwrapped(data: bytes, kind: TopicType, plain: Plain, *, is_key: bool) -> DecodedField:
    if kind.name is None:
        found = plain(data)
        if found is not None and found.text is not None:
            return found
        text, encoding = bytes_json(data)
        note, schema = (None, None) if found is None else (found.note, found.schema)
        return DecodedField(text, (encoding or "").encode(), note, schema)
    text, left = _named(data, kind, kind.name, is_key=is_key)
    note = f"{left} bytes follow the value" if left else None
    return DecodedField(text, kind.name.encode(), note)


def _named(data: bytes, kind: TopicType, name: str, *, is_key: bool) -> tuple[bytes, int]:
    """Return the JSON of a type, and the number of bytes behind it."""
    number = NUMBERS.get(name)
    if number is not None:
        return number.json(data), 0
    if name == "uuid":
        if len(data) not in (16, _UUID_TEXT):
            raise UndecodableError(f"{len(data)} bytes, expected 16 or {_UUID_TEXT}")
        text = str(UUID(bytes=data) if len(data) == 16 else UUID(data.decode()))
        return string_json(text).encode(), 0
    if name == "string":
        is_bare = kind.charset in _MARKED and not data.startswith(_MARKS)
        charset = _MARKED[kind.charset] if is_bare else kind.charset
        return string_json(data.decode(charset)).encode(), 0
    if name == "json":
        return JsonSchemaDecoder().json(data).text, 0
    if name == "cbor":
        from kafkafs.schemas.types.cbor import CborReader

        return CborReader(data).json()[:2]
    if name == "msgpack":
        from kafkafs.schemas.types.msgpack import MessagePackReader

        return MessagePackReader(data).json()[:2]
    return mirror_json(data, name, is_key=is_key), 0
