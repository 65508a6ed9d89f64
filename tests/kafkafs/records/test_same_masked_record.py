"""A record is the same record in each form: forms, fates, masks, codecs and schemas, generated and compared.

The truth is the script that the log is written from, and what a policy leaves of its plain objects, written out here. With
a mask, no form, no statistics and no error has the canary in any encoding.
"""

from __future__ import annotations

import base64
import gzip
import hmac
import io
import json
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import cbor2
import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kafkafs
from engine.log.log_directory import open_source
from kafkafs.cli import cli
from kafkafs.masking.policy import MaskPolicy
from kafkafs.tree.tree import Tree, TreeOptions
from tests.kafkafs.masked_source import CANARY, KEY, found_in
from tests.kafkafs.records.test_same_record import CONTROL, ISOLATION, NAME, Log, Script
from tests.kafkafs.tree.test_masked_tree import shown
from tests.schema_records import schema_record, write_topic

SEED = int(os.environ.get("KAFKAFS_RECORDS_SEED", "1"))
RAW = b"\xff\xff\xff" + CANARY.encode()
"""Bytes that no schema here decodes."""
OBJECTS = [
    {"id": place + 1, "name": f"n{place}", "cardNo": f"{CANARY}{place}"} for place in range(6)
]
KEYS = (b"k1", CANARY.encode(), None)
AVRO = {
    "type": "record", "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "cardNo", "type": "string"}],
}  # fmt: skip
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string name = 2; string card_no = 3; }'


class Wire(NamedTuple):
    """How values are encoded.

    Attributes:
        encode: makes the bytes of an object.
        encoding: what a record line says of it.
        files: schema files by name.
        has_numbers_as_text: whether an int64 is a string of JSON.
    """

    encode: Callable[[dict[str, Any]], bytes]
    encoding: str
    files: Mapping[str, str] = MappingProxyType({})
    has_numbers_as_text: bool = False

    def shown(self, value: bytes | None) -> Any:
        """The object of bytes of the log; None for bytes that are none."""
        found = {self.encode(each): each for each in OBJECTS}.get(value or b"")
        return {**found, "id": str(found["id"])} if found and self.has_numbers_as_text else found


