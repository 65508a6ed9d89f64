"""The wire forms, from bytes written by hand after the sources of each registry's serializers."""

import zlib
from uuid import UUID

import pytest

from engine.record.record import Header
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import Form, Framing, framings, payload
from kafkafs.schemas.schema import SchemaKind

GUID = "89791762-2336-41cf-8093-1d48a5b4e3d7"
GUID_BYTES = UUID(GUID).bytes
AVRO, PROTOBUF = SchemaKind.AVRO, SchemaKind.PROTOBUF


def first(data: bytes, *headers: Header, is_key: bool = False) -> Framing:
    return next(framings(data, headers, is_key=is_key))


def test_confluents_prefix_is_a_zero_and_an_id_of_four_bytes() -> None:
    data = b"\x00\x00\x00\x00\x07payload"
    framing = first(data)
    assert (framing.form, framing.id) == (Form.CONFLUENT, 7)
    assert payload(data, framing, AVRO) == (b"payload", 5, None)


def test_a_prefix_may_also_be_apicurios_id_of_eight_bytes() -> None:
    data = b"\x00" + (70_000_000_000).to_bytes(8, "big") + b"payload"
    framing = list(framings(data))[1]
    assert (framing.form, framing.id) == (Form.APICURIO, 70_000_000_000)
    assert payload(data, framing, AVRO) == (b"payload", 9, None)


def test_a_one_and_sixteen_bytes_are_confluents_guid() -> None:
    data = b"\x01" + GUID_BYTES + b"payload"
    framing = first(data)
    assert (framing.form, framing.guid) == (Form.CONFLUENT_GUID, GUID)
    assert payload(data, framing, AVRO).data == b"payload"


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x00", b"\x01" * 16, b"\x03\x00", b"{}"])
def test_other_bytes_have_no_form(data: bytes) -> None:
    assert list(framings(data)) == []


@pytest.mark.parametrize(
    ("is_key", "name"), [(False, b"__value_schema_id"), (True, b"__key_schema_id")]
)
def test_a_header_of_confluent_comes_before_the_prefix(is_key: bool, name: bytes) -> None:
    header = Header(name, b"\x01" + GUID_BYTES)
    data = b"\x00\x00\x00\x00\x07payload"
    forms = list(framings(data, [header], is_key=is_key))
    assert [each.form for each in forms[:2]] == [Form.CONFLUENT_HEADER, Form.CONFLUENT]
    assert forms[0].guid == GUID
    assert payload(data, forms[0], AVRO) == (data, 0, None)
    assert first(data, header, is_key=not is_key).form is Form.CONFLUENT


def test_the_last_of_several_headers_wins() -> None:
    headers = [
        Header(b"__value_schema_id", b"\x01" + bytes(16)),
        Header(b"__value_schema_id", b"\x01" + GUID_BYTES),
    ]
    assert first(b"payload", *headers).guid == GUID


def test_a_last_header_without_a_value_leaves_the_prefix() -> None:
    headers = [
        Header(b"__value_schema_id", b"\x01" + GUID_BYTES),
        Header(b"__value_schema_id", None),
    ]
    assert first(b"\x00\x00\x00\x00\x07x", *headers).form is Form.CONFLUENT


def test_a_header_may_have_an_id_in_place_of_a_guid() -> None:
    framing = first(b"payload", Header(b"__value_schema_id", b"\x00\x00\x00\x00\x09"))
    assert (framing.form, framing.id) == (Form.CONFLUENT_HEADER, 9)


@pytest.mark.parametrize(
    ("written", "indexes"),
    [
        (b"\x00", (0,)),
        (b"\x02\x00", (0,)),
        (b"\x02\x04", (2,)),
        (b"\x04\x02\x06", (1, 3)),
        (b"\x02\x80\x02", (128,)),
    ],
)
def test_message_indexes_stand_before_a_protobuf_payload(
    written: bytes, indexes: tuple[int, ...]
) -> None:
    data = b"\x00\x00\x00\x00\x07" + written + b"payload"
    assert payload(data, first(data), PROTOBUF) == (b"payload", 5 + len(written), indexes)


