"""Targets of the programs of schemas: each on hostile values, and the reader in Python, its twin, beside it.

The values come from the golden topics of a real registry, and from the schemas of the unit tests: these have what
Confluent's serializers do not write, as groups, closed enums and ranges of extensions. A value is in memory of exactly
its size, so that AddressSanitizer sees a read behind it.
"""

from __future__ import annotations

import resource
import struct
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.descriptor import Descriptor

from engine.record.record import Header
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.avro_schema import (
    AvroArray,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    Logical,
)
from kafkafs.schemas.decoders.cache import DecoderCache
from kafkafs.schemas.decoders.limits import MOST_COST
from kafkafs.schemas.decoders.protobuf import ProtobufDecoder
from kafkafs.schemas.decoders.value_decoder import DecodedJson, ValueDecoder
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import Message, framings, payload
from kafkafs.schemas.schema import SchemaKind
from kafkafs.schemas.sources.opened import open_schemas
from kafkafs.schemas.store import SchemaStore
from tests.kafkafs.schemas.decoders import test_avro_program, test_protobuf_program
from tests.kafkafs.schemas.decoders.test_protobuf_program import sized, tag, varint
from tests.schema_truth import REGISTRIES, schema_paths, schema_records, schema_topics
from tests.soak.fuzz_kernel import exact
from tests.soak.mutator import LARGEST, changed
from tests.soak.targets import Target

PROGRAM_SECONDS = 5.0
"""Longest time of a program under the sanitizers."""
MOST_MEMORY = 768 * 1024
"""Kibibytes by which one value may make the process larger: its text, and the copy while that grows."""
TEXT_OF_A_BYTE = 64
"""Bytes of JSON that a byte of a value may make: a timestamp of one byte has 32."""
OTHER_SCHEMA = 0.05
"""Share of values that are read with the schema of another value."""
NUMBER = struct.Struct(">H")
SUFFIX = b"!"
ENOUGH = 1 << 40
AVRO_VALUES = (b"", bytes(16), b"\x02" * 6 + b"\0", b"\x08abcd\0", b"\x04\x02a\x04\x02b\x06\0\0\0")
"""Values for the schemas of the unit tests."""
PROTO2_VALUES = (
    tag(3, 0) + b"\x09" + tag(6, 2) + b"\x03\x01\x09\x02" + tag(6, 0) + b"\x02",
    tag(9, 3) + tag(1, 0) + b"\x04" + tag(9, 4) + tag(9, 3) + tag(2, 2) + b"\x00" + tag(9, 4),
    tag(10, 3) + tag(10, 4) + tag(10, 3) + tag(1, 0) + b"\x02" + tag(10, 4) + tag(23, 3) + tag(23, 4),
    tag(11, 2) + sized(tag(1, 0) + b"\x03") + tag(13, 2) + sized(b"\x08\x01\x12\x02\x08\x04"),
    tag(14, 2) + sized(tag(1, 2) + sized(b"k") + tag(2, 0) + b"\x01") + tag(30, 5) + b"\0\0\x80?",
    tag(7, 2) + sized(varint(-1) + b"\x05") + tag(22, 0) + b"\x01" + tag(21, 0) + b"\x03" + tag(2, 2) + sized(b"x"),
)  # fmt: skip
EDITION_VALUES = (
    tag(8, 0) + b"\x01" + tag(4, 3) + tag(8, 0) + b"\x02" + tag(4, 4) + tag(6, 0) + b"\x07",
    tag(8, 0) + b"\x01" + tag(2, 2) + sized(b"\xff") + tag(3, 0) + b"\x05" + tag(7, 0) + b"\x03" + tag(7, 0) + b"\x09",
)  # fmt: skip


class Kind(NamedTuple):
    """A kind of values: one schema, and one message of it.

    Attributes:
        decoder: the decoder with the program.
        message: message of a Protobuf schema.
        good: values that are right.
        is_all_read: whether the program reads each value that its twin reads.
    """

    decoder: ValueDecoder
    message: Message
    good: list[bytes]
    is_all_read: bool


