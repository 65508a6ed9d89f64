"""What each action of a mask leaves of each place of a record, in each form, written out here and in the hashes of `hmac`."""

from __future__ import annotations

import csv
import hmac
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from click.testing import CliRunner

import kafkafs
from kafkafs.cli import cli
from kafkafs.masking.actions import DropField, HashField, ReplaceField
from kafkafs.masking.field_path import protobuf_names
from kafkafs.masking.policy import MaskWarning
from tests.builders import Rec, batch
from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.masked_source import KEY

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")
pytest.importorskip("duckdb", reason="duckdb is not installed: pip install '.[sql]'")

import fastavro  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

VALUE = '{"name":"Ann","cards":[{"number":1,"open":"x"},{"open":"y"}],"n":1.50,"no":null}'
GONE = "no such field"


class Left(NamedTuple):
    """What is left of a key or value: its text, GONE if there is none, and what was done to all of it."""

    text: str | None
    done: str | None = None


def hashed(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return hmac.new(KEY.encode(), data, "sha256").hexdigest()


def value(name: str = '"name":"Ann",', cards: str = '"cards":[{"number":1,"open":"x"},{"open":"y"}],',
          n: str = '"n":1.50,', no: str = '"no":null') -> Left:  # fmt: skip
    inside = (name + cards + n + no).removesuffix(",")
    return Left(f"{{{inside}}}")


CARDS = '[{"number":1,"open":"x"},{"open":"y"}]'
SORTED = '{"cards":' + CARDS + ',"n":1.50,"name":"Ann","no":null}'
CASES: dict[tuple[str, str], Left] = {
    (".value.name", "drop"): value(name=""),
    (".value.name", "hash"): value(name=f'"name":"{hashed("Ann")}",'),
    (".value.name", "replace"): value(name='"name":"hidden",'),
    (".value.n", "drop"): value(n=""),
    (".value.n", "hash"): value(n=f'"n":"{hashed("1.50")}",'),
    (".value.n", "replace"): value(n='"n":"hidden",'),
    (".value.no", "drop"): value(no=""),
    (".value.no", "hash"): value(),
    (".value.no", "replace"): value(no='"no":"hidden"'),
    (".value.cards", "drop"): value(cards=""),
    (".value.cards", "hash"): value(cards=f'"cards":"{hashed(CARDS)}",'),
    (".value.cards", "replace"): value(cards='"cards":"hidden",'),
    (".value.cards[]", "drop"): value(cards='"cards":[null,null],'),
    (".value.cards[]", "hash"): value(
        cards=f'"cards":["{hashed(CARDS[1:24])}","{hashed(CARDS[25:-1])}"],'
    ),
    (".value.cards[]", "replace"): value(cards='"cards":["hidden","hidden"],'),
    (".value.cards[].number", "drop"): value(cards='"cards":[{"open":"x"},{"open":"y"}],'),
    (".value.cards[].number", "hash"): value(
        cards=f'"cards":[{{"number":"{hashed("1")}","open":"x"}},{{"open":"y"}}],'
    ),
    (".value.cards[].number", "replace"): value(cards='"cards":[{"number":"hidden","open":"x"},{"open":"y"}],'),
    (".value", "drop"): Left(GONE, "dropped"),
    (".value", "hash"): Left(hashed(SORTED), "hashed"),
    (".value", "replace"): Left("hidden", "replaced"),
}  # fmt: skip
KEYS = {
    "drop": Left(GONE, "dropped"), "hash": Left(hashed("k1"), "hashed"), "replace": Left("hidden", "replaced"),
}  # fmt: skip
HEADERS = {"drop": [], "hash": [("trace", hashed(b"\xfft"))], "replace": [("trace", "hidden")]}


class Shown(NamedTuple):
    """A record as a form shows it: an object as its text, a text as it is."""

    key: Left
    value: Left
    headers: list[tuple[str, str]]


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done.stdout


def of_line(line: dict[str, Any]) -> Shown:
    def left(side: str) -> Left:
        done = line.get(f"{side}Masked")
        if side not in line:
            return Left(GONE, done)
        shown = line[side]
        return Left(shown if isinstance(shown, str) or shown is None else as_text(shown), done)

    return Shown(
        left("key"), left("value"), [(each["key"], each["value"]) for each in line["headers"]]
    )


def as_text(shown: object) -> str:
    text = json.dumps(shown, separators=(",", ":"))
    return re.sub(r'"n":1\.5(?=[,}])', '"n":1.50', text)  # of which Python keeps no zero


class Mask(NamedTuple):
    """A policy, whether it is strict by an option, and the status that a command shall have with it."""

    policy: Path
    is_strict: bool = False
    code: int = 0

    def run(self, *words: object) -> str:
        more = ["--mask-strict"] if self.is_strict else []
        return run(*words, "--mask", self.policy, *more, code=self.code)

    def opened(self, source: Path) -> kafkafs.OpenedSource:
        return kafkafs.open(source, mask=self.policy, mask_strict=self.is_strict)


Form: TypeAlias = Callable[[Path, Mask], Shown]


def by_cat(source: Path, mask: Mask) -> Shown:
    return of_line(json.loads(mask.run("cat", source, "customers-0/offset/0")))


def by_grep(source: Path, mask: Mask) -> Shown:
    return of_line(json.loads(mask.run("grep", "--where", ".offset == 0", source)))


def by_dump(source: Path, mask: Mask) -> Shown:
    text = mask.run("dump", source / "customers-0" / f"{0:020}.log", "--json")
    (line,) = [
        json.loads(each) for each in text.splitlines() if '"trace"' in each or '"offset":0' in each
    ]
    return of_line(line)


def of_row(row: dict[str, Any]) -> Shown:
    def left(side: str) -> Left:
        note, data = row[f"{side}Note"], row[side]
        done = None if not note else note.removeprefix("masked: ")
        text = data.decode() if isinstance(data, bytes) else data
        assert row[f"decoded{side.title()}"] in (None, "", text)
        return Left(GONE if text is None and done else text, done)

    headers = [
        (each["key"], each["value"].decode() if isinstance(each["value"], bytes) else each["value"])
        for each in row["headers"] or []
    ]
    return Shown(left("key"), left("value"), headers)


COLUMNS = ["key", "value", "headers", "keyNote", "valueNote", "decodedKey", "decodedValue"]


def by_scan(source: Path, mask: Mask) -> Shown:
    with mask.opened(source) as opened:
        (row,) = opened.scan("customers", columns=COLUMNS).to_arrow().to_pylist()
    return of_row(row)


def by_sql(source: Path, mask: Mask) -> Shown:
    query = f"select {', '.join(COLUMNS)} from customers"
    return of_row(json.loads(mask.run("sql", query, source, "--json")))


def by_get(source: Path, mask: Mask) -> Shown:
    return of_line(json.loads(mask.run("get", source, "customers", "k1")))


def by_cp(source: Path, mask: Mask) -> Shown:
    target = mask.policy.parent / "copied"
    mask.run("cp", source, "customers-0/time/2023/records.jsonl", target)
    return of_line(json.loads(target.read_text()))


def by_tree(path: str) -> Form:
    def read(source: Path, mask: Mask) -> Shown:
        with mask.opened(source) as opened:
            return of_line(json.loads(opened.read(f"customers-0/{path}")))

    return read


def by_export(form: str) -> Form:
    def read(source: Path, mask: Mask) -> Shown:
        target = mask.policy.parent / form
        chosen = () if form == "jsonl" else ("--columns", ",".join(COLUMNS))
        mask.run("export", source, target, "--format", form, *chosen)
        (path,) = target.rglob("*part-*")
        if form == "parquet":
            (row,) = pq.ParquetFile(path).read().to_pylist()
            return of_row(row)
        if form == "arrow":
            (row,) = pa.ipc.open_file(path).read_all().to_pylist()
            return of_row(row)
        if form == "avro":
            with open(path, "rb") as data:
                (row,) = fastavro.reader(data)
            return of_row(row)
        if form == "jsonl":
            return of_line(json.loads(path.read_text()))
        with open(path, newline="") as file:
            (row,) = list(csv.DictReader(file))
        row = {name: text or None for name, text in row.items()}
        row["headers"] = json.loads(row["headers"] or "[]")
        return of_row(row)

    return read


def by_records(source: Path, mask: Mask) -> Shown:
    with mask.opened(source) as opened:
        (record,) = list(opened["customers", 0])
        assert record == opened["customers", 0][0]
    headers = [(name, (data or b"").decode()) for name, data in record.headers]

    def left(data: bytes | None) -> Left:
        return Left(GONE if data is None else data.decode())

    return Shown(left(record.key), left(record.value), headers)


EXPORTS = ("parquet", "csv", "jsonl", "avro", "arrow")
COMMANDS: dict[str, Form] = {
    "cat": by_cat, "grep": by_grep, "get": by_get, "dump": by_dump, "cp": by_cp, "sql": by_sql,
}  # fmt: skip
OF_PYTHON: dict[str, Form] = {
    "scan": by_scan, "records": by_records,
    **{path: by_tree(path) for path in ("records/0.jsonl", "committed/0.jsonl", "offset/0", "time/2023/exact.jsonl")},
}  # fmt: skip
FORMS = COMMANDS | OF_PYTHON | {form: by_export(form) for form in EXPORTS}
WITHOUT_KEYS = [form for form in FORMS if form != "get"]  # which a mask on keys refuses


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    record = Rec(VALUE.encode(), b"k1", headers=[(b"trace", b"\xfft")])
    BuiltLog(folder, "customers-0").segment([batch([record], 0)], 0)
    return folder


def policy_of(folder: Path, rules: str, *, head: str = "") -> Path:
    (folder / "mask.key").write_text(KEY)
    path = folder / "mask.toml"
    path.write_text(f'key_file = "mask.key"\n{head}\n[[rules]]\ntopics = ["customers"]\n{rules}\n')
    return path


def written(action: str) -> str:
    return '{ replace = "hidden" }' if action == "replace" else f'"{action}"'


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("path", "action"), CASES)
def test_an_action_leaves_of_a_value_what_is_written_here(
    source: Path, tmp_path: Path, form: str, path: str, action: str
) -> None:
    policy = policy_of(tmp_path, f"fields = {{ '{path}' = {written(action)} }}")
    wanted = CASES[path, action]
    shown = FORMS[form](source, Mask(policy))
    if form == "records":  # they have no word for what was done
        wanted = wanted._replace(done=None)
    assert shown == Shown(Left("k1"), wanted, [])  # the header is no text, and no rule names it


