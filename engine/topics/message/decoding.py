"""Read the fields of a message from bytes, for every version of its schema.

A reader is compiled once for each message and version. It reads as Kafka's generated classes do,
with the same errors: a null in a field that is not nullable, a string above 32,767 bytes, a count
above the bytes that are left, a tag that its version does not have. A known tag's stated size is
ignored, and bytes after the message are left to the caller.
"""

from __future__ import annotations

import base64
import codecs
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeAlias

from engine.coding.layout import Buffer
from engine.coding.varint import read_unsigned_varint, to_int32
from engine.errors import CorruptMessageError, UnknownVersionError
from engine.topics.message.schema import Array, Field, Message, Scalar, Struct, Type

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
_Step: TypeAlias = Callable[[bytes, int, dict[str, Any]], int]

_LONGEST_STRING = 0x7FFF
_FIXED: dict[Scalar, str] = {
    Scalar.BOOL: "?", Scalar.INT8: "b", Scalar.INT16: "h", Scalar.UINT16: "H", Scalar.INT32: "i",
    Scalar.UINT32: "I", Scalar.INT64: "q", Scalar.FLOAT64: "d",
}  # fmt: skip


class CountedBytes(bytes):
    """Bytes of an untrusted message, with the number of elements that its arrays may have together."""

    elements_left: int

    @classmethod
    def of(cls, data: bytes, most: int) -> CountedBytes:
        """Return the bytes with a limit."""
        made = cls(data)
        made.elements_left = most
        return made

    def take(self, count: int) -> bool:
        """Count the elements of an array; return whether they are within the limit."""
        self.elements_left -= count
        return self.elements_left >= 0


def read_message(
    message: Message, version: int, buffer: Buffer, position: int = 0, *, lenient: bool = False
) -> tuple[dict[str, Any], int]:
    """Return the fields of the message at a position, and the position after it.

    Every field of the schema is in the dict, in the schema's order: a field that the version does
    not have, or a tagged field that was not written, has its default. Numbers are int or float,
    BYTES are bytes, a UUID is the 22 characters that Kafka shows.

    Args:
        buffer: the bytes; CountedBytes limit the number of elements.
        lenient: read a version above the last one like the last one, as Kafka does where it does not check.

    Raises:
        UnknownVersionError: the schema does not have the version.
        CorruptMessageError: the bytes do not parse.
    """
    data = buffer if isinstance(buffer, bytes) else bytes(buffer)
    return message_reader(message, version, lenient=lenient)(data, position)


@lru_cache(maxsize=1024)
def message_reader(message: Message, version: int, *, lenient: bool = False) -> Reader:
    """Return the reader that `read_message` uses for a version, to read many messages from bytes.

    Raises:
        UnknownVersionError: the schema does not have the version.
    """
    if not message.knows(version) and not lenient:
        raise UnknownVersionError(
            f"version {version} of {message.name} is not known",
            expected=f"{message.first_version} to {message.last_version}",
            found=version,
        )
    return _struct_reader(message.fields, max(version, message.first_version), message)


# -- structures -----------------------------------------------------------------------------------


