"""Messages of Kafka's protocol: both kernels read and write each one alike, and refuse alike."""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from engine.errors import CorruptMessageError, UnknownVersionError
from engine.topics.message.notation import parse_messages
from engine.topics.message.schema import Message
from kafkafs.serve.protocol.api import Api
from tests.engine.kernel.kernels import KERNELS, each_kernel
from tests.messages import VERSIONS, encode, random_fields

ALL = [
    *VERSIONS,
    *(
        (message, version)
        for api in Api
        for message in (api.request, api.response)
        for version in range(message.first_version, message.last_version + 1)
    ),
]
EACH = pytest.mark.parametrize(
    ("message", "version"), ALL, ids=[f"{message.name}-{version}" for message, version in ALL]
)
SEEDS = range(settings.default.max_examples // 16)
"""Of each message in each version; `scripts/soak fuzz` has the others."""
ODD = """
Groups  0-1  flexible 1+
  names   []Name
    name  string?

Short  0
  field  int16

Text  0
  field  string

Id  0
  field  uuid
"""
GROUPS, SHORT, TEXT, ID = parse_messages(ODD).values()


class Elsewhere:
    """Bytes that are not in memory."""

    def __init__(self, size: int) -> None:
        self.size = size


@EACH
def test_each_message_is_read_from_its_bytes_and_written_as_them(
    message: Message, version: int
) -> None:
    for seed in SEEDS:
        chance = Random(seed)
        fields = random_fields(message, version, chance)
        data = encode(message, version, fields)
        for kernel in KERNELS.values():
            found, end = kernel.read_message(message, version, b"..." + data + b"behind", 3)
            assert (repr(found), end) == (repr(fields), 3 + len(data)), seed
            assert list(found) == [field.name for field in message.fields]
            assert kernel.write_message(message, version, fields, b"head") == [b"head" + data]
            given_alone = {key: value for key, value in fields.items() if chance.random() < 0.5}
            assert kernel.write_message(message, version, given_alone) == [
                encode(message, version, given_alone)
            ]


def outcome(kernel: ModuleType, message: Message, version: int, data: bytes) -> Any:
    """What a kernel makes of bytes: fields and end, or the error and its place."""
    try:
        return repr(kernel.read_message(message, version, data, most_elements=50))
    except CorruptMessageError as error:
        return str(error), error.position, error.kafka_says


@EACH
def test_both_kernels_agree_on_damaged_messages(message: Message, version: int) -> None:
    for seed in SEEDS:
        chance = Random(seed)
        data = bytearray(encode(message, version, random_fields(message, version, chance)))
        for _ in range(chance.randrange(1, 4)):
            if data:
                at = chance.randrange(len(data))
                data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xED, 0xFF, chance.randrange(256)])
        cut = bytes(data[: chance.randrange(len(data) + 1)])
        for damaged in (bytes(data), cut):
            compiled, python = (
                outcome(each, message, version, damaged) for each in KERNELS.values()
            )
            assert compiled == python, seed


@each_kernel
def test_defaults_that_can_be_changed_are_made_anew(kernel: ModuleType) -> None:
    fetch = Api.FETCH.request
    data = encode(fetch, 17, {})
    first, _ = kernel.read_message(fetch, 17, data)
    first["replicaState"]["replicaId"] = 5
    first["topics"].append("changed")
    second, _ = kernel.read_message(fetch, 17, data)
    assert second == {field.name: field.absent() for field in fetch.fields}


@each_kernel
def test_more_elements_than_are_allowed_are_refused(kernel: ModuleType) -> None:
    data = encode(GROUPS, 1, {"names": [{"name": "x"}] * 5})
    assert len(kernel.read_message(GROUPS, 1, data, most_elements=5)[0]["names"]) == 5
    with pytest.raises(CorruptMessageError, match="too many elements"):
        kernel.read_message(GROUPS, 1, data, most_elements=4)


@each_kernel
def test_a_version_that_is_not_known_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(UnknownVersionError):
        kernel.read_message(GROUPS, 2, b"\0\0\0\0")


@each_kernel
def test_a_position_behind_the_bytes_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(CorruptMessageError):
        kernel.read_message(GROUPS, 0, b"\0\0\0\1", 9)


@each_kernel
def test_bytes_that_are_elsewhere_stand_between_the_others(kernel: ModuleType) -> None:
    fetch, elsewhere = Api.FETCH.response, Elsewhere(1000)
    parts = (b"first", memoryview(b"second"), elsewhere, Elsewhere(0), bytearray(b"third"))
    answer = {
        "responses": [{"topic": "t", "partitions": [{"partitionIndex": 3, "records": parts}]}]
    }
    before, between, after = kernel.write_message(fetch, 11, answer, b"head")
    assert between is elsewhere
    assert before.endswith((5 + 6 + 1000 + 5).to_bytes(4, "big") + b"firstsecond")
    assert before.startswith(b"head")
    assert after == b"third"
    alone, last = kernel.write_message(
        fetch, 11, {"responses": [{"topic": "t", "partitions": [{"records": (elsewhere,)}]}]}
    )
    assert last is elsewhere
    assert alone.endswith((1000).to_bytes(4, "big"))


@each_kernel
@pytest.mark.parametrize(
    ("message", "value", "error"),
    [
        (SHORT, 40_000, OverflowError),
        (TEXT, "\ud800", ValueError),
        (ID, "short", ValueError),
        (ID, "AAAA", ValueError),
    ],
)
def test_a_value_without_bytes_is_refused(
    kernel: ModuleType, message: Message, value: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        kernel.write_message(message, 0, {"field": value})
