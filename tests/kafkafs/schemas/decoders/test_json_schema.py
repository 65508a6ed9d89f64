"""Payloads with a JSON Schema are their JSON text."""

from __future__ import annotations

import pytest

from kafkafs.schemas.decoders.json_schema import JsonSchemaDecoder
from kafkafs.schemas.decoders.value_decoder import DecodedJson
from kafkafs.schemas.errors import UndecodableError

DECODER = JsonSchemaDecoder()


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{ "b": 1.50, "a": [ ] }\n', b'{"b":1.50,"a":[]}'),
        (b"[1, 2]", b"[1,2]"),
        (b' "text" ', b'"text"'),
        (b"12345678901234567890.10", b"12345678901234567890.10"),
        (b"null", b"null"),
        (b"true", b"true"),
        ('"\u202e"'.encode(), b'"\\u202e"'),
    ],
)
def test_the_text_is_shown_without_whitespace(payload: bytes, text: bytes) -> None:
    assert DECODER.json(payload) == DecodedJson(text)


def test_a_value_is_decoded() -> None:
    assert DECODER.decode(b'{"a": [1, null]}') == {"a": [1, None]}


@pytest.mark.parametrize(
    "payload",
    [b"", b"1,2", b"{", b'{"a":1} x', b"NaN", b"'a'", b"[" * 200, b'"\\ud800"', b"1" * 5000, b"]["],
)
def test_other_bytes_give_a_reason(payload: bytes) -> None:
    with pytest.raises(UndecodableError, match="the bytes are not one JSON value"):
        DECODER.json(payload)


def test_bytes_that_are_no_text_name_their_position() -> None:
    with pytest.raises(UndecodableError, match="the JSON is not UTF-8, at byte 2"):
        DECODER.json(b'{"\xff":1}')