def _struct_reader(fields: tuple[Field, ...], version: int, message: Message) -> Reader:
    """Return a reader of consecutive fields and the tagged fields after them, into one dict."""
    present = [field for field in fields if field.is_in(version)]
    flexible = message.is_flexible(version)
    steps = list(_steps([field for field in present if field.tag is None], version, message))
    if flexible:
        steps.append(_tags_step(fields, version, message))
    template = {field.name: field.absent() for field in fields}
    fresh = [field for field in fields if isinstance(template[field.name], (list, dict))]

    def read(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        values = template.copy()
        if fresh:
            values |= {field.name: field.absent() for field in fresh}
        for step in steps:
            position = step(data, position, values)
        return values, position

    return read


def _steps(fields: list[Field], version: int, message: Message) -> Iterator[_Step]:
    """Yield readers of consecutive fields: adjacent ones of fixed size together, others one by one."""
    for is_fixed, group in groupby(fields, lambda field: field.type in _FIXED):
        if is_fixed:
            yield _fixed_step(list(group))
            continue
        for field in group:
            yield _field_step(field, _field_reader(field, version, message))


def _fixed_step(fields: list[Field]) -> _Step:
    names = [field.name for field in fields]
    sizes = [struct.calcsize(f">{_FIXED[field.type]}") for field in fields]  # type: ignore[index]
    layout = struct.Struct(">" + "".join(_FIXED[field.type] for field in fields))  # type: ignore[index]
    unpack, size = layout.unpack_from, layout.size

    if len(names) == 1:
        return _field_step(fields[0], _number_reader(fields[0].type, names[0]))  # type: ignore[arg-type]

    def step(data: bytes, position: int, values: dict[str, Any]) -> int:
        if position + size > len(data):
            raise _cut_off(data, position, names, sizes)
        values.update(zip(names, unpack(data, position), strict=True))
        return position + size

    return step


def _cut_off(data: bytes, position: int, names: list[str], sizes: list[int]) -> CorruptMessageError:
    for name, size in zip(names, sizes, strict=True):
        if position + size > len(data):
            return _ends_inside(data, position, size, name)
        position += size
    raise AssertionError("the bytes suffice")


def _ends_inside(data: bytes, position: int, size: int, name: str) -> CorruptMessageError:
    return CorruptMessageError(
        f"the message ends inside {name}",
        position=position,
        expected=f"{size} bytes",
        found=f"{max(len(data) - position, 0)} bytes",
    )


def _field_step(field: Field, read: Reader) -> _Step:
    name = field.name

    def step(data: bytes, position: int, values: dict[str, Any]) -> int:
        values[name], position = read(data, position)
        return position

    return step


# -- tagged fields --------------------------------------------------------------------------------


def _tags_step(fields: tuple[Field, ...], version: int, message: Message) -> _Step:
    """Return a reader of the tagged fields at the end of a flexible structure; unknown tags are skipped."""
    known: dict[int, tuple[str, Reader] | None] = {}
    for field in fields:
        if field.tag is not None:
            reader = _field_reader(field, version, message) if field.is_in(version) else None
            known[field.tag] = (field.name, reader) if reader else None

    def step(data: bytes, position: int, values: dict[str, Any]) -> int:
        if position < len(data) and not data[position]:
            return position + 1
        at = position
        count, position = _varint(data, position, "the tagged fields")
        _check_tag_count(count, len(data) - position, at)
        for _ in range(count):
            at = position
            tag, position = _varint(data, position, "a tag")
            size, position = _varint(data, position, "a tagged field")
            if tag not in known:
                position = _end_of(data, position, size, f"tagged field {tag}")
                continue
            found = known[tag]
            if found is None:
                raise CorruptMessageError(
                    f"tag {tag} does not belong to version {version}",
                    position=at,
                    kafka_says=f"Tag {tag} is not valid for version {version}",
                )
            name, read = found
            values[name], position = read(data, position)
        return position

    return step


def _check_tag_count(count: int, left: int, position: int) -> None:
    """Raise CorruptMessageError for more tagged fields than bytes, as Kafka does from 4.4 on."""
    if 0 <= count <= left:
        return
    says = f"Tried to read {count} tagged fields, but there are only {left} bytes remaining."
    raise CorruptMessageError(
        "the message has more tagged fields than bytes are left",
        position=position,
        expected=f"at most {left}",
        found=count,
        kafka_says=says if count >= 0 else f"Invalid negative number of tagged fields {count}",
    )


# -- single fields --------------------------------------------------------------------------------


def _field_reader(field: Field, version: int, message: Message) -> Reader:
    """Return a reader of one field that the version has."""
    flexible = message.is_flexible(version)
    if isinstance(field.type, Struct):
        inner = _inner_reader(field.type, version, message)
        return _nullable_struct(inner, field) if field.nullable else inner
    if isinstance(field.type, Array):
        element = _type_reader(field.type.element, field.name, version, message)
        return _array_reader(field, element, flexible=flexible)
    if field.type in (Scalar.STRING, Scalar.BYTES):
        return _text_reader(field.type, field.name, flexible=flexible, nullable=field.nullable)
    return _type_reader(field.type, field.name, version, message)


def _type_reader(kind: Type, name: str, version: int, message: Message) -> Reader:
    """Return a reader of one non-null value of a type."""
    if isinstance(kind, Struct):
        return _inner_reader(kind, version, message)
    if isinstance(kind, Array):
        raise TypeError(f"{name}: an array of arrays")  # no message of Kafka has an array of arrays
    if kind is Scalar.UUID:
        return _uuid_reader(name)
    if kind in _FIXED:
        return _number_reader(kind, name)
    flexible = message.is_flexible(version)
    return _text_reader(kind, f"{name} element", flexible=flexible, nullable=False)


def _inner_reader(kind: Struct, version: int, message: Message) -> Reader:
    if version > message.last_version:
        return _refusing(kind, version)
    return _struct_reader(kind.fields, version, message)


def _refusing(kind: Struct, version: int) -> Reader:
    def read(data: bytes, position: int) -> tuple[Any, int]:
        raise CorruptMessageError(
            f"version {version} of {kind.name} is not known",
            position=position,
            kafka_says=f"Can't read version {version} of {kind.name}",
        )

    return read


def _nullable_struct(inner: Reader, field: Field) -> Reader:
    """Return a reader of a nullable structure.

    Its null mark is a byte in an ordinary field, a varint in a tagged field.
    """

    def in_row(data: bytes, position: int) -> tuple[Any, int]:
        if position >= len(data):
            raise _ends_inside(data, position, 1, field.name)
        is_null = data[position] >= 0x80
        return (None, position + 1) if is_null else inner(data, position + 1)

    def tagged(data: bytes, position: int) -> tuple[Any, int]:
        mark, position = _varint(data, position, field.name)
        return (None, position) if mark <= 0 else inner(data, position)

    return in_row if field.tag is None else tagged


def _number_reader(kind: Scalar, name: str) -> Reader:
    layout = struct.Struct(f">{_FIXED[kind]}")
    size = layout.size

    def read(data: bytes, position: int) -> tuple[Any, int]:
        if position + size > len(data):
            raise _ends_inside(data, position, size, name)
        return layout.unpack_from(data, position)[0], position + size

    return read


def _uuid_reader(name: str) -> Reader:
    encode = base64.urlsafe_b64encode

    def read(data: bytes, position: int) -> tuple[str, int]:
        end = position + 16
        if end > len(data):
            half = position + 8 if position + 8 <= len(data) else position
            raise _ends_inside(data, half, 8, name)
        return encode(data[position:end])[:22].decode("ascii"), end

    return read


def _array_reader(field: Field, element: Reader, *, flexible: bool) -> Reader:
    length = _length_reader(field.name, 4, flexible=flexible)

    def read(data: bytes, position: int) -> tuple[list[Any] | None, int]:
        at = position
        count, position = length(data, position)
        if count < 0:
            _check_null(field.name, at, nullable=field.nullable)
            return None, position
        if count > len(data) - position:
            raise CorruptMessageError(
                f"{field.name} has more elements than bytes are left",
                position=at,
                expected=f"at most {len(data) - position}",
                found=count,
                kafka_says=(
                    f"Tried to allocate a collection of size {count}, but there are only "
                    f"{len(data) - position} bytes remaining."
                ),
            )
        if isinstance(data, CountedBytes) and not data.take(count):
            raise CorruptMessageError(
                f"the message has too many elements, with those of {field.name}", position=at
            )
        values = []
        for _ in range(count):
            value, position = element(data, position)
            values.append(value)
        return values, position

    return read


def _text_reader(kind: Scalar, name: str, *, flexible: bool, nullable: bool) -> Reader:
    is_string = kind is Scalar.STRING
    length = _length_reader(name, 2 if is_string else 4, flexible=flexible)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        at = position
        size, position = length(data, position)
        if size < 0:
            _check_null(name, at, nullable=nullable)
            return None, position
        if is_string and size > _LONGEST_STRING:
            raise CorruptMessageError(
                f"{name} is too long for a string",
                position=at,
                expected=f"at most {_LONGEST_STRING} bytes",
                found=size,
                kafka_says=f"string field {name} had invalid length {size}",
            )
        end = _end_of(data, position, size, name)
        part = data[position:end]
        return part.decode("utf-8", _REPLACE) if is_string else part, end

    return read


# -- lengths --------------------------------------------------------------------------------------


def _length_reader(
    name: str, size: int, *, flexible: bool
) -> Callable[[bytes, int], tuple[int, int]]:
    """Return a reader of a length or count; a negative one is null."""
    if not flexible:
        return _number_reader(Scalar.INT16 if size == 2 else Scalar.INT32, name)

    def read(data: bytes, position: int) -> tuple[int, int]:
        if position < len(data) and data[position] < 0x80:
            return data[position] - 1, position + 1
        value, position = _varint(data, position, name)
        return to_int32(value - 1), position

    return read


def _varint(data: bytes, position: int, name: str) -> tuple[int, int]:
    if position < len(data) and (byte := data[position]) < 0x80:
        return byte, position + 1
    try:
        return read_unsigned_varint(data, position)
    except IndexError:
        raise _ends_inside(data, position, 1, name) from None
    except ValueError:
        raise _too_long_varint(data, position, name) from None


def _too_long_varint(data: bytes, position: int, name: str) -> CorruptMessageError:
    raw = 0
    for index in range(5):
        raw |= (data[position + index] & 0x7F) << (7 * index)
    return CorruptMessageError(
        f"the length of {name} is longer than 5 bytes",
        position=position,
        kafka_says=(
            "Varint is too long, the most significant bit in the 5th byte is set, converted value: "
            f"{raw & 0xFFFFFFFF:x}"
        ),
    )


def _end_of(data: bytes, position: int, size: int, name: str) -> int:
    """Return the end of `size` bytes, which must all be there."""
    left = len(data) - position
    if 0 <= size <= left:
        return position + size
    says = f"Error reading byte array of {size} byte(s): only {left} byte(s) available"
    raise CorruptMessageError(
        f"the message ends inside {name}",
        position=position,
        expected=f"{size} bytes",
        found=f"{left} bytes",
        kafka_says=says if size >= 0 else str(size),
    )


def _check_null(name: str, position: int, *, nullable: bool) -> None:
    if not nullable:
        raise CorruptMessageError(
            f"{name} is null",
            position=position,
            kafka_says=f"non-nullable field {name} was serialized as null",
        )


# -- characters -----------------------------------------------------------------------------------


def _replace_as_java(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace each bad sequence with one mark, as Java does; parts of a surrogate's three bytes count as one."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    first, second, third = (*error.object[error.start : error.start + 3], 0, 0)[:3]
    if first == 0xED and second >> 5 == 0b101:
        return "�", error.start + (3 if third >> 6 == 0b10 else 2)
    return "�", error.end


_REPLACE = "kafkafs-replace-as-java"
codecs.register_error(_REPLACE, _replace_as_java)
