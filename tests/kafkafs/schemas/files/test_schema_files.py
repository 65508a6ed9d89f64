"""Schemas in files: what each kind of file says, how files refer to each other, and mappings."""

import json
import pickle
from pathlib import Path

import pytest

from kafkafs.schemas.catalog import facts
from kafkafs.schemas.errors import SchemaFileError
from kafkafs.schemas.files.proto_files import described_files, descriptor_set, imports_of
from kafkafs.schemas.files.schema_files import read_schema_files
from kafkafs.schemas.schema import Reference, SchemaKind
from kafkafs.schemas.store import SchemaStore
from tests.schema_records import LONG, NOW, STRING, schema_record, tombstone, written

ORDER = '{"type":"record","name":"shop.Order","fields":[{"name":"item","type":["null","Item"]}]}'
ITEM = '{"type":"record","name":"Item","namespace":"shop","fields":[{"name":"n","type":"int"}]}'
PROTO = 'syntax = "proto3"; package shop; import "common/money.proto"; message Order {}'
GUID = "89791762-2336-41cf-8093-1d48a5b4e3d7"


def write(folder: Path, **files: str | bytes) -> Path:
    """Write files by name; a __ stands for a slash, the last _ for the dot of the suffix."""
    for name, text in files.items():
        stem, _, suffix = name.replace("__", "/").rpartition("_")
        path = folder / f"{stem}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def described(name: str, *, imports: tuple[str, ...] = (), messages: tuple[str, ...] = ()) -> bytes:
    """A FileDescriptorProto of the package `shop`, by Protobuf's encoding."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    return b"".join(
        [
            *(field(1, name.encode()), field(2, b"shop")),
            *(field(3, each.encode()) for each in imports),
            *(field(4, field(1, each.encode())) for each in messages),
            field(12, b"proto3"),
        ]
    )


def test_each_suffix_has_its_kind(tmp_path: Path) -> None:
    store = read_schema_files(
        str(write(tmp_path, a_avsc=STRING, shop__b_proto=PROTO, c_json="{}", README_md="no schema"))
    )
    assert [(each.subject, each.version, each.kind) for each in store.schemas] == [
        ("a", 1, SchemaKind.AVRO),
        ("c", 1, SchemaKind.JSON_SCHEMA),
        ("shop/b", 1, SchemaKind.PROTOBUF),
    ]
    assert store.schemas[0].origin.path == str(tmp_path / "a.avsc")
    assert store.problems == ()


def test_files_that_differ_in_their_suffix_keep_it_and_their_mappings(tmp_path: Path) -> None:
    mapping = """
        topics.a.value = "order.avsc"
        topics.p.value = "order.proto"
        topics.s.value = { file = "sets.desc", message = "shop.Order" }
        ids = [{ id = 1, file = "order.avsc" }, { id = 2, file = "order.proto" }]
    """
    files = {"order_avsc": STRING, "order_proto": "", "order_json": "{}", "m_toml": mapping}
    described_order = descriptor_set([described("order.proto", messages=("Order",))])
    store = read_schema_files(str(write(tmp_path, **files, sets_desc=described_order)))
    assert store.subjects() == ["order.avsc", "order.json", "order.proto", "sets.desc/order.proto"]
    assert store.by_id(".", 1)[0].schema.kind is SchemaKind.AVRO
    assert store.by_id(".", 2)[0].schema.kind is SchemaKind.PROTOBUF
    for topic, subject in (
        ("a", "order.avsc"),
        ("p", "order.proto"),
        ("s", "sets.desc/order.proto"),
    ):
        found = store.bare(topic)
        assert found is not None
        assert found[1].schema.subject == subject


def test_an_avro_type_of_another_file_is_a_reference(tmp_path: Path) -> None:
    store = read_schema_files(str(write(tmp_path, order_avsc=ORDER, item_avsc=ITEM)))
    order = store.versions("order")[0]
    assert order.references == (Reference("shop.Item", "item", 1),)
    assert [(name, schema.text) for name, schema in store.resolved(order)] == [("shop.Item", ITEM)]


def test_an_import_is_a_reference_to_the_file_of_its_path(tmp_path: Path) -> None:
    store = read_schema_files(
        str(write(tmp_path, shop__order_proto=PROTO, common__money_proto='syntax = "proto3";'))
    )
    order = store.versions("shop/order")[0]
    assert order.references == (Reference("common/money.proto", "common/money", 1),)


def test_imports_are_told_from_comments_and_texts() -> None:
    text = r"""
        syntax = "proto3";  // import "no.proto";
        import public "a.proto"; import weak 'b.proto';
        /* import "no.proto"; */
        option x = "import \"no.proto\"; import 'no.proto';";
        import "a.proto";
    """
    assert imports_of(text) == ("a.proto", "b.proto")


def test_one_file_brings_the_files_that_it_imports(tmp_path: Path) -> None:
    write(
        tmp_path,
        order_proto=PROTO,
        common__money_proto='import "unit.proto"; import "google/protobuf/any.proto";',
        unit_proto="",
        other_proto="",
    )
    store = read_schema_files(str(tmp_path / "order.proto"))
    assert store.subjects() == ["common/money", "order", "unit"]


def test_a_descriptor_set_has_a_schema_for_each_file(tmp_path: Path) -> None:
    files = [
        described("google/protobuf/any.proto"),
        described("common/money.proto", messages=("Money",)),
        described("order.proto", imports=("common/money.proto", "google/protobuf/any.proto")),
    ]
    store = read_schema_files(str(write(tmp_path, all_desc=descriptor_set(files))))
    assert store.subjects() == ["common/money", "order"]
    assert store.versions("order")[0].references == (
        Reference("common/money.proto", "common/money", 1),
    )
    assert [file.messages for file in described_files(descriptor_set(files))] == [
        (),
        ("shop.Money",),
        (),
    ]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a_desc", b"\x0a\x05abc", "the descriptor set is cut off"),
        ("a_desc", b"\x07", "the bytes are no Protobuf message"),
        ("a_desc", b"", "the descriptor set has no files"),
        ("a_avsc", b"{", "Expecting property name"),
        ("a_avsc", b"[" * 99_999, "the schema is nested too deeply"),
        ("a_proto", b"\xff", "'utf-8' codec can't decode"),
        ("a_jsonl", b"{}\n\n7\n", "line 1 is not a schema: the field 'schemaType' is missing"),
    ],
)
def test_a_file_that_breaks_its_format_is_a_problem_and_costs_no_other(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    store = read_schema_files(str(write(tmp_path, **{name: data, "good_avsc": STRING})))
    assert store.subjects() == ["good"]
    assert store.problems[0].reason.startswith(reason)


def test_a_path_that_is_no_file_of_schemas_is_refused(tmp_path: Path) -> None:
    write(tmp_path, a_txt="")
    with pytest.raises(SchemaFileError, match="its name ends in none of"):
        read_schema_files(str(tmp_path / "a.txt"))
    with pytest.raises(FileNotFoundError):
        read_schema_files(str(tmp_path / "none.avsc"))


def test_the_catalog_of_an_export_is_read_whole(tmp_path: Path) -> None:
    store = written(
        tmp_path / "log",
        schema_record(
            id_=1,
            references=[{"name": "x", "subject": "y", "version": 1}],
            metadata={"properties": {"a": "b"}},
            ruleSet={"domainRules": []},
        ),
        tombstone(timestamp=NOW + 5),
        schema_record("items", 2, 2, LONG, deleted=True),
    )
    lines = [json.dumps(facts(schema)) for schema in store.schemas]
    write(tmp_path / "out", schemas_jsonl="\n".join(lines), ignored_avsc=STRING)
    again = read_schema_files(str(tmp_path / "out"))
    assert [facts(schema) for schema in again.schemas] == [facts(each) for each in store.schemas]
    assert [each.origin for each in again.schemas] == [each.origin for each in store.schemas]
    assert again.by_id(".", 2)[0].schema.text == LONG


def test_a_file_named_after_a_topic_has_its_bare_values(tmp_path: Path) -> None:
    store = read_schema_files(
        str(write(tmp_path, **{"orders-value_avsc": STRING, "sub__orders-key_avsc": LONG}))
    )
    value, key = store.bare("orders"), store.bare("orders", is_key=True)
    assert value is not None
    assert key is not None
    assert (value[1].schema.text, key[1].schema.text) == (STRING, LONG)
    assert store.bare("items") is None


MAPPING = """
[topics.orders]
key = "key.avsc"
value = { file = "sub/all.desc", message = "shop.Money.Unit" }

