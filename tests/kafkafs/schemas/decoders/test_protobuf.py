"""Protobuf payloads: decoded as `google.protobuf.json_format` prints them, and refused with a reason."""

from __future__ import annotations

import builtins
import json
import time
from base64 import b64encode
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, json_format
from google.protobuf.message_factory import GetMessageClass

from kafkafs.schemas.decoders.protobuf import ProtobufDecoder
from kafkafs.schemas.errors import UndecodableError

OTHER = """
    syntax = "proto2"; package dir;
    message Other {
      required bytes b = 1; optional Kind kind = 2 [default = TWO]; optional int32 n = 3;
      enum Kind { ONE = 1; TWO = 2; }
      extensions 100 to 200;
    }
    extend Other { optional int32 more = 100; }
"""
ALL = """
    syntax = "proto3"; package shop;
    import "google/protobuf/any.proto"; import "google/protobuf/timestamp.proto";
    import "google/protobuf/duration.proto"; import "google/protobuf/field_mask.proto";
    import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
    import "google/protobuf/empty.proto"; import "google/type/money.proto";
    import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "dir/other.proto";
    message Order {
      message Line { string the_name = 1; repeated float prices = 2; message Deep { bool x = 1; } }
      int64 id = 1; uint64 big = 2; sint32 n = 3; double d = 4; float f = 5; bool yes = 6;
      string text = 7 [(confluent.field_meta) = {doc: "x"}]; bytes raw = 8;
      Color color = 9; optional int32 maybe = 10; repeated int32 many = 11; repeated Line lines = 12;
      map<int32, Line> by_number = 13; map<bool, string> by_flag = 14; map<string, int64> by_name = 15;
      oneof choice { Line one = 16; string other = 17; }
      google.protobuf.Any any = 18; google.protobuf.Timestamp at = 19;
      google.protobuf.Duration took = 20; google.protobuf.FieldMask mask = 21;
      google.protobuf.Int64Value boxed = 22; google.protobuf.BytesValue boxed_bytes = 23;
      google.protobuf.Struct struct = 24; google.protobuf.Value value = 25;
      google.protobuf.ListValue list = 26; google.protobuf.Empty empty = 27;
      google.protobuf.NullValue nothing = 28; google.type.Money money = 29;
      confluent.type.Decimal decimal = 30; dir.Other old = 31; repeated Color colors = 32;
    }
    enum Color { RED = 0; GREEN = 1; }
    message Second { int32 a = 1; }
"""
REFERENCES = [("dir/other.proto", OTHER)]


@pytest.fixture(scope="module")
def decoder() -> ProtobufDecoder:
    return ProtobufDecoder(ALL, REFERENCES)


def expected(decoder: ProtobufDecoder, message: Any) -> Any:
    pool = decoder._linked.pool
    found = json_format.MessageToDict(
        message, always_print_fields_with_no_presence=True, descriptor_pool=pool
    )
    if "old" in found:  # Java shows defaults of proto2, too
        found["old"] = {"kind": "TWO", "n": 0, **found["old"]}
    return found


def filled(decoder: ProtobufDecoder) -> Any:
    """A message with every field."""
    order = GetMessageClass(decoder.descriptor())()
    line = GetMessageClass(decoder.descriptor((0, 0)))(the_name="n", prices=[0.1, 1e30, -0.0])
    text = {
        "id": "-5", "big": str(2**64 - 1), "n": -3, "d": "NaN", "f": 0.1, "yes": True,
        "text": "é\u202e", "raw": "AP8=", "color": "GREEN", "maybe": 0, "many": [1, 2],
        "lines": [{"theName": "a"}, {}], "byNumber": {"7": {"prices": ["Infinity"]}, "-1": {}},
        "byFlag": {"true": "x", "false": ""}, "byName": {"k": "9"}, "other": "",
        "at": "2023-11-14T22:13:20.123456789Z", "took": "-1.500s", "mask": "aB,c", "boxed": "8",
        "boxedBytes": "AA==", "struct": {"a": [1, None, "x", {"b": True}]}, "value": None,
        "list": [[], {}], "empty": {}, "money": {"currencyCode": "EUR", "units": "3"},
        "decimal": {"value": "BNI=", "precision": 4, "scale": 2}, "colors": ["RED", 7],
        "old": {"b": "MTI="},
    }  # fmt: skip
    json_format.ParseDict(text, order)
    order.any.Pack(line)
    more = order.old.DESCRIPTOR.file.extensions_by_name["more"]
    order.old.Extensions[more] = 4
    return order


def test_every_kind_of_field_is_printed_as_json_format_does(decoder: ProtobufDecoder) -> None:
    order = filled(decoder)
    found = decoder.decode(order.SerializeToString())
    assert found == expected(decoder, order)
    assert json.loads(decoder.json(order.SerializeToString()).text) == found
    assert found["old"]["[dir.more]"] == 4


