"""Decoder of Protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from engine.arrays import np
from kafkafs.schemas.decoders.limits import MOST_BYTES, Purse, check_size
from kafkafs.schemas.decoders.protobuf_files import link
from kafkafs.schemas.decoders.protobuf_json import MessagePrinter
from kafkafs.schemas.decoders.protobuf_program import compile_program
from kafkafs.schemas.decoders.value_decoder import (
    DecodedJson,
    Payloads,
    PayloadTexts,
    ValueDecoder,
)
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import Message as MessagePlace, may_be_apicurio_ref, message_indexes
from kafkafs.schemas.schema import JsonValue

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

    from kafkafs.schemas.programs import compiled

_FIRST = (0,)
_MOST_CLASSES = 1000
_MOST_PROGRAMS = 64
_MOST_TRIES = 8
"""Payloads that are asked for the message that many of them have."""
MOST_INDEX_BYTES = 512


class ProtobufPayload(NamedTuple):
    """A payload with its decoder and message."""

    decoder: ProtobufDecoder
    data: bytes
    message: MessagePlace


class ProtobufDecoder(ValueDecoder):
    """Decoder of Protobuf messages; needs the extra `schemas`.

    Args:
        text: `.proto` text, or a FileDescriptorProto in base64.
        references: names as in `import`, and texts, each after those that it needs itself.

    Attributes:
        printer: printer of the schema's messages.

    Raises:
        UndecodableError: the text does not compile, or the extra is not installed.

    Example:
        >>> decoder = ProtobufDecoder('syntax = "proto3"; message A { int64 the_id = 1; bool b = 2; }')
        >>> decoder.decode(b"\\x08\\x07")
        {'theId': '7', 'b': False}
    """

    __slots__ = ("_classes", "_linked", "_programs", "printer")

    def __init__(self, text: str, references: Iterable[tuple[str, str]] = ()) -> None:
        self._linked = link(text, references)
        self.printer = MessagePrinter(self._linked.pool)
        self._classes: dict[MessagePlace, type[Message]] = {}
        self._programs: dict[MessagePlace, compiled.ProtobufProgram | None] = {}

    def descriptor(self, message: MessagePlace = None) -> Descriptor:
        """Return the type of a message.

        Raises:
            UndecodableError: there is no such type.
        """
        found = self._found(message)
        if found is None:
            raise UndecodableError(f"the schema has no message {str(message or 0)[:200]}")
        return found

    def main_message(self) -> MessagePlace:
        """Return the first message that no other message of the schema holds; the first of all if each is held."""
        inside = list(self._linked.file.message_types_by_name.values())
        held = {
            (_outermost(field.message_type).full_name, message.full_name)
            for message in inside
            for each in _all([message])
            for field in each.fields
            if field.message_type is not None
        }
        names = {inner for inner, outer in held if inner != outer}
        free = (place for place, each in enumerate(inside) if each.full_name not in names)
        return (next(free, 0),)

    def _found(self, message: MessagePlace) -> Descriptor | None:
        inside = list(self._linked.file.message_types_by_name.values())
        if isinstance(message, str):
            return next(_named(inside, message), None)
        if isinstance(message, int):
            names = sorted(each.full_name for each in _all(inside))
            message_name = names[message] if 0 <= message < len(names) else None
            return next((each for each in _all(inside) if each.full_name == message_name), None)
        found = None
        for index in message or _FIRST:
            if not 0 <= index < len(inside):
                return None
            found = inside[index]
            inside = list(found.nested_types)
        return found

    def json(self, payload: bytes, message: MessagePlace = None) -> DecodedJson:
        check_size(len(payload))
        program = self.program(message)
        text = None if program is None else program.json(payload)
        return super().json(payload, message) if text is None else DecodedJson(text)

    def texts(self, payloads: Payloads, suffix: bytes, enough: int) -> PayloadTexts | None:
        arena, starts, sizes = payloads
        for row in np.flatnonzero(sizes >= 0)[:_MOST_TRIES].tolist():
            start = int(starts[row])
            head = bytes(arena[start : start + min(int(sizes[row]), MOST_INDEX_BYTES)])
            with suppress(UndecodableError):
                message, end = message_indexes(head, 0)
                program = self.program(message)
                if program is not None and not may_be_apicurio_ref(head):
                    sizes = np.where(sizes > MOST_BYTES, -1, sizes)
                    made = program.texts(arena, starts, sizes, head[:end], suffix, enough)
                    return PayloadTexts(*made)
        return None

    def bare_texts(
        self, payloads: Payloads, message: MessagePlace, suffix: bytes, enough: int
    ) -> PayloadTexts | None:
        """Return the JSON of payloads of one message, as `texts`. Raises UndecodableError: there is no such message."""
        program = self.program(message)
        if program is None:
            return None
        arena, starts, sizes = payloads
        return PayloadTexts(*program.texts(arena, starts, sizes, b"", suffix, enough))

    def program(self, message: MessagePlace) -> compiled.ProtobufProgram | None:
        """Return the program of a message type; None without one. Raises UndecodableError: there is no such type."""
        if message not in self._programs:
            if len(self._programs) >= _MOST_PROGRAMS:
                return None
            self._programs[message] = compile_program(self.descriptor(message), self.printer)
        return self._programs[message]

    def made_of(self, payload: bytes, message: MessagePlace = None) -> object:
        return ProtobufPayload(self, payload, message)

    def read(self, payload: bytes, message: MessagePlace, purse: Purse) -> tuple[JsonValue, int]:
        from google.protobuf.message import DecodeError

        kind = self._classes.get(message)
        if kind is None:
            from google.protobuf.message_factory import GetMessageClass

            kind = GetMessageClass(self.descriptor(message))
            if len(self._classes) < _MOST_CLASSES:
                self._classes[message] = kind
        value = kind()
        try:
            value.ParseFromString(payload)
        except DecodeError:
            name = value.DESCRIPTOR.full_name
            raise UndecodableError(f"the bytes are no message {name}") from None
        return self.printer.json(value, 0, purse), 0


def _outermost(message: Descriptor) -> Descriptor:
    """Return the message of a file that a message lies in, or itself."""
    while message.containing_type is not None:
        message = message.containing_type
    return message


def _all(messages: Iterable[Descriptor]) -> Iterator[Descriptor]:
    """Yield messages and those in them."""
    for message in messages:
        yield message
        yield from _all(message.nested_types)


def _named(messages: Iterable[Descriptor], name: str) -> Iterator[Descriptor]:
    """Yield the messages with a full or simple name."""
    return (each for each in _all(messages) if name in (each.full_name, each.name))