def plain(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def avro(value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, value)
    return out.getvalue()


def protobuf(value: dict[str, Any]) -> bytes:
    texts = ((0x12, value["name"].encode()), (0x1A, value["cardNo"].encode()))
    return bytes((0x08, value["id"])) + b"".join(
        bytes((tag, len(text))) + text for tag, text in texts
    )


def mapping(kind: str) -> dict[str, str]:
    return {"types.toml": f'[topics.orders]\nvalue = {{ type = "{kind}" }}\n'}


WIRES = {
    "json": Wire(plain, "json"),
    "avro": Wire(avro, "avro", {"orders-value.avsc": json.dumps(AVRO)}),
    "registry": Wire(lambda value: b"\0\0\0\0\x07" + avro(value), "avro"),
    "protobuf": Wire(protobuf, "protobuf", {"orders-value.proto": PROTO}, has_numbers_as_text=True),
    "gzip": Wire(lambda value: gzip.compress(plain(value), mtime=0), "gzip/json", mapping("gzip/json")),
    "cbor": Wire(cbor2.dumps, "cbor", mapping("cbor")),
}  # fmt: skip


def hashed(data: str | bytes) -> str:
    return hmac.new(
        KEY.encode(), data.encode() if isinstance(data, str) else data, "sha256"
    ).hexdigest()


class Left(NamedTuple):
    """What is left of a key or value: an object, a text, bytes or None; and what was done to all of it."""

    shown: Any
    done: str | None = None


Rule: TypeAlias = Callable[[Any], Left]


def _drop(value: dict[str, Any]) -> Left:
    return Left({name: each for name, each in value.items() if name != "cardNo"})


MASKS: dict[str, tuple[str, Rule]] = {
    "drop": ('".value.cardNo" = "drop"', _drop),
    "hash": ('".value.cardNo" = "hash"', lambda value: Left({**value, "cardNo": hashed(value["cardNo"])})),
    "replace": ('".value.cardNo" = { replace = "x" }', lambda value: Left({**value, "cardNo": "x"})),
    "whole": (
        '".value" = "hash"',
        lambda value: Left(hashed(json.dumps(value, sort_keys=True, separators=(",", ":"))), "hashed"),
    ),
    "none": ("", Left),
}  # fmt: skip
"""The fields of a policy, and what it leaves of an object."""


class Case(NamedTuple):
    """A log, how its values are encoded, and the options of what reads it."""

    log: Log
    wire: Wire
    mask: str
    folder: Path

    @property
    def policy(self) -> Path | None:
        return self.folder / f"{self.mask}.toml" if self.mask != "none" else None

    @property
    def schemas(self) -> list[str]:
        return [str(self.folder / name) for name in self.wire.files]

    def run(self, *words: object, taken: bytes = b"") -> str:
        """Run a command; with a mask neither its output nor `taken` of a file may have the canary."""
        masked = [] if self.policy is None else ["--mask", self.policy]
        done = CliRunner().invoke(cli, list(map(str, [*words, *masked])))
        assert done.exit_code in (0, 1), done.output
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        if masked:
            assert found_in(done.stdout_bytes + done.stderr_bytes + taken) == []
        return done.stdout

    def decoded(self, *words: object) -> str:
        return self.run(*words, *(word for each in self.schemas for word in ("--schemas", each)))

    def opened(self) -> Any:
        return closing(
            kafkafs.open(self.log.path, mask=self.policy, schemas=self.schemas or "auto")
        )

    def left(self, value: bytes | None) -> Left:
        """What the policy leaves of a value."""
        if value is None:
            return Left(None)
        found = self.wire.shown(value)
        if found is not None:
            return MASKS[self.mask][1](found)
        if self.mask == "none":
            return Left(value)
        return Left(hashed(value), "hashed") if self.mask == "whole" else Left(None, "unreadable")

    def truth(self, *, committed: bool) -> list[Made]:
        def key(data: bytes | None) -> Left:
            text = None if data is None else data.decode()
            is_hashed = self.policy is not None and text is not None
            return Left(hashed(text or ""), "hashed") if is_hashed else Left(text)

        return [
            Made(each.offset, key(each.key), self.left(each.value), each.state)
            for each in self.log.seen(committed=committed)
        ]


class Made(NamedTuple):
    """A record as it is seen."""

    offset: int
    key: Left
    value: Left
    state: str | None


# Forms


def of_lines(text: str) -> list[Made]:
    def left(line: dict[str, Any], side: str) -> Left:
        shown = line.get(side)
        if line.get(f"{side}Encoding") == "base64":
            shown = base64.b64decode(shown)
        return Left(shown, line.get(f"{side}Masked"))

    return [
        Made(line["offset"], left(line, "key"), left(line, "value"), line.get("transaction", {}).get("state"))
        for line in map(json.loads, text.splitlines())
        if CONTROL not in line and "offset" in line and line.get("type") in (None, "record")
    ]  # fmt: skip


COLUMNS = [
    "offset",
    "transaction",
    "key",
    "value",
    "decodedKey",
    "decodedValue",
    "keyNote",
    "valueNote",
]

QUERY = f"select {', '.join(json.dumps(each) for each in COLUMNS)} from orders"


def of_rows(rows: list[dict[str, Any]], case: Case) -> list[Made]:
    def left(row: dict[str, Any], side: str) -> Left:
        data, text, note = (row[name] for name in (side, f"decoded{side.title()}", f"{side}Note"))
        masked = (note or "").startswith("masked: ")
        done = note.removeprefix("masked: ") if masked else None
        if text is not None:
            assert done is None
            return Left(json.loads(text))
        if done == "unreadable":
            assert data in (b"unreadable", "unreadable")
            return Left(None, done)
        try:
            return Left(data.decode() if isinstance(data, bytes) else data, done)
        except UnicodeDecodeError:
            assert note, "bytes have a note"
            return Left(data)

    return sorted(
        Made(row["offset"], left(row, "key"), left(row, "value"), row["transaction"])
        for row in rows
    )


def files(case: Case, committed: bool) -> list[Made]:
    folder = "committed" if committed else "records"
    names = sorted(each.stem for each in (case.log.path / NAME).glob("*.log"))
    text = "".join(
        case.decoded("cat", case.log.path, f"{NAME}/{folder}/{name}.jsonl") for name in names
    )
    return [each for each in of_lines(text) if each.offset >= case.log.start]


def grep(case: Case, committed: bool) -> list[Made]:
    more = ["--committed"] if committed else []
    words = [
        "grep",
        "--where",
        "true",
        case.log.path,
        "-t",
        "orders",
        "--from",
        case.log.start,
        *more,
    ]
    return of_lines(case.decoded(*words))


def tree(case: Case, committed: bool) -> list[Made]:
    folder = "committed" if committed else "records"
    names = sorted(each.stem for each in (case.log.path / NAME).glob("*.log"))
    with case.opened() as source:
        text = b"".join(source.read(f"{NAME}/{folder}/{name}.jsonl") for name in names)
    assert case.policy is None or found_in(text) == []
    return [each for each in of_lines(text.decode()) if each.offset >= case.log.start]


def scan(case: Case, committed: bool) -> list[Made]:
    with case.opened() as source:
        table = source.scan(
            "orders", columns=COLUMNS, decode="json", isolation=ISOLATION[committed]
        ).to_arrow()
    return of_rows(table.to_pylist(), case)


def sql(case: Case, committed: bool) -> list[Made]:
    more = ["--committed"] if committed else []
    text = case.decoded(
        "sql",
        QUERY,
        case.log.path,
        "--json",
        "--decode",
        "json",
        *more,
    )
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
        for side in ("key", "value"):
            if isinstance(row[side], dict):
                row[side] = base64.b64decode(row[side]["base64"])
            for name in (f"decoded{side.title()}",):
                if row[name] is not None and not isinstance(row[name], str):
                    row[name] = json.dumps(row[name])
    return of_rows(rows, case)


def exported(form: str) -> Callable[[Case, bool], list[Made]]:
    def read(case: Case, committed: bool) -> list[Made]:
        target = case.folder / f"{form}-{case.mask}-{committed}"
        more = ["--columns", ",".join(COLUMNS), "--decode", "json"] if form != "jsonl" else []
        case.decoded("export", case.log.path, target, "--format", form, "-t", "orders", *more,
                     *(["--committed"] if committed else []))  # fmt: skip
        paths = sorted(target.rglob("*part-*"))
        assert case.policy is None or found_in(b"".join(each.read_bytes() for each in paths)) == []
        if form == "jsonl":
            return sorted(of_lines("".join(each.read_text() for each in paths)))
        rows: list[dict[str, Any]] = []
        for path in paths:
            if form == "parquet":
                rows += pq.ParquetFile(path).read().to_pylist()
            elif form == "arrow":
                rows += pa.ipc.open_file(path).read_all().to_pylist()
            elif form == "avro":
                with open(path, "rb") as file:
                    rows += list(fastavro.reader(file))
        assert case.policy is None or found_in(repr(rows).encode()) == []
        return of_rows(rows, case)

    return read


FORMS: dict[str, Callable[[Case, bool], list[Made]]] = {
    each.__name__: each for each in (files, grep, tree, scan, sql)
} | {form: exported(form) for form in ("parquet", "arrow", "avro", "jsonl")}


@pytest.fixture(scope="module", params=WIRES)
def wired(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Log, Wire, Path]:
    folder = tmp_path_factory.mktemp("same")
    wire = WIRES[request.param]
    values = (*(wire.encode(each) for each in OBJECTS), RAW, None)
    log = Script(SEED, KEYS, values).log(folder / "data")
    if request.param == "registry":
        write_topic(log.path, [schema_record("orders-value", 1, 7, json.dumps(AVRO))])
    for name, text in wire.files.items():
        (folder / name).write_text(text)
    (folder / "mask.key").write_text(KEY)
    for name, (fields, _) in MASKS.items():
        (folder / f"{name}.toml").write_text(
            f'key_file = "mask.key"\n[[rules]]\ntopics = ["orders"]\n[rules.fields]\n".key" = "hash"\n{fields}\n'
        )
    return log, wire, folder


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mask", MASKS)
def test_a_record_is_the_same_in_each_form_with_each_schema_and_each_mask(
    wired: tuple[Log, Wire, Path], mask: str, form: str
) -> None:
    log, wire, folder = wired
    case = Case(log, wire, mask, folder)
    for committed in (False, True):
        assert FORMS[form](case, committed) == case.truth(committed=committed)


def test_dumps_have_the_same_and_nothing_else_that_is_said_of_records_has_the_canary(
    wired: tuple[Log, Wire, Path],
) -> None:
    log, wire, folder = wired
    topic, query = (
        [log.path, "-t", "orders"],
        "select value, decodedValue from orders where value is not null",
    )
    for mask in set(MASKS) - {"none"}:
        case = Case(log, wire, mask, folder)
        dumped = [
            each._replace(state=None)
            for each in of_lines(case.decoded("dump", log.path, "-t", "orders", "--json"))
        ]
        seen = [each._replace(state=None) for each in case.truth(committed=False)]
        assert [each for each in dumped if each.offset >= log.start] == seen
        for words in (
            ["stats", *topic], ["stats", *topic, "--json"], ["stats", *topic, "--keys"],
            ["stats", *topic, "--keys", "--json"],
        ):  # fmt: skip
            case.run(*words)
        for words in (
            ["sql", "summarize orders", log.path], ["sql", query, log.path, "--explain"],
            ["sql", "select max(decodedValue), min(key), max(value) from orders", log.path],
            ["grep", "--where", "error(tojson)", *topic], ["grep", "--where", ".value.cardNo.no.such", *topic],
            ["grep", "--where", f'.value.cardNo | tostring | startswith("{CANARY[:3]}")', "-c", *topic],
            ["ls", "-l", "--json", log.path, NAME], ["cat", log.path, f"{NAME}/offset/{log.start}"],
        ):  # fmt: skip
            case.decoded(*words)
        for words in (["sql", "select cast(value as integer) from orders", log.path],
                      ["sql", "select error(decodedValue) from orders", log.path]):  # fmt: skip
            done = CliRunner().invoke(cli, [*map(str, words), "--mask", str(case.policy)])
            assert found_in(done.stdout_bytes + done.stderr_bytes) == []
        with case.opened() as source, warnings.catch_warnings(record=True) as warned:
            scans = [
                source.scan("orders", decode="json"),
                source.scan("orders", where=pc.field("offset") > 3),
            ]
            faces = [
                source,
                source.scan("orders"),
                source["orders"],
                source["orders"][0],
                source["orders"][0][log.start],
            ]
            texts = [each.explain() for each in scans] + [repr(each) for each in faces]
            texts += [each._repr_html_() for each in faces if hasattr(each, "_repr_html_")]
            texts += [repr(source.problems), *(str(each.message) for each in warned)]
        assert found_in("".join(texts).encode()) == []
        options = TreeOptions(
            schemas=tuple(case.schemas) or ("auto",), mask=MaskPolicy(str(case.policy))
        )
        with closing(open_source(str(log.path))) as opened:
            tree = Tree(opened, options=options)
            assert found_in(b"\n".join(shown(tree, tree.resolve(NAME)))) == []


@pytest.mark.parametrize("words", [
    ["cat", "{}", "-t", "orders"], ["grep", "--where", "true", "{}"], ["dump", "{}/orders-0", "--json"],
    ["sql", "summarize orders", "{}"], ["stats", "{}", "--keys"],
], ids=" ".join)  # fmt: skip
def test_without_a_mask_the_canary_is_found(
    wired: tuple[Log, Wire, Path], words: list[str]
) -> None:
    done = CliRunner().invoke(cli, [each.format(wired[0].path) for each in words])
    assert done.exit_code in (0, 1), done.output
    assert found_in(done.stdout_bytes) != []
