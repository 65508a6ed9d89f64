"""`kafkafs.open(…, mask=…)`: records, tables and files without what the policy hides; raw bytes are refused."""

from __future__ import annotations

import hashlib
import hmac
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import kafkafs
from kafkafs.api.opened_source import OpenedSource
from kafkafs.forms.arrow.arrow_columns import RECORD_FIELDS
from kafkafs.masking.policy import MaskPolicyError
from kafkafs.tree.errors import MaskedError
from tests.fixtures_data import DATA
from tests.kafkafs.masked_source import (
    CANARY,
    FIELDS_ALONE,
    KEY,
    found_in,
    write_source,
    written_policy,
)

COLUMNS = [name for name in RECORD_FIELDS if name != "_corrupt"]

# Single records, and the ends of a partition, need not have each field of the policy.
pytestmark = pytest.mark.filterwarnings("ignore::kafkafs.masking.policy.MaskWarning")


@pytest.fixture
def source(tmp_path: Path) -> Iterator[OpenedSource]:
    write_source(tmp_path / "data")
    with kafkafs.open(tmp_path / "data", mask=written_policy(tmp_path)) as opened:
        yield opened


def seen(value: Any) -> bytes:
    """Return all bytes of records or rows, decoded ones too."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return b"\n".join(seen(each) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return b"\n".join(map(seen, value))
    if isinstance(value, kafkafs.ConsumerRecord):
        again = pickle.loads(pickle.dumps(value))
        assert again == value
        return seen(
            [repr(value), value.key, value.value, value.headers, value.decoded(), again.decoded()]
        )
    return str(value).encode()


READS: dict[str, Callable[[OpenedSource], Any]] = {
    "by offset": lambda source: [source["customers", 0][at] for at in range(51)],
    "from the end": lambda source: source["customers", 0][-1],
    "a range": lambda source: list(source["customers", 0].records(on_corrupt="skip")),
    "committed": lambda source: list(
        source["customers", 0].records(on_corrupt="skip", isolation="read_committed")
    ),
    "by time": lambda source: source["customers", 0].at("2023-11-01"),
    "a table": lambda source: source.scan("customers", on_corrupt="skip").to_arrow().to_pylist(),
    "damage": lambda source: source.scan("customers", on_corrupt="row").to_arrow().to_pylist(),
    "all columns": lambda source: (
        source.scan("customers", columns=COLUMNS, on_corrupt="skip").to_arrow().to_pylist()
    ),
    "decoded": lambda source: (
        source.scan("customers", decode="json", on_corrupt="skip").to_arrow().to_pylist()
    ),
    "own decoder": lambda source: (
        source.scan("customers", decode=lambda _: None, on_corrupt="skip").to_arrow().to_pylist()
    ),
    "a copy": lambda source: (
        pickle.loads(pickle.dumps(source.scan("customers", on_corrupt="skip")))
        .to_arrow()
        .to_pylist()
    ),
    "a file": lambda source: source.read("customers-0/records/0.jsonl"),
    "problems": lambda source: [source.read("customers-0/records/51.jsonl"), source.problems],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_no_read_has_the_canary(source: OpenedSource, read: Callable[[OpenedSource], Any]) -> None:
    found = seen(read(source))
    assert len(found) > 100
    assert found_in(found) == []


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_without_a_mask_each_read_has_it(
    tmp_path: Path, read: Callable[[OpenedSource], Any], request: pytest.FixtureRequest
) -> None:
    write_source(tmp_path / "data")
    with kafkafs.open(tmp_path / "data") as opened:
        assert found_in(seen(read(opened))) != []


REFUSED: dict[str, Callable[[OpenedSource], Any]] = {
    "logs": lambda source: source.logs,
    "view": lambda source: source["customers", 0].view(),
    "log": lambda source: source["customers", 0].log,
    "check": lambda source: list(source.check()),
    "bytes": lambda source: source.read("customers-0/offset/0.value"),
    "segments": lambda source: source.names("customers-0/segments"),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED)
def test_raw_bytes_are_refused(source: OpenedSource, ask: Callable[[OpenedSource], Any]) -> None:
    with pytest.raises(MaskedError):
        ask(source)


def test_searches_for_masked_keys_are_refused(source: OpenedSource) -> None:
    with pytest.raises(ValueError, match="the mask hides the keys of customers"):
        source.scan("customers", keys=[f"key-{CANARY}"])
    with pytest.raises(ValueError, match="the mask hides the keys"):
        source["customers", 0].scan(keys=["x"])
    assert source.scan("other", keys=["k"]).count() == 3
    with pytest.raises(ValueError, match="the mask hides the keys of customers"):
        source["customers", 0].newest(f"key-{CANARY}")
    newest = source["other", 0].newest("k")
    assert newest is not None
    assert newest.offset == 2


def test_the_newest_record_of_a_key_is_masked(tmp_path: Path) -> None:
    write_source(tmp_path / "data")
    policy = written_policy(tmp_path, FIELDS_ALONE)
    with kafkafs.open(tmp_path / "data", mask=policy) as opened:
        newest = opened["customers-dlq", 0].newest(f"key-{CANARY}")
        assert newest is not None
        assert newest.value == opened["customers-dlq", 0][newest.offset].value
        with pytest.raises(kafkafs.CorruptBatchError) as caught:
            opened["customers", 0].newest("none")
        assert found_in(str(caught.value).encode()) == []


def test_damage_is_told_without_facts_from_records(source: OpenedSource) -> None:
    with pytest.raises(kafkafs.CorruptBatchError, match="the records cannot be read") as caught:
        list(source["customers", 0])
    assert (caught.value.expected, caught.value.found) == (None, None)
    with pytest.raises(kafkafs.CorruptBatchError, match="the records cannot be read"):
        source["customers", 0][68]


def test_a_condition_sees_masked_values(source: OpenedSource) -> None:
    hashed = hmac.new(KEY.encode(), f"key-{CANARY}".encode(), hashlib.sha256).hexdigest()
    scan = source.scan("customers", where=pc.field("key") == hashed.encode(), on_corrupt="skip")
    assert scan.count() > 20
    raw = pc.field("key") == f"key-{CANARY}".encode()
    assert source.scan("customers", where=raw, on_corrupt="skip").count() == 0


def test_rows_and_lines_and_records_have_the_same_hashes_and_values(source: OpenedSource) -> None:
    lines = [json.loads(line) for line in source.read("customers-0/offset/0..17").splitlines()]
    rows = (
        source["customers", 0]
        .scan(offsets=(0, 17), columns=["key", "value"])
        .to_arrow()
        .to_pylist()
    )
    for at, (line, row) in enumerate(zip(lines, rows, strict=True)):
        record = source["customers", 0][at]
        assert (record.key, record.value) == (row["key"], row["value"])
        for name in ("key", "value"):
            shown = "unreadable" if line.get(f"{name}Masked") == "unreadable" else line.get(name)
            text = None if row[name] is None else row[name].decode()
            assert text == shown or (text is not None and json.loads(text) == shown)
        decoded = record.decoded()
        for side, name in ((decoded.key, "key"), (decoded.value, "value")):
            is_hidden = line.get(f"{name}Masked") == "unreadable"
            assert side == ("unreadable" if is_hidden else line.get(name))


def test_notes_say_what_was_masked_whole(source: OpenedSource) -> None:
    rows = source["customers", 0].scan(offsets=(7, 8), columns=["keyNote", "valueNote", "value"])
    assert rows.to_arrow().to_pylist() == [
        {"keyNote": "masked: hashed", "valueNote": "masked: dropped", "value": None}
    ]


def test_fields_of_schemas_are_masked_in_values_and_decoded_values(tmp_path: Path) -> None:
    data = DATA / "schemas-confluent" / "data"
    with kafkafs.open(data) as plain:
        topics = [name for name in plain.topics if name != "_schemas"]
        columns = ["topic", "offset", "decodedValue", "value"]
        before = plain.scan(topics, columns=columns).to_arrow().to_pylist()
    fields = sorted({
        name
        for row in before
        if row["decodedValue"] and isinstance(value := json.loads(row["decodedValue"]), dict)
        for name, each in value.items()
        if isinstance(each, str) and len(each) > 3
    })  # fmt: skip
    assert fields
    rules = "".join(f'{json.dumps(".value." + json.dumps(name))} = "hash"\n' for name in fields)
    text = f'key_file = "mask.key"\n[[rules]]\ntopics = ["*"]\n[rules.fields]\n{rules}'
    with kafkafs.open(data, mask=written_policy(tmp_path, text)) as masked:
        after = masked.scan(topics, columns=columns).to_arrow().to_pylist()
        with pytest.raises(ValueError, match="not with a mask"):
            masked.scan(topics[0], decode="columns")
    compared = 0
    for old, new in zip(before, after, strict=True):
        if old["decodedValue"] is None:
            continue
        was = json.loads(old["decodedValue"])
        if not isinstance(was, dict):
            continue
        now = json.loads(new["decodedValue"])
        assert json.loads(new["value"]) == now
        for name, value in was.items():
            if name in fields and isinstance(value, str):
                expected = hmac.new(KEY.encode(), value.encode(), hashlib.sha256).hexdigest()
                assert now[name] == expected
                compared += 1
            elif name not in fields:
                assert now[name] == value
    assert compared


def test_a_policy_that_cannot_be_used_opens_nothing(tmp_path: Path) -> None:
    write_source(tmp_path / "data")
    with pytest.raises(MaskPolicyError):
        kafkafs.open(tmp_path / "data", mask=tmp_path / "none.toml")


def test_a_log_in_no_folder_of_a_topic_is_refused(tmp_path: Path) -> None:
    write_source(tmp_path / "data")
    loose = tmp_path / "anything.log"
    loose.write_bytes((tmp_path / "data/customers-0" / f"{0:020}.log").read_bytes())
    with pytest.raises(MaskPolicyError, match="in no folder such as orders-0"):
        kafkafs.open(loose, mask=written_policy(tmp_path))
