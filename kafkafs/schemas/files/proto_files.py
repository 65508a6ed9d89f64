"""Protobuf schemas in files: the imports of a `.proto` text, and the files of a descriptor set."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import NamedTuple

from engine.coding.varint import encode_unsigned_varint, read_unsigned_varint

_TOKEN = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | (?P<import>\bimport\s+(?:public\s+|weak\s+)?(?:"(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)')\s*;)
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""",
    re.VERBOSE | re.DOTALL,
)
_FILES, _NAME, _PACKAGE, _DEPENDENCY, _MESSAGE = 1, 1, 2, 3, 4
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class DescribedFile(NamedTuple):
    """A file of a descriptor set.

    Attributes:
        name: path that other files import it by.
        text: the FileDescriptorProto in base64.
        imports: paths of the files that it imports.
        messages: full names of its messages, without those inside others.
    """

    name: str
    text: str
    imports: tuple[str, ...]
    messages: tuple[str, ...]


def imports_of(text: str) -> tuple[str, ...]:
    """Return the paths that a `.proto` text imports, each once.

    >>> imports_of('import "a.proto"; // import "b.proto";')
    ('a.proto',)
    """
    found = (match for match in _TOKEN.finditer(text) if match["import"] is not None)
    paths = (match["double"] or match["single"] or "" for match in found)
    return tuple(dict.fromkeys(paths))


def described_files(data: bytes) -> list[DescribedFile]:
    """Return the files of a FileDescriptorSet, as `protoc --descriptor_set_out` writes one.

    Raises:
        ValueError: the bytes are no descriptor set.
    """
    try:
        found = [_described(file) for number, file in _fields(data) if number == _FILES]
    except IndexError:
        raise ValueError("the descriptor set is cut off") from None
    if not found:
        raise ValueError("the descriptor set has no files")
    return found


def is_descriptor(data: bytes) -> bool:
    """Return whether bytes are a FileDescriptorProto: a Protobuf message with the name of a file."""
    try:
        return any(number == _NAME for number, _ in _fields(data))
    except (ValueError, IndexError):
        return False


def descriptor_set(files: list[bytes]) -> bytes:
    """Return the FileDescriptorSet of some FileDescriptorProtos."""
    return b"".join(
        bytes([_FILES << 3 | _LENGTH]) + encode_unsigned_varint(len(file)) + file for file in files
    )


def _described(file: bytes) -> DescribedFile:
    found: dict[int, list[bytes]] = {}
    for number, data in _fields(file):
        found.setdefault(number, []).append(data)
    if _NAME not in found:
        raise ValueError("a file of the descriptor set has no name")
    package = found.get(_PACKAGE, [b""])[-1].decode()
    names = (
        data.decode()
        for message in found.get(_MESSAGE, ())
        for number, data in _fields(message)
        if number == _NAME
    )
    return DescribedFile(
        found[_NAME][-1].decode(),
        b64encode(file).decode(),
        tuple(data.decode() for data in found.get(_DEPENDENCY, ())),
        tuple(f"{package}.{name}" if package else name for name in names),
    )


def _fields(data: bytes) -> list[tuple[int, bytes]]:
    """Return the numbers and bytes of the fields of a message that have a length.

    Raises ValueError or IndexError if it is no message.
    """
    found, position = [], 0
    while position < len(data):
        tag, position = read_unsigned_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if number < 1:
            raise ValueError("the bytes are no Protobuf message")
        if kind == _LENGTH:
            size, position = read_unsigned_varint(data, position)
            if not 0 <= size <= len(data) - position:
                raise IndexError
            found.append((number, data[position : position + size]))
            position += size
        elif kind == _VARINT:
            while data[position] >= 0x80:
                position += 1
            position += 1
        elif kind in (_FIXED32, _FIXED64):
            position += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError("the bytes are no Protobuf message")
    return found