def test_fields_without_presence_are_shown_with_their_defaults(decoder: ProtobufDecoder) -> None:
    found = decoder.decode(b"")
    assert found == expected(decoder, GetMessageClass(decoder.descriptor())())
    assert (found["id"], found["color"], found["byName"]) == ("0", "RED", {})
    assert not {"maybe", "other", "at", "old"} & set(found)


def test_fields_come_in_the_order_of_their_numbers(decoder: ProtobufDecoder) -> None:
    names = [field.json_name for field in decoder.descriptor().fields]
    assert list(decoder.decode(filled(decoder).SerializeToString())) == [
        name for name in names if name != "one"
    ]


@pytest.mark.parametrize(
    "name", ["Timestamp", "Duration", "Int64Value", "Struct", "Value", "Empty"]
)
def test_an_any_with_a_well_known_type_has_a_value(decoder: ProtobufDecoder, name: str) -> None:
    order = GetMessageClass(decoder.descriptor())()
    kind = decoder._linked.pool.FindMessageTypeByName(f"google.protobuf.{name}")
    inner = GetMessageClass(kind)()
    if name == "Value":
        inner.string_value = "x"
    order.any.Pack(inner)
    found = decoder.decode(order.SerializeToString())["any"]
    assert found == expected(decoder, order)["any"]


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (None, "shop.Order"), ((0,), "shop.Order"), ((1,), "shop.Second"), ((0, 0), "shop.Order.Line"),
        ((0, 0, 0), "shop.Order.Line.Deep"), ("shop.Second", "shop.Second"), ("Line", "shop.Order.Line"),
        (0, "shop.Order"), (5, "shop.Order.Line.Deep"),
    ],
)  # fmt: skip
def test_a_message_is_found_by_indexes_number_or_name(
    decoder: ProtobufDecoder, message: Any, name: str
) -> None:
    assert decoder.descriptor(message).full_name == name


@pytest.mark.parametrize("message", [(9,), (0, 9), (0, 0, 0, 0), (-1,), 99, "no.Such"])
def test_a_message_that_is_missing_gives_a_reason(decoder: ProtobufDecoder, message: Any) -> None:
    with pytest.raises(UndecodableError, match="the schema has no message"):
        decoder.json(b"", message)


def test_unknown_fields_and_groups_are_left_out() -> None:
    decoder = ProtobufDecoder('syntax = "proto3"; message A { int32 a = 1; }')
    assert decoder.decode(b"\x08\x01\x10\x02\x1b\x08\x07\x1c") == {"a": 1}


def test_a_file_without_syntax_is_proto2(capfd: pytest.CaptureFixture[str]) -> None:
    decoder = ProtobufDecoder("message A { optional int32 a = 1 [default = 3]; }")
    assert decoder.decode(b"") == {"a": 3}
    assert capfd.readouterr().err == ""


def test_a_descriptor_in_base64_is_a_schema_and_a_reference() -> None:
    texts = ProtobufDecoder(ALL, REFERENCES)
    pool = texts._linked.pool

    def in_base64(name: str) -> str:
        proto = descriptor_pb2.FileDescriptorProto()
        pool.FindFileByName(name).CopyToProto(proto)
        return b64encode(proto.SerializeToString()).decode()

    binary = ProtobufDecoder(
        in_base64("main.proto"), [("dir/other.proto", in_base64("dir/other.proto"))]
    )
    mixed = ProtobufDecoder(in_base64("main.proto"), REFERENCES)
    data = filled(texts).SerializeToString()
    assert binary.decode(data) == mixed.decode(data) == texts.decode(data)


IMPORTED = """
    syntax = "proto2"; package dir; import "google/protobuf/descriptor.proto";
    import "dir/deep.proto";
    message Base { optional int32 n = 1; map<string, Deep> deep = 2; extensions 10 to 20; enum Size { S = 3; L = 5; } }
    extend google.protobuf.FieldOptions { optional Base note = 50000; }
"""
DEEP = 'syntax = "proto3"; package dir; message Deep { optional bool b = 1; }'
IMPORTING = """
    syntax = "proto2"; import "dir/base.proto";
    message A { optional dir.Base base = 1; optional dir.Base.Size size = 2 [default = L, (dir.note) = {n: 4}]; }
    extend dir.Base { optional string more = 11; }
"""


def in_base64(text: str, references: list[tuple[str, str]]) -> str:
    linked = ProtobufDecoder(text, references)._linked
    proto = descriptor_pb2.FileDescriptorProto()
    linked.file.CopyToProto(proto)
    return b64encode(proto.SerializeToString()).decode()


@pytest.mark.parametrize("deep", ["text", "base64"])
@pytest.mark.parametrize("base", ["text", "base64"])
def test_a_text_imports_a_descriptor_in_base64(
    base: str, deep: str, capfd: pytest.CaptureFixture[str]
) -> None:
    deep_reference = ("dir/deep.proto", DEEP if deep == "text" else in_base64(DEEP, []))
    imported = IMPORTED if base == "text" else in_base64(IMPORTED, [deep_reference])
    decoder = ProtobufDecoder(IMPORTING, [deep_reference, ("dir/base.proto", imported)])
    data = b"\x0a\x11\x08\x07\x12\x07\x0a\x01k\x12\x02\x08\x01\x5a\x04more"
    assert decoder.decode(data) == {
        "base": {"n": 7, "deep": {"k": {"b": True}}, "[more]": "more"}, "size": "L",
    }  # fmt: skip
    assert capfd.readouterr().err == ""


