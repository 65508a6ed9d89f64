"""`--mask`: nothing that a policy hides is in any byte that a command prints, and no search tells it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.coding.compression import CompressionType
from kafkafs.cli import cli
from tests import builders
from tests.builders import Rec
from tests.fixtures_data import DATA, log_dir
from tests.kafkafs.built_logs import BuiltLog

CANARY = b"canary-Zu7rich"
KEY = "a key of sixteen bytes or more"
VALUES = [
    b'{"a":[{"secret":"%s"}],"n":1.10}' % CANARY,
    b'{"a":"[{\\"secret\\":\\"%s\\"}]"}' % CANARY,
    b'{"secret":"%s","a":[1],"a":[{"secret":"%s"}]}' % (CANARY, CANARY),
    b"[" * 200 + CANARY,
    CANARY,
    b"\xff\x00" + CANARY,
    b"\x00\x00\x00\x00\x07" + CANARY,
    b'{"a":%s,"b":"%s"}' % (b"1" * 5000, CANARY),
    b'["%s"]' % CANARY,
    b'"%s"' % CANARY,
    b'{"a":[{"secret":"%s%s"}]}' % (CANARY, b"x" * 5_000_000),
    CANARY * 400_000,
    None,
]
POLICY = """
key_file = "mask.key"
[[rules]]
topics = ["*"]
[rules.fields]
".value.a[].secret" = "drop"
".value.secret" = "hash"
".value.b" = { replace = "hidden" }
"""
WITH_KEYS = (
    POLICY + '".key" = "hash"\n[rules.headers]\nTrace = "drop"\n"*" = { replace = "hidden" }\n'
)
WHOLE = """
[[rules]]
topics = ["*"]
[rules.fields]
".key" = "drop"
".value" = "drop"
[rules.headers]
"*" = "drop"
"""


def written(folder: Path, text: str) -> str:
    (folder / "mask.key").write_text(KEY)
    path = folder / "mask.toml"
    path.write_text(text)
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def lines(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """Return the lines that a command prints; code 1 is that of a policy with a field that no record has."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert ("no record of" in result.stderr) == bool(code)
    return [json.loads(line) for line in result.stdout.splitlines()]