def golden(kind: SchemaKind) -> Iterator[tuple[ValueDecoder, Message, bytes]]:
    """The keys and values of the golden topics that have a schema, each with its decoder."""
    decoders = DecoderCache()
    for registry in REGISTRIES:
        store = open_schemas(schema_paths(registry))
        for topic in schema_topics(registry):
            for record in schema_records(registry, topic):
                headers = [Header(name.encode(), value) for name, value in record.headers]
                for is_key, data in ((True, record.key), (False, record.value)):
                    found = decoded(data or b"", headers, store, decoders, topic, kind, is_key)
                    if found is not None:
                        yield found


def decoded(
    data: bytes,
    headers: list[Header],
    store: SchemaStore,
    decoders: DecoderCache,
    topic: str,
    kind: SchemaKind,
    is_key: bool,
) -> tuple[ValueDecoder, Message, bytes] | None:
    """The decoder, message and payload of a key or value; None for one without a schema of the kind."""
    for framing in framings(data, headers, is_key=is_key):
        for schema, _ in store.asked_for(framing, topic, is_key=is_key):
            if schema.kind is kind:
                try:
                    decoder, inner = decoders.decoder(schema, store), payload(data, framing, kind)
                    if program_of(decoder, inner.message) is not None:
                        return decoder, inner.message, inner.data
                except UndecodableError:
                    continue
    return None


def program_of(decoder: ValueDecoder, message: Message) -> Any:
    """The program; None without one. Raises UndecodableError: the schema does not have the message."""
    if isinstance(decoder, ProtobufDecoder):
        return decoder.program(message)
    assert isinstance(decoder, AvroDecoder)
    return decoder._program


def kinds_of(
    kind: SchemaKind, is_all_read: Callable[[Any, Message], bool]
) -> dict[tuple[int, Message], Kind]:
    """The kinds of values in the golden topics."""
    found: dict[tuple[int, Message], Kind] = {}
    for decoder, message, data in golden(kind):
        known = found.setdefault(
            (id(decoder), message), Kind(decoder, message, [], is_all_read(decoder, message))
        )
        known.good.append(data[:LARGEST])
    return found


def avro_is_all_read(decoder: AvroDecoder, _: Message = None) -> bool:
    """Whether a schema has no map and no decimal: maps with a key twice and large decimals stay with the twin."""
    seen: set[int] = set()

    def is_read(schema: AvroType) -> bool:
        if id(schema) in seen:
            return True
        seen.add(id(schema))
        if isinstance(schema, AvroRecord):
            return all(is_read(each) for _, each in schema.fields)
        if isinstance(schema, AvroUnion):
            return all(map(is_read, schema.branches))
        if isinstance(schema, AvroArray):
            return is_read(schema.items)
        if isinstance(schema, (AvroPrimitive, AvroFixed)):
            return schema.logical not in (Logical.DECIMAL, Logical.BIG_DECIMAL)
        return not isinstance(schema, AvroMap)

    return is_read(decoder.schema)


_SIMPLE = ("google.protobuf.Timestamp", "google.protobuf.Duration")


def protobuf_is_all_read(decoder: ProtobufDecoder, message: Message = None) -> bool:
    """Whether a type has no map, no extension, no Any, no field mask, and no type inside itself at any depth."""

    def is_read(kind: Descriptor, outside: tuple[str, ...]) -> bool:
        if kind.full_name in _SIMPLE or kind.full_name.endswith("Value"):
            return kind.full_name not in ("google.protobuf.Value", "google.protobuf.ListValue")
        if kind.full_name.startswith("google.protobuf.") or kind.full_name in outside:
            return False
        inside = [field.message_type for field in kind.fields if field.message_type is not None]
        return (
            not kind.extension_ranges
            and not any(each.GetOptions().map_entry for each in inside)
            and all(is_read(each, (*outside, kind.full_name)) for each in inside)
        )

    return is_read(decoder.descriptor(message), ())


# -- what a program and its twin say ---------------------------------------------------------------


def of_twin(kind: Kind, data: bytes) -> DecodedJson | str:
    """What the reader in Python makes of a value, or why it refuses the value."""
    try:
        return ValueDecoder.json(kind.decoder, data, kind.message)
    except UndecodableError as error:
        return str(error)


def of_decoder(kind: Kind, data: bytes) -> DecodedJson | str:
    """What a decoder with both of them makes of a value, or why it refuses the value."""
    try:
        return kind.decoder.json(data, kind.message)
    except UndecodableError as error:
        return str(error)


