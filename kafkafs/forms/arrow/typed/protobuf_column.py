"""Columns of Protobuf messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from engine.arrays import np, npt
from engine.lines.line_decoder import DecodedField
from kafkafs.forms.arrow.typed.protobuf_program import message_program
from kafkafs.forms.arrow.typed.protobuf_types import arrow_type, value_of
from kafkafs.forms.arrow.typed.typed_column import Read, TypedColumn
from kafkafs.schemas.decoders.limits import Purse
from kafkafs.schemas.decoders.protobuf import MOST_INDEX_BYTES, ProtobufDecoder, ProtobufPayload
from kafkafs.schemas.decoders.value_decoder import Payloads
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import (
    Form,
    Message,
    apicurio_ref,
    may_be_apicurio_ref,
    message_indexes,
)
from kafkafs.schemas.topic_decoder import SameFrame

if TYPE_CHECKING:
    from kafkafs.schemas.programs import compiled

_MOST_HEADS = 16
"""Message indexes whose payloads are read together; those with others are read one by one."""


class ProtobufColumn(TypedColumn):
    """Column of messages of a type; messages of older schemas are read by the numbers of their fields.

    Args:
        decoder: decoder of the schema.
        message: the type in it.
        nanoseconds: whether times are in nanoseconds.

    Raises:
        UndecodableError: the schema has no such message.
        ValueError: the type has more fields than a column may have.
    """

    def __init__(
        self, decoder: ProtobufDecoder, message: Message = None, *, nanoseconds: bool = False
    ) -> None:
        self._descriptor = decoder.descriptor(message)
        super().__init__(arrow_type(self._descriptor, nanoseconds=nanoseconds))
        self._messages = decoder.program(message)
        self._class = GetMessageClass(self._descriptor)
        self._value = value_of(self._descriptor, decoder.printer, nanoseconds=nanoseconds)

    @cached_property
    def program(self) -> compiled.ProtobufColumnProgram | None:
        """The program of the type's messages; None without one. The extension must be there."""
        if self._messages is None:
            return None
        return message_program(self._descriptor, self._messages, self.tree, self.shapes)

    def reads(self, frame: SameFrame, payloads: Payloads) -> Iterator[Read]:
        decoder = frame.decoder
        rows = np.flatnonzero(payloads.sizes >= 0)
        if not isinstance(decoder, ProtobufDecoder):
            yield Read(rows, 0, None)
        elif frame.framing.form in (Form.BARE, Form.CONFLUENT_HEADER):
            program = None
            with suppress(UndecodableError):
                program = self._program_of(decoder, frame.message())
            yield Read(rows, 0, program)
        elif frame.framing.form is Form.APICURIO_HEADER:
            may_have_ref = _may_have_ref(payloads, rows)
            yield Read(rows[~may_have_ref], 0, self._program_of(decoder, frame.framing.message))
            yield from self._by_head(decoder, rows[may_have_ref], payloads, has_indexes=False)
        else:
            yield from self._by_head(decoder, rows, payloads, has_indexes=True)

    def _by_head(
        self,
        decoder: ProtobufDecoder,
        rows: npt.NDArray[np.intp],
        payloads: Payloads,
        *,
        has_indexes: bool,
    ) -> Iterator[Read]:
        """Yield how payloads behind their message indexes, or behind Apicurio's `Ref`, are read."""
        arena, starts, sizes = payloads
        data = np.frombuffer(arena, np.uint8)
        for _ in range(_MOST_HEADS):
            if not len(rows):
                return
            start, size = int(starts[rows[0]]), int(sizes[rows[0]])
            head = bytes(arena[start : start + min(size, MOST_INDEX_BYTES)])
            program, end = None, len(head)
            with suppress(UndecodableError):
                name, after = apicurio_ref(head, 0)
                if name is not None:
                    program, end = self._program_of(decoder, name), after
                elif has_indexes:
                    message, end = message_indexes(head, 0)
                    if not may_be_apicurio_ref(head):
                        program = self._program_of(decoder, message)
            is_same = sizes[rows] >= end
            for place in range(end):
                is_same[is_same] = data[starts[rows[is_same]] + place] == head[place]
            yield Read(rows[is_same], end, program)
            rows = rows[~is_same]
        yield Read(rows, 0, None)

    def _program_of(
        self, decoder: ProtobufDecoder, message: Message
    ) -> compiled.ProtobufColumnProgram | None:
        """Return the program for a message of a decoder, if it is of the column's type."""
        try:
            name = decoder.descriptor(message).full_name
        except UndecodableError:
            return None
        return self.program if name == self._descriptor.full_name else None

    def value(self, field: DecodedField, purse: Purse) -> Any:  # noqa: ANN401
        made = field.made_by
        if not isinstance(made, ProtobufPayload):
            raise UndecodableError("it has no Protobuf schema of its own")
        return self.value_of(made, purse)

    def value_of(self, made: ProtobufPayload, purse: Purse) -> Any:  # noqa: ANN401
        """Return what PyArrow takes for a payload; raises as `value`."""
        name, own = made.decoder.descriptor(made.message).full_name, self._descriptor.full_name
        if name != own:
            raise UndecodableError(f"it is a message {name}, not {own}")
        message = self._class()
        try:
            message.ParseFromString(made.data)
        except DecodeError:
            raise UndecodableError(f"the bytes are no message {own}") from None
        return self._value(message, purse)


def _may_have_ref(payloads: Payloads, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Return which payloads may begin with Apicurio's `Ref`: a size, and the field 1 of a name."""
    arena, starts, sizes = payloads
    data = np.frombuffer(arena, np.uint8)
    first, second, third = (
        data[np.minimum(starts[rows] + place, len(data) - 1)] for place in range(3)
    )
    is_short = (first < 0x80) & (second == 0x0A)
    is_long = (first >= 0x80) & ((second >= 0x80) | (third == 0x0A))
    found: npt.NDArray[np.bool_] = (sizes[rows] > 1) & (is_short | is_long)
    return found