@pytest.mark.parametrize("form", WITHOUT_KEYS)
@pytest.mark.parametrize("action", KEYS)
def test_an_action_leaves_of_keys_and_headers_what_is_written_here(
    source: Path, tmp_path: Path, form: str, action: str
) -> None:
    rules = f"fields = {{ '.key' = {written(action)} }}\nheaders = {{ Trace = {written(action)} }}"
    key = KEYS[action]
    shown = FORMS[form](source, Mask(policy_of(tmp_path, rules)))
    if form == "records":
        key = key._replace(done=None)
    assert shown == Shown(key, Left(VALUE), HEADERS[action])


ERRORS = [
    ValueError("v"),
    TypeError(),
    OverflowError(),
    MemoryError(),
    RuntimeError("r"),
    RecursionError(),
    OSError(5, "d"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("form", [each for each in FORMS if each not in EXPORTS])
@pytest.mark.parametrize("kind", [DropField, HashField, ReplaceField])
def test_what_an_action_fails_at_is_unreadable_and_no_tombstone(
    monkeypatch: pytest.MonkeyPatch, source: Path, tmp_path: Path, form: str, kind: type, error: Exception
) -> None:  # fmt: skip
    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(kind, "apply", failing)
    action = {DropField: "drop", HashField: "hash", ReplaceField: "replace"}[kind]
    rules = f"fields = {{ '.value.name' = {written(action)} }}\nheaders = {{ trace = {written(action)} }}"
    shown = FORMS[form](source, Mask(policy_of(tmp_path, rules)))
    assert shown.key == Left("k1")
    assert shown.headers == []
    assert shown.value in (
        Left(GONE, "unreadable"),
        Left("unreadable", "unreadable"),
        Left("unreadable"),
    )


# Fields that no record has


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_field_that_no_record_had_is_an_error_of_an_export(
    source: Path, tmp_path: Path, form: str, jobs: int
) -> None:
    policy = policy_of(tmp_path, "fields = { '.value.nmae' = \"drop\", '.value.name' = \"drop\" }")
    target = tmp_path / "out"
    done = CliRunner().invoke(
        cli,
        [
            "export",
            str(source),
            str(target),
            "--format",
            form,
            "--mask",
            str(policy),
            "-j",
            str(jobs),
            "--json",
        ],
    )
    assert done.exit_code == 1
    assert json.loads(done.stdout)["unmetMaskFields"] == [
        {"topic": "customers", "path": ".value.nmae"}
    ]
    assert "no record of customers that was shown has .value.nmae" in done.stderr
    assert ".value.name\n" not in done.stderr
    assert not (target / "_SUCCESS").exists()
    right = policy_of(tmp_path, "fields = { '.value.name' = \"drop\" }")
    run("export", source, tmp_path / "right", "--format", form, "--mask", right)
    assert (tmp_path / "right" / "_SUCCESS").exists()


READS: dict[str, Callable[[Any], object]] = {
    "scan": lambda opened: opened.scan("customers").to_arrow(),
    "records": lambda opened: list(opened["customers", 0]),
    "one": lambda opened: opened["customers", 0][0],
}


@pytest.mark.parametrize("read", READS)
def test_a_field_that_no_record_had_is_a_warning_of_python(
    source: Path, tmp_path: Path, read: str
) -> None:
    policy = policy_of(tmp_path, "fields = { '.value.nmae' = \"drop\", '.value.name' = \"drop\" }")
    with (
        pytest.warns(
            MaskWarning, match=r"no record of customers that was read has \.value\.nmae$"
        ) as told,
        kafkafs.open(source, mask=policy) as opened,
    ):
        READS[read](opened)
    assert len([each for each in told if each.category is MaskWarning]) == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_field_that_no_record_had_is_an_error_of_each_form_and_goes_out_with_a_word(
    source: Path, tmp_path: Path, form: str
) -> None:
    policy = policy_of(tmp_path, "fields = { '.value.nmae' = \"drop\", '.value.name' = \"drop\" }")
    with pytest.warns(MaskWarning) if form in OF_PYTHON else nullcontext():
        shown = FORMS[form](source, Mask(policy, code=1))
    assert shown == Shown(Left("k1"), CASES[".value.name", "drop"], [])


@pytest.mark.parametrize("way", ["option", "policy"])
@pytest.mark.parametrize("form", FORMS)
def test_a_strict_mask_shows_no_value_that_lacks_a_field(
    source: Path, tmp_path: Path, form: str, way: str
) -> None:
    head = "strict = true" if way == "policy" else ""
    policy = policy_of(tmp_path, "fields = { '.value.nmae' = \"drop\" }", head=head)
    with pytest.warns(MaskWarning) if form in OF_PYTHON else nullcontext():
        shown = FORMS[form](source, Mask(policy, way == "option", code=1))
    assert shown.value.text in (GONE, "unreadable")
    assert shown.value.done in ("unreadable", None)
    assert shown.key == Left("k1")


@pytest.mark.parametrize(("record", "is_shown"), [
    (b'{"cards":[]}', True), (b'{"cards":[{"number":1}]}', True), (b'{"cards":[{"number":1},{}]}', False),
    (b'{"cards":null}', True), (b"{}", False), (None, True), (b'{"cards":[{"number":null}]}', True),
    (b'{"cards":7}', True),
])  # fmt: skip
def test_strict_is_about_each_element_on_the_way(
    tmp_path: Path, record: bytes | None, is_shown: bool
) -> None:
    BuiltLog(tmp_path / "log", "customers-0").segment([batch([Rec(record, b"k")], 0)], 0)
    policy = policy_of(
        tmp_path, "fields = { '.value.cards[].number' = \"drop\" }", head="strict = true"
    )
    code = int(record == b"{}")  # the one record has no field of the path
    words = ("cat", tmp_path / "log", "customers-0/offset/0", "--mask", policy)
    line = json.loads(run(*words, code=code))
    assert (line.get("valueMasked") != "unreadable") == is_shown


def test_strict_without_a_mask_is_refused(source: Path) -> None:
    assert "--mask-strict" in CliRunner().invoke(cli, ["cat", str(source), "--mask-strict"]).stderr


# Both names of a field of Protobuf

NAMES = [
    "card_no",
    "cardNo",
    "card__no",
    "_card",
    "card_",
    "Card_No",
    "card_4",
    "a_b_c",
    "CARD_NO",
    "x1_y2",
]


def test_a_name_in_json_is_that_of_protoc() -> None:
    from kafkafs.schemas.decoders.protobuf_files import link

    for name in NAMES:
        (message,) = link(
            f'syntax = "proto3"; message M {{ int32 {name} = 1; }}'
        ).file.message_types_by_name.values()
        (field,) = message.fields
        assert field.json_name in protobuf_names(name), name
        assert field.json_name in protobuf_names(field.json_name)


@pytest.mark.parametrize("path", [".value.card_no", ".value.cardNo"])
@pytest.mark.parametrize("nested", ["", "_in"])
def test_a_mask_knows_both_names_of_a_field_of_protobuf(
    tmp_path: Path, path: str, nested: str
) -> None:
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    (schemas / "customers-value.proto").write_text(
        'syntax = "proto3"; message M { string card_no = 1; repeated M the_in = 2; string open = 3; }'
    )
    inner = b"\x0a\x06secret\x1a\x01o"
    data = inner + b"\x12" + bytes([len(inner)]) + inner
    BuiltLog(tmp_path / "log", "customers-0").segment([batch([Rec(data, b"k")], 0)], 0)
    if nested:
        path = path.replace(".value.", ".value.the_in[].")
    policy = policy_of(tmp_path, f"fields = {{ '{path}' = {written('replace')} }}")
    done = CliRunner().invoke(
        cli,
        [
            "cat",
            str(tmp_path / "log"),
            "customers-0/offset/0",
            "--schemas",
            str(schemas),
            "--mask",
            str(policy),
        ],
    )
    value = json.loads(done.stdout)["value"]
    outer, inside = value["cardNo"], value["theIn"][0]["cardNo"]
    assert (outer, inside) == (("secret", "hidden") if nested else ("hidden", "secret"))
    assert done.stderr == ""