def of_program(program: Any, data: bytes) -> DecodedJson | None:
    """What the program makes of a value, within bounds of time, memory and text."""
    start, size = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = program.json(exact(data))
    spent = time.process_time() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size
    assert spent < PROGRAM_SECONDS, f"the program took {spent:.1f} s"
    assert grown < MOST_MEMORY, f"the program took {grown} KiB"
    if found is None:
        return None
    made = DecodedJson(*found) if isinstance(found, tuple) else DecodedJson(found)
    assert len(made.text) < 2 * MOST_COST + TEXT_OF_A_BYTE * len(data), len(made.text)
    return made


def check(kind: Kind, data: bytes) -> None:
    """Check that the program has the twin's text, alone and among others, or leaves the value to the twin."""
    program = program_of(kind.decoder, kind.message)
    found, expected = of_program(program, data), of_twin(kind, data)
    if isinstance(expected, str):
        assert found is None, (found, expected)
        assert of_decoder(kind, data) == expected
    elif found is None:
        assert not kind.is_all_read, expected
        assert of_decoder(kind, data) == expected
    else:
        assert found == expected, (found, expected)
    check_among_others(program, data)


def check_among_others(program: Any, data: bytes) -> None:
    """Check that the value and a part of it have the same texts in a buffer of values as they have alone."""
    middle = len(data) // 2
    pieces = ((0, len(data)), (middle, len(data) - middle), (0, -1), (0, middle), (len(data), 0))
    starts, sizes = (np.array(each, np.int64) for each in zip(*pieces, strict=True))
    is_protobuf = type(program).__name__ == "ProtobufProgram"
    own = (b"",) if is_protobuf else ()
    text, places = program.texts(exact(data), starts, sizes, *own, SUFFIX, ENOUGH)
    shown = [text[at : at + size] if size >= 0 else None for at, size in places.tolist()]
    alone = [None if size < 0 else of_program(program, data[at : at + size]) for at, size in pieces]
    assert shown == [each.text + SUFFIX if each and not each.left else None for each in alone]
    if is_protobuf:  # the middle without the message indexes in front of it
        text, places = program.texts(
            exact(data), starts[:1], sizes[:1], data[:middle], SUFFIX, ENOUGH
        )
        behind = alone[1] and alone[1].text + SUFFIX
        assert (text if places[0, 1] >= 0 else None) == behind


def target(kinds: list[Kind]) -> Target:
    """Values of some kinds: the number of the kind, and the value."""

    def make(random: Random) -> bytes:
        number = random.randrange(len(kinds))
        data = changed(random.choice(kinds[number].good), random)
        if random.random() < OTHER_SCHEMA:
            number = random.randrange(len(kinds))
        return NUMBER.pack(number) + data

    def read(data: bytes) -> None:
        (number,) = NUMBER.unpack(data[: NUMBER.size].ljust(NUMBER.size, b"\0"))
        check(kinds[number % len(kinds)], data[NUMBER.size :])

    return Target(make, read)


def avro_kinds() -> list[Kind]:
    """The Avro schemas of the golden topics and of the unit tests."""
    own = map(AvroDecoder, test_avro_program.HOSTILE)
    return [
        *kinds_of(SchemaKind.AVRO, avro_is_all_read).values(),
        *(Kind(each, None, list(AVRO_VALUES), avro_is_all_read(each)) for each in own),
    ]


def protobuf_kinds() -> list[Kind]:
    """The messages of the golden topics and of the unit tests."""
    own = {
        "proto3": [test_protobuf_program.filled().SerializeToString(deterministic=True)],
        "proto2": list(PROTO2_VALUES),
        "edition": list(EDITION_VALUES),
    }
    return [
        *kinds_of(SchemaKind.PROTOBUF, protobuf_is_all_read).values(),
        *(
            Kind(decoder, None, own[name], protobuf_is_all_read(decoder))
            for name, decoder in test_protobuf_program.DECODERS.items()
        ),
    ]


TARGETS = {
    "avro-programs": lambda: target(avro_kinds()),
    "protobuf-programs": lambda: target(protobuf_kinds()),
}
"""What makes each target, by name."""