def test_an_error_beside_a_descriptor_in_base64_has_a_reason(
    capfd: pytest.CaptureFixture[str],
) -> None:
    references = [("dir/deep.proto", in_base64(DEEP, []))]
    with pytest.raises(UndecodableError, match=r"does not compile: main\.proto.*Missing"):
        ProtobufDecoder(
            'import "dir/deep.proto"; message A { required Missing m = 1; }', references
        )
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["--python_out=.", "@options"])
def test_an_import_is_no_option_of_protoc(name: str) -> None:
    main = descriptor_pb2.FileDescriptorProto(name="m.proto", dependency=[name])
    text = b64encode(main.SerializeToString()).decode()
    with pytest.raises(UndecodableError, match="an import has the name"):
        ProtobufDecoder(text, [("b.proto", in_base64(DEEP, [])), ("c.proto", DEEP)])


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.startswith(("google", "grpc_tools")):
            raise ModuleNotFoundError("no", name=name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UndecodableError, match=r"pip install 'kafkafs\[schemas\]'"):
        ProtobufDecoder(ALL, REFERENCES)


# -- hostile bytes and schemas ---------------------------------------------------------------------

HEAD = 'syntax = "proto3"; '


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the schema has no message 0"),
        ("message", "the schema does not compile: main.proto"),
        (HEAD + 'import "no.proto"; message A {}', "no.proto"),
        (HEAD + 'import "../../etc/passwd"; message A {}', "does not compile"),
        (HEAD + 'import "main.proto"; message A {}', "recursively imports itself"),
        (HEAD + "message A {" * 10_000, "maximum recursion limit"),
        (HEAD + "message A { Missing m = 1; }", '"Missing" is not defined'),
        (HEAD + "x" * 5_000_000, "characters, the limit is"),
        (b64encode(b"\x0a\x01a\x1a\x01b").decode(), "b:-1:0 error: File not found"),
    ],
    ids=range(9),
)
def test_hostile_schemas_give_a_reason(
    text: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UndecodableError) as caught:
        ProtobufDecoder(text).json(b"")
    assert reason in caught.value.reason
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "text", ["\n" * 4_000_000, "bytes a=1[" * 400_000, "bytes a=1[" + " " * 4_000_000]
)
def test_a_long_text_takes_no_more_than_its_size(text: str) -> None:
    start = time.process_time()
    with pytest.raises(UndecodableError):
        ProtobufDecoder(text).json(b"")
    assert time.process_time() - start < 20


@pytest.mark.parametrize("name", ["../a.proto", "/etc/a.proto", "a//b.proto", "", "a\0b", "a\\b"])
def test_a_reference_outside_of_the_folder_is_refused(name: str) -> None:
    with pytest.raises(UndecodableError, match="an import has the name"):
        ProtobufDecoder(ALL, [(name, OTHER)])


def test_hostile_bytes_give_a_reason(decoder: ProtobufDecoder) -> None:
    node = ProtobufDecoder(HEAD + "message N { N next = 1; }")
    nested = b""
    for _ in range(200):
        nested = b"\x0a" + _varint(len(nested)) + nested
    for each, data, reason in (
        (decoder, b"\x08\xff", "the bytes are no message shop.Order"),
        (decoder, b"\x3a\x02\xff\xff", "the bytes are no message shop.Order"),
        (node, nested, "the bytes are no message N"),
        (decoder, bytes(5_000_000), "bytes are not decoded"),
    ):
        with pytest.raises(UndecodableError) as caught:
            each.json(data)
        assert reason in caught.value.reason


def test_defaults_of_many_messages_cost() -> None:
    fields = "".join(f"int32 field_with_a_long_name_{n} = {n + 1};" for n in range(1000))
    decoder = ProtobufDecoder(HEAD + f"message A {{ repeated B b = 1; }} message B {{ {fields} }}")
    with pytest.raises(UndecodableError, match="more than 67108864 bytes of JSON"):
        decoder.json(b"\x0a\x00" * 1_000_000)


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7]) if number > 0x7F else bytes([number])


@pytest.mark.parametrize(
    ("messages", "main"),
    [
        ("message A { } message B { }", (0,)),
        ("message Item { } message Order { repeated Item items = 1; }", (1,)),
        ("message A { message In { } } message B { A.In in = 1; }", (1,)),
        ("message A { A next = 1; In in = 2; message In { A up = 1; } } message B { }", (0,)),
        ("message A { B b = 1; } message B { A a = 1; }", (0,)),
    ],
)
def test_the_main_message_is_the_first_that_no_other_holds(
    messages: str, main: tuple[int, ...]
) -> None:
    assert ProtobufDecoder(f'syntax = "proto3"; {messages}').main_message() == main
