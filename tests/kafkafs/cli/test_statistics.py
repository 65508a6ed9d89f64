"""`kafkafs stats`: sums of what consumers saw, pictures in characters, and what was not counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.coding.compression import CompressionType
from kafkafs.cli import cli
from kafkafs.cli.printing.terminal.bars import sparkline, strip
from tests import builders
from tests.builders import Rec
from tests.fixtures_data import copy_of, log_dir, truth_records
from tests.kafkafs.built_logs import BuiltLog

NOW = 1_700_000_000_000
MINUTE_MS = 60_000


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["stats", *arguments])


def objects(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json").stdout.splitlines()]


def test_partitions_and_their_sum_are_what_consumers_saw() -> None:
    *partitions, total = objects(str(log_dir("sample")))
    for each in partitions:
        truth = truth_records("current", each["partition"])
        assert sum(codec["records"] for codec in each["codecs"].values()) == len(truth)
        assert sum(records for _, records in each["times"]) == len(truth)
        assert each["firstTimestamp"] == min(record.timestamp for record in truth)
        assert each["lastTimestamp"] == max(record.timestamp for record in truth)
        assert each["recordsWithoutKey"] == sum(record.key is None for record in truth)
    assert total["records"] == sum(each["records"] for each in partitions) == 2661
    assert total["bytes"] == sum(each["bytes"] for each in partitions)


def test_a_table_has_a_row_for_each_partition_codec_and_topic() -> None:
    result = run(str(log_dir("current")), "--topic", "codec-zstd,__transaction_state")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    row = next(line for line in lines if line.startswith("codec-zstd-0 ")).split()
    assert row[1:6] == ["55870", "25", "900", "zstd", "2.38"]
    skew = next(line for line in lines if line.startswith("__transaction_state "))
    assert skew.split() == ["__transaction_state", "2", "148", "105", "1.42"]
    assert lines[-1] == "3 partitions, 1,048 records, 74,850 bytes"


def test_the_sparkline_rises_where_the_records_are(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    batches = [
        builders.batch([Rec(b"v", None, NOW + minute * MINUTE_MS)] * records, minute * 100)
        for minute, records in ((0, 1), (1, 50), (3, 100))
    ]
    log.segment(batches, 0)
    text = run(str(tmp_path)).stdout
    assert "▁▅ █" in text


def test_damage_is_named_and_is_status_1(tmp_path: Path) -> None:
    copy = copy_of("sample", tmp_path)
    log = copy / "orders-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[5000] ^= 1
    log.write_bytes(data)
    result = run(str(copy))
    assert result.exit_code == 1
    assert "Not counted: 2,021 damaged bytes in 1 hole; see kafkafs check" in result.stdout


def test_records_that_do_not_decode_are_named_and_are_status_1(tmp_path: Path) -> None:
    batch = builders.batch([Rec(b"v", b"k", NOW)], 0, CompressionType.ZSTD, section=b"no frame")
    BuiltLog(tmp_path).segment([batch], 0)
    result = run(str(tmp_path))
    assert result.exit_code == 1
    assert "Not counted: records of 1 place" in result.stdout


def test_an_empty_choice_is_an_error() -> None:
    result = run(str(log_dir("sample")), "--topic", "no-such-topic")
    assert result.exit_code != 0
    assert "no-such-topic" in result.output


@pytest.mark.parametrize(
    ("holes", "drawn"),
    [
        ([(0, 1)], "X---------"),
        ([(999, 1)], "---------X"),
        ([(0, 1000)], "XXXXXXXXXX"),
        ([(500, 100), (900, 5)], "-----X---X"),
        ([], "----------"),
    ],
)
def test_a_strip_has_its_holes_to_scale(holes: list[tuple[int, int]], drawn: str) -> None:
    assert strip(1000, holes, 10) == drawn


def test_where_blocks_cannot_be_printed_a_sparkline_has_other_characters() -> None:
    assert sparkline([0, 1, 8], "ascii").isascii()
    assert sparkline([], "utf-8") == ""


def test_keys_are_shown_by_partition_as_a_table_and_as_json(tmp_path: Path) -> None:
    keys = [b"a", b"b", b"a", None, b"\xff"]
    path = BuiltLog(tmp_path).segment([builders.batch([Rec(b"v", key=key) for key in keys])], 0)
    (found,) = objects(str(tmp_path), "--keys")
    assert found == {
        "type": "keys", "partition": "orders-0", "records": 5, "recordsWithoutKey": 1, "keys": 3,
        "keysAreExact": True, "recordsAreTooFewByUpTo": 0,
        "frequentKeys": [{"key": "a", "records": 2}, {"key": "b", "records": 1},
                         {"key": "ff", "keyEncoding": "hex", "records": 1}],
    }  # fmt: skip
    table = run(str(tmp_path), "--keys")
    assert [line.split() for line in table.stdout.splitlines()][1:5:3] == [
        ["orders-0", "5", "20.0%", "3", "40.0%", "80.0%", "80.0%"],
        ["orders-0", "a", "2", "40.0%"],
    ]
    assert table.exit_code == 0
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    damaged = run(str(tmp_path), "--keys")
    assert (damaged.exit_code, "checksum" in damaged.stderr) == (1, True)


def hours_of(folder: Path) -> dict[tuple[str, int], int]:
    return {
        (each["topic"], each["timestamp"]): each["records"]
        for each in objects(str(folder), "--hours")
    }


def test_hours_have_the_records_of_all_partitions_of_a_topic(tmp_path: Path) -> None:
    hour = 3_600_000
    wanted: dict[tuple[str, int], int] = {}
    for folder, parts in {
        "orders-0": ((0, 3), (1, 2), (60, 5)),
        "orders-1": ((1, 4),),
        "other-0": ((2, 1),),
    }.items():
        log = BuiltLog(tmp_path, folder)
        log.segment(
            [
                builders.batch([Rec(b"v", None, NOW + number * hour)] * records, number * 100)
                for number, records in parts
            ],
            0,
        )
        for number, records in parts:
            key = folder[:-2], (NOW + number * hour) // hour * hour
            wanted[key] = wanted.get(key, 0) + records
    assert hours_of(tmp_path) == wanted
    first = objects(str(tmp_path), "--hours")[0]
    assert (first["hours"], first["recordsPerSecond"]) == (1, 3 / 3600)
    rows = run(str(tmp_path), "--hours").stdout.splitlines()
    assert rows[1].split() == ["orders", "2023-11-14T22:00Z", "1", "3", "0.001"]
    assert run(str(tmp_path), "--hours", "--keys").exit_code == 2


def test_rows_are_longer_where_there_are_too_many_hours(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    hour = 3_600_000
    log.segment(
        [builders.batch([Rec(b"v", None, NOW + each * hour)], each) for each in range(2000)], 0
    )
    found = objects(str(tmp_path), "--hours")
    assert {each["hours"] for each in found} == {6}
    assert sum(each["records"] for each in found) == 2000
    assert max(each["recordsPerSecond"] for each in found) == pytest.approx(1 / 3600)


def test_keys_are_shown_as_their_schemas_decode_them() -> None:
    folder = str(log_dir("schemas-confluent"))
    (found,) = objects(folder, "--keys", "--topic", "python-avro")
    assert [(each["key"], each["keyEncoding"]) for each in found["frequentKeys"]] == [
        ("a", "avro"),
        ("b", "avro"),
        ("c", "avro"),
    ]
    table = run(folder, "--keys", "--topic", "proto-keys").stdout
    assert '{"id":0}' in table