[topics."pay*"]
value = { subject = "payments-value", version = 3 }

[[ids]]
id = 7
file = "key.avsc"

[[ids]]
guid = "89791762-2336-41CF-8093-1d48a5b4e3d7"
file = "key.avsc"
"""
SET = descriptor_set([described("money.proto", messages=("Money",)), described("order.proto")])


def mapped(folder: Path) -> Path:
    return write(folder, schemas_toml=MAPPING, key_avsc=STRING, sub__all_desc=SET, other_avsc=LONG)


def check_mapping(store: SchemaStore) -> None:
    key, value = store.bare("orders", is_key=True), store.bare("orders")
    assert key is not None
    assert value is not None
    assert key[1].schema.subject == "key"
    assert (value[1].schema.subject, value[0].message) == ("money", "shop.Money.Unit")
    assert store.by_id(".", 7)[0].schema.text == STRING
    assert store.by_guid(GUID)[0].schema.text == STRING


def test_a_mapping_names_files_of_its_directory(tmp_path: Path) -> None:
    store = read_schema_files(str(mapped(tmp_path)))
    check_mapping(store)
    assert store.subjects() == ["key", "money", "order", "other"]


def test_a_mapping_alone_reads_only_the_files_that_it_names(tmp_path: Path) -> None:
    store = read_schema_files(str(mapped(tmp_path) / "schemas.toml"))
    check_mapping(store)
    assert store.subjects() == ["key", "money", "order"]


def test_a_mapping_may_name_a_subject_of_another_source(tmp_path: Path) -> None:
    mapping = read_schema_files(str(mapped(tmp_path / "files") / "schemas.toml"))
    assert mapping.bare("payments") is None
    registry = written(tmp_path / "log", schema_record("payments-value", 3, 9))
    found = SchemaStore.union([mapping, registry]).bare("payments")
    assert found is not None
    assert found[1].schema.id == 9


def test_a_mapping_may_name_a_message_of_values_that_name_their_schema(tmp_path: Path) -> None:
    text = "[topics.'pay*']\nvalue = {message='shop.Paid'}\n[topics.'*']\nvalue = {message='A'}"
    mapping = read_schema_files(str(write(tmp_path, schemas_toml=text) / "schemas.toml"))
    for store in (mapping, pickle.loads(pickle.dumps(mapping)), mapping.as_of(0)):
        assert store.message_of_columns("payments") == "shop.Paid"
        assert store.message_of_columns("orders") == "A"
        assert store.message_of_columns("payments", is_key=True) is None
        assert not store.may_be_bare("payments")
        assert store.bare("payments") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("topics", "not a mapping of topics"),
        ("[other]", "the unknown field 'other'; known are topics, ids, files"),
        ("[topics.a]\nvalues = 'a.avsc'", "the unknown field 'values'; known are key, value"),
        ("[topics.a]\nvalue = 7", "7 is not a table"),
        ("[topics.a]\nvalue = {}", "must name either a file or a subject"),
        ("[topics.a]\nvalue = {subject='a', version=0}", "0 is not a version"),
        ("[topics.a]\nvalue = {message='A', version=1}", "must name either a file or a subject"),
        ("[topics.a]\nvalue = {message=7}", "message = 7 is not a text"),
        ("[topics.a]\nvalue = {file=7}", "file = 7 is not a text"),
        ("[topics.'/(/']\nvalue = 'a.avsc'", "is not a regular expression"),
        ("[topics]\na = 7", "7 is not a table"),
        ("topics = 7", "not a mapping of topics"),
        ("[[ids]]\nfile = 'a.avsc'", "must have either an id or a guid"),
        ("[[ids]]\nid = -1\nfile = 'a.avsc'", "-1 is not an id"),
        ("[[ids]]\nid = 1", "None is not the path of a file"),
        ("[[ids]]\nguid = 'x'\nfile = 'a.avsc'", "badly formed hexadecimal UUID"),
        ("files = ['none.avsc']", "names none.avsc: "),
        ("files = ['../a.avsc']", "names ../a.avsc: "),
        ("[topics.a]\nvalue = 'none.avsc'", "names none.avsc"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_a_mapping_that_breaks_its_format_is_refused(
    tmp_path: Path, text: str, reason: str, alone: bool
) -> None:
    write(tmp_path, schemas_toml=text, a_avsc=STRING)
    with pytest.raises(SchemaFileError) as caught:
        read_schema_files(str(tmp_path / "schemas.toml" if alone else tmp_path))
    assert reason in str(caught.value)
    assert str(tmp_path / "schemas.toml") in str(caught.value)
