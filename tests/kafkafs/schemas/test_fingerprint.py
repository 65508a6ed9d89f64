"""The CRC-64-AVRO fingerprint, by the vectors of Avro's own share/test/data/schema-tests.txt."""

import pytest

from kafkafs.schemas.fingerprint import fingerprint_of
from kafkafs.schemas.schema import Schema, SchemaKind


@pytest.mark.parametrize(
    ("text", "fingerprint"),
    [
        ('"null"', 7195948357588979594),
        ('{"type":"boolean"}', -6970731678124411036),
        ('"int"', 8247732601305521295),
        ('"string"', -8142146995180207161),
        ("[]", -1241056759729112623),
        ('[ "int" , {"type":"boolean"} ]', 5392556393470105090),
        ('{"type":"fixed","name":"foo","size":15}', 1756455273707447556),
        (
            '{"fields":[{"type":{"type":"boolean"},"name":"f1"}],"doc":"d","type":"record","name":"foo"}',
            7843277075252814651,
        ),
        (
            '{"type":"record","name":"PigValue","fields":[{"name":"value","type":["null","int","long","PigValue"]}]}',
            -1759257747318642341,
        ),
    ],
)
def test_a_fingerprint_is_the_one_of_avros_own_tests(text: str, fingerprint: int) -> None:
    assert fingerprint_of(Schema(SchemaKind.AVRO, text)) == fingerprint & 0xFFFFFFFFFFFFFFFF


def test_names_get_the_namespace_that_they_are_in() -> None:
    short = '{"type":"record","name":"a.B","fields":[{"name":"x","type":["null","B"]}]}'
    long = (
        '{"type":"record","name":"B","namespace":"a","fields":[{"name":"x","type":["null","a.B"]}]}'
    )
    first, second = (fingerprint_of(Schema(SchemaKind.AVRO, text)) for text in (short, long))
    assert first == second


@pytest.mark.parametrize(
    "text", ["{", "7", "{}", '{"type":"record","name":"x","fields":7}', "[" * 9999]
)
def test_a_text_that_is_no_schema_has_none(text: str) -> None:
    assert fingerprint_of(Schema(SchemaKind.AVRO, text)) is None