def test_message_indexes_of_a_header_stand_in_the_header() -> None:
    header = Header(b"__value_schema_id", b"\x01" + GUID_BYTES + b"\x04\x02\x06")
    assert payload(b"payload", first(b"payload", header), PROTOBUF) == (b"payload", 0, (1, 3))


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (b"", "cut off"),
        (b"\x04\x02", "cut off"),
        (b"\x01", "-1 message indexes"),
        (b"\xfe\xff\xff\xff\x0f", "2147483647 message indexes"),
        (b"\x02\x01", "-1 is negative"),
        (b"\xff\xff\xff\xff\xff\xff", "too long"),
    ],
)
def test_damaged_message_indexes_are_refused(written: bytes, reason: str) -> None:
    data = b"\x00\x00\x00\x00\x07" + written
    with pytest.raises(UndecodableError, match=reason):
        payload(data, first(data), PROTOBUF)


def test_a_ref_of_apicurio_names_the_message() -> None:
    ref = b"\x0a\x05Order"
    data = b"\x00\x00\x00\x00\x07" + bytes([len(ref)]) + ref + b"payload"
    assert payload(data, first(data), PROTOBUF) == (b"payload", 13, "Order")


def test_apicurios_headers_have_an_id_of_eight_bytes_and_the_message() -> None:
    headers = [
        Header(b"apicurio.value.contentId", (5).to_bytes(8, "big")),
        Header(b"apicurio.protobuf.type", b"Order"),
    ]
    framing = first(b"payload", *headers)
    assert (framing.form, framing.id) == (Form.APICURIO_HEADER, 5)
    assert payload(b"payload", framing, PROTOBUF) == (b"payload", 0, "Order")


def test_apicurios_headers_may_name_the_artifact() -> None:
    headers = [
        Header(b"apicurio.value.groupId", b"shop"),
        Header(b"apicurio.value.artifactId", b"orders-value"),
        Header(b"apicurio.value.version", b"2"),
    ]
    assert first(b"payload", *headers).artifact == ("shop", "orders-value", "2")


@pytest.mark.parametrize("compression", [0, 5])
def test_glue_has_a_uuid_and_a_payload_perhaps_compressed(compression: int) -> None:
    written = zlib.compress(b"payload") if compression else b"payload"
    data = b"\x03" + bytes([compression]) + GUID_BYTES + written
    framing = first(data)
    assert (framing.form, framing.guid) == (Form.GLUE, GUID)
    assert payload(data, framing, AVRO).data == b"payload"


def test_glue_has_one_index_before_a_protobuf_payload() -> None:
    data = b"\x03\x00" + GUID_BYTES + b"\x02payload"
    assert payload(data, first(data), PROTOBUF) == (b"payload", 19, 2)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (zlib.compress(bytes(100_000)), "larger than 1000 bytes"),
        (zlib.compress(b"payload")[:-1], "cut off"),
        (b"payload", "damaged"),
    ],
)
def test_compressed_bytes_that_are_too_large_or_damaged_are_refused(
    written: bytes, reason: str
) -> None:
    data = b"\x03\x05" + GUID_BYTES + written
    with pytest.raises(UndecodableError, match=reason):
        payload(data, first(data), AVRO, limit=1000)


def test_an_avro_file_and_a_single_object_are_known_by_their_magic() -> None:
    assert first(b"Obj\x01rest").form is Form.AVRO_FILE
    single = first(b"\xc3\x01\x07\x00\x00\x00\x00\x00\x00\x80payload")
    assert (single.form, single.fingerprint, single.start) == (
        Form.AVRO_SINGLE_OBJECT,
        0x8000000000000007,
        10,
    )