def forms(data: bytes) -> Iterator[bytes]:
    """What bytes look like as they are, in hexadecimal, and in base64 at each place in three bytes."""
    yield data
    yield data.hex().encode()
    for place in range(3):
        yield base64.b64encode(data[place : place + (len(data) - place) // 3 * 3])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log dir with the canary in keys, values and headers, in all formats, and in damaged batches."""
    folder = tmp_path_factory.mktemp("masked")
    log = BuiltLog(folder, "customers-0")
    headers = [
        (b"trace", CANARY),
        (b"raw", b"\xff" + CANARY),
        (b"\xff" + CANARY, b"x"),
        (b"n", None),
    ]
    records = [
        Rec(value, b"key-" + CANARY, headers=headers) for value in VALUES
    ] + [Rec(b"{}", b"\xff" + CANARY), Rec(b"{}", b'{"id":"%s"}' % CANARY)]  # fmt: skip
    batches: list[bytes] = []
    at = 0
    for codec in (CompressionType.NONE, CompressionType.GZIP):
        batches.append(builders.batch(records, at, codec))
        at += len(records)
    for magic in (0, 1):
        batches.append(builders.message_set(records[:7], at, magic=magic))
        at += 7
    batches.append(builders.control_batch(9, CANARY, at))
    damaged = bytearray(builders.batch(records[:3], at + 1))
    damaged[-20] ^= 1
    short = builders.batch(records[:3], at + 4, section=CANARY * 3, record_count=3)
    batches += [bytes(damaged), short, builders.batch(records[:3], at + 7)]
    log.segment(batches, 0)
    BuiltLog(folder, "other-0").segment([builders.batch([Rec(b"open", b"k")])], 0)
    return str(folder)


COMMAND_LINES = [
    ["cat", "{}", "customers-0/records"],
    ["cat", "{}", "customers-0", "-j", "2"],
    ["cat", "{}", "--topic", "customers"],
    ["cat", "{}", "customers-0/offset/0..100"],
    ["cat", "{}", "customers-0/offset/10"],
    ["cat", "{}", "customers-0/time/2023-11"],
    ["cat", "{}", "customers-0/committed", "--schemas", "none"],
    ["grep", "--where", "true", "{}"],
    ["grep", "--where", ".value.a[0].secret.no.such", "{}"],
    ["grep", "--where", "error(tojson)", "{}"],
    ["grep", "--where", ".offset == 1", "-C", "3", "{}", "customers-0"],
    ["grep", "--where", "true", "-n", "--json", "{}"],
    ["grep", "--where", "true", "-l", "{}"],
    ["grep", "--where", ". | tojson | test(\"canary\")", "{}"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMAND_LINES, ids=" ".join)
def test_a_canary_is_in_no_byte_of_the_output(
    source: str, words: list[str], tmp_path: Path
) -> None:
    policy = written(tmp_path, WITH_KEYS)
    result = run(*(source if word == "{}" else word for word in words), "--mask", policy)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    printed = result.stdout_bytes + result.stderr_bytes
    assert printed
    assert [form for form in forms(CANARY) if form in printed] == []
    assert KEY.encode() not in printed


@pytest.mark.parametrize("words", COMMAND_LINES[2:5:2], ids=" ".join)
def test_without_a_mask_the_same_commands_print_the_canary(source: str, words: list[str]) -> None:
    printed = run(*(source if word == "{}" else word for word in words)).stdout_bytes
    assert all(any(form in printed for form in forms(CANARY)) for _ in words)
    assert CANARY in printed


def test_a_record_found_by_its_key_is_masked(source: str, tmp_path: Path) -> None:
    policy = written(tmp_path, POLICY.replace("*", "customers") + '[rules.headers]\n"*" = "drop"\n')
    key = f"key-{CANARY.decode()}"
    for more in ([], ["--all"]):
        result = run("get", source, "customers", key, "--mask", policy, *more)
        records = [json.loads(line) for line in result.stdout.splitlines()]
        assert records
        assert {record["key"] for record in records if "key" in record} == {key}
        for record in records:
            record.pop("key", None)
        assert CANARY.decode() not in json.dumps(records)


def test_a_damaged_place_is_told_without_the_numbers_that_its_bytes_gave(
    source: str, tmp_path: Path
) -> None:
    policy = written(tmp_path, WITH_KEYS)
    words = ["grep", "--where", "true", source, "customers-0", "--json"]
    plain, masked = (
        [json.loads(line)["error"] for line in run(*words, *more).stderr.splitlines()
         if line.startswith('{"error"')]
        for more in ([], ["--mask", policy])
    )  # fmt: skip
    assert len(masked) == len(plain) >= 2
    assert {each["reason"] for each in masked} == {"the records cannot be read"}
    assert [each["position"] for each in masked] == [each["position"] for each in plain]
    assert not any({"expected", "found"} & each.keys() for each in masked)


@pytest.mark.parametrize(
    "words",
    [
        ["grep", "canary", "{}"],
        ["grep", "no such text", "{}"],
        ["grep", "-o", "-e", "canary.*", "{}"],
        ["grep", "-e", "x", "--where", "true", "{}"],
        ["grep", "--field", "headers", "x", "{}", "customers-0"],
        ["get", "{}", "customers", "key-canary-Zu7rich"],
        ["get", "{}", "customers", "no such key"],
        ["get", "{}", "customers", "x", "--value"],
        ["get", "{}", "customers", "x", "--format", "%s"],
        ["grep", "--where", "true", "{}", "--format", "%s"],
        ["grep", "--where", "true", "{}", "--values", "base64"],
        ["grep", "--where", "true", "{}", "--verbose"],
        ["cat", "{}", "customers-0", "--format", "%s"],
        ["cat", "{}", "customers-0", "--values", "text"],
        ["cat", "{}", "customers-0", "--verbose"],
    ],
    ids=" ".join,
)
def test_a_search_or_a_form_that_tells_what_is_hidden_is_refused_with_one_line(
    source: str, words: list[str], tmp_path: Path
) -> None:
    policy = written(tmp_path, WITH_KEYS)
    result = run(*(source if word == "{}" else word for word in words), "--mask", policy)
    assert (result.exit_code, result.stdout) == (2, "")
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert "mask" in errors[0].lower()


@pytest.mark.parametrize(
    "path",
    [
        "customers-0/offset/0.value",
        "customers-0/offset/0.key",
        "customers-0/offset/0.headers",
        "customers-0/segments/00000000000000000000.log",
        "customers-0/raw",
        "customers-0/log/00000000000000000000.log",
        "customers-0/key/key-canary-Zu7ric",
        "customers-0/key",
        "customers-0/README.txt",
        "README.txt",
    ],
)
@pytest.mark.parametrize("command", [["cat"], ["grep", "--where", "true"]], ids=["cat", "grep"])
def test_no_other_file_of_the_tree_is_shown(
    source: str, command: list[str], path: str, tmp_path: Path
) -> None:
    result = run(*command, source, path, "--mask", written(tmp_path, WITH_KEYS))
    assert result.exit_code != 0
    assert result.stdout == ""
    shown = (result.stderr + str(result.exception)).replace(path, "")
    assert CANARY.decode() not in shown
    assert "with --mask, PATH names records" in shown


def test_a_pattern_may_be_searched_in_topics_without_a_mask(source: str, tmp_path: Path) -> None:
    policy = written(tmp_path, POLICY.replace('"*"', '"customers"'))
    assert len(lines("grep", "open", source, "--topic", "other", "--mask", policy)) == 1
    assert lines("cat", source, "other-0", "--mask", policy) == lines(
        "cat", source, "other-0/offset/0"
    )


GOLDEN = [
    DATA / kind / "data" for kind in ("schemas-confluent", "schemas-framings", "schemas-compacted")
] + [log_dir(kind) for kind in ("current", "legacy", "sample")]


@pytest.mark.parametrize("data", GOLDEN, ids=lambda path: path.parent.name + "-" + path.name)
def test_of_records_dropped_whole_only_their_place_is_left(data: Path, tmp_path: Path) -> None:
    plain = lines("grep", "--where", "true", str(data))
    masked = lines("grep", "--where", "true", str(data), "--mask", written(tmp_path, WHOLE))
    assert len(masked) == len(plain) > 0
    shown = {
        "topic", "partition", "offset", "timestamp", "time", "timestampType", "leaderEpoch",
        "sequence", "transaction", "control", "belowLogStart",
    }  # fmt: skip
    for before, after in zip(plain, masked, strict=True):
        assert {name: after[name] for name in after if name in shown} == {
            name: before[name] for name in before if name in shown
        }
        left = {name: after[name] for name in after if name not in shown}
        assert left.pop("headers") == []
        for root in ("key", "value"):
            assert root not in left
            assert left.pop(f"{root}Masked") in ("dropped", "unreadable")
        assert left == {}


WIRES = [DATA / "schemas-confluent" / "data", DATA / "schemas-framings" / "data"]


@pytest.mark.parametrize("data", WIRES, ids=lambda path: path.parent.name)
def test_of_decoded_values_jq_deletes_the_same_fields(data: Path, tmp_path: Path) -> None:
    every = [
        "--topic",
        "*-*",
        "--schemas",
        "auto",
        "--schemas",
        str(DATA / "schemas-framings/schemas"),
    ]
    plain = lines("grep", "--where", "true", str(data), *every)
    values = [line["value"] for line in plain if line.get("valueEncoding") not in (None, "base64")]
    names = sorted({name for value in values if isinstance(value, dict) for name in value})[::3]
    assert names
    rules = "".join(f'{json.dumps("." + "value." + json.dumps(name))} = "drop"\n' for name in names)
    policy = written(tmp_path, f'[[rules]]\ntopics = ["*"]\n[rules.fields]\n{rules}')
    masked = lines("grep", "--where", "true", str(data), *every, "--mask", policy, code=1)
    program = f'if type == "object" then delpaths([{",".join(json.dumps([name]) for name in names)}]) else null end'
    text = "\n".join(json.dumps(line["value"]) for line in plain)
    done = subprocess.run(
        ["jq", "-c", program], input=text, capture_output=True, text=True, check=True
    )
    again = "\n".join(json.dumps(line.get("value")) for line in masked)
    ours = subprocess.run(
        ["jq", "-c", "."], input=again, capture_output=True, text=True, check=True
    )
    assert ours.stdout.splitlines() == done.stdout.splitlines()


def test_hashes_are_stable_so_that_joins_work(tmp_path: Path) -> None:
    customers, orders = (
        BuiltLog(tmp_path / "d", "customers-0"),
        BuiltLog(tmp_path / "d", "orders-0"),
    )
    customers.segment([builders.batch([Rec(b"{}", b"c-17")])], 0)
    orders.segment([builders.batch([Rec(b'{"customer":"c-17","n":7}', b"7")])], 0)
    text = POLICY + '".key" = "hash"\n".value.customer" = "hash"\n".value.n" = "hash"\n'
    words = ["cat", str(tmp_path / "d"), "--topic", "*", "--mask", written(tmp_path, text)]
    found = lines(*words, code=1)
    expected = hmac.new(KEY.encode(), b"c-17", hashlib.sha256).hexdigest()
    assert found[0]["key"] == found[1]["value"]["customer"] == expected
    assert found[1]["key"] == found[1]["value"]["n"]
    assert found[0]["keyMasked"] == "hashed"


def test_a_topic_or_a_field_that_is_not_there_is_told_also_with_quiet(
    source: str, tmp_path: Path
) -> None:
    rule = '[[rules]]\ntopics = ["customers", "custmers"]\n[rules.fields]\n'
    policy = written(tmp_path, f'{rule}".value.emial" = "drop"\n".value.a" = "drop"\n')
    told = run("cat", "-q", source, "customers-0/offset/0", "--mask", policy).stderr.splitlines()
    assert told == [
        "kafkafs: --mask: no topic of the source is custmers",
        "kafkafs: --mask: no record of customers that was shown has .value.emial",
    ]
    told = run("cat", "-q", source, "other-0/offset/0", "--mask", policy).stderr.splitlines()
    assert told == ["kafkafs: --mask: no topic of the source is custmers"]


def test_bytes_that_are_not_decoded_are_hidden_whole_also_where_no_rule_names_them(
    tmp_path: Path,
) -> None:
    raw = b"\xff" + CANARY
    headers = [(b"plain", b"text"), (b"raw", raw), (raw, b"text"), (b"json", b'{"a":1}')]
    record = Rec(raw, raw, headers=headers)
    log = BuiltLog(tmp_path / "d", "customers-0")
    log.segment([builders.batch([record, record._replace(value=b"{}", key=b"k")])], 0)
    source, policy = str(tmp_path / "d"), written(tmp_path, POLICY)
    first, second = lines("cat", source, "customers-0", "--mask", policy, code=1)
    assert (first["keyMasked"], first["valueMasked"]) == ("unreadable", "unreadable")
    assert not {"key", "value", "keyEncoding", "valueEncoding"} & first.keys()
    assert first["headers"] == [
        {"key": "plain", "value": "text"},
        {"key": "json", "value": {"a": 1}, "valueEncoding": "json"},
    ]
    assert (second["key"], second["value"], second["valueEncoding"]) == ("k", {}, "json")
    hashed = POLICY + '".key" = "hash"\n".value" = "hash"\n[rules.headers]\nraw = "hash"\n'
    words = ["cat", source, "customers-0", "--mask", written(tmp_path, hashed)]
    first, _ = lines(*words, code=1)
    expected = hmac.new(KEY.encode(), raw, hashlib.sha256).hexdigest()
    assert first["key"] == first["value"] == expected
    assert {"key": "raw", "value": expected} in first["headers"]


def test_a_record_too_large_to_decode_shows_its_place_alone(source: str, tmp_path: Path) -> None:
    policy = written(tmp_path, POLICY)
    words = ["grep", "--where", ".offset == 10 or .offset == 11", source, "customers-0"]
    large = [json.loads(line) for line in run(*words).stdout.splitlines() if len(line) > 4 << 20]
    assert len(large) == 2
    for line in large:
        place = f"customers-0/offset/{line['offset']}"
        result = run("cat", source, place, "--mask", policy)
        masked = json.loads(result.stdout)
        assert masked == {
            **{name: line[name] for name in list(line)[:6]},
            "keyMasked": "unreadable",
            "valueMasked": "unreadable",
            "headers": [],
            "leaderEpoch": 0,
        }
