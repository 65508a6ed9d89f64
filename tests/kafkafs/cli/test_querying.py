"""`kafkafs sql` answers from topics alone, reads what the query needs, and hides no damage."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

import kafkafs
from engine.coding.varint import encode_varlong
from engine.files.source_files import SourceFile
from kafkafs.cli import cli
from kafkafs.cli.querying import _in_text
from tests.builders import Rec, batch
from tests.fixtures_data import copy_of, log_dir, truth_records
from tests.kafkafs.built_logs import BuiltLog
from tests.schema_records import schema_record, write_topic

SAMPLE = log_dir("sample")


def sql(query: str, source: Path | str, *arguments: object) -> Result:
    return CliRunner().invoke(cli, ["sql", query, str(source), *map(str, arguments)])


def rows(query: str, source: Path | str, *arguments: object) -> list[dict[str, Any]]:
    done = sql(query, source, "--json", *arguments)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("committed", [False, True], ids=["all", "committed"])
def test_a_topic_has_the_records_that_a_consumer_got(committed: bool) -> None:
    options = ["--committed"] if committed else []
    for topic, numbers in (("orders", (0, 1)), ("txn", (0,))):
        found = rows(
            'select partition, "offset", epoch_ms(timestamp) as ms, key, value'
            f" from {topic} order by 1, 2",
            SAMPLE,
            *options,
        )
        wanted = [
            (number, each.offset, each.timestamp, each.key, each.value)
            for number in numbers
            for each in truth_records("current", f"{topic}-{number}", committed)
        ]
        shown = [
            (
                *(row["partition"], row["offset"], row["ms"]),
                *(None if row[name] is None else row[name].encode() for name in ("key", "value")),
            )
            for row in found
        ]
        assert shown == wanted


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ("select offset from orders", '"offset"'),
        ("select count(*) from payments.eu", '"payments.eu"'),
        ("select offset, key from pay-de", '"pay-de" and "offset"'),
    ],
)
def test_the_error_of_a_name_without_quotes_says_how_to_write_it(
    tmp_path: Path, query: str, quoted: str
) -> None:
    for topic in ("orders", "payments.eu", "pay-de"):
        BuiltLog(tmp_path, f"{topic}-0").segment([batch([Rec(b"a", b"k")])], 0)
    done = sql(query, tmp_path)
    assert done.exit_code == 2
    assert done.stderr.rstrip().endswith(f" Write {quoted} with the double quotes")
    good = query.replace("payments.eu", '"payments.eu"').replace("pay-de", '"pay-de"')
    assert sql(good.replace("offset", '"offset"'), tmp_path).exit_code == 0


def test_an_error_that_quotes_do_not_mend_does_not_name_them() -> None:
    done = sql("select nothing from orders limit 1 offset 3", SAMPLE)
    assert done.exit_code == 2
    assert "double quotes" not in done.stderr


def test_source_and_query_may_be_given_the_other_way_round() -> None:
    done = CliRunner().invoke(cli, ["sql", str(SAMPLE), "from txn select count(*) as n", "--json"])
    assert json.loads(done.stdout) == rows("from txn select count(*) as n", SAMPLE)[0]


def test_a_pivot_only_reads() -> None:
    (row,) = rows("pivot orders on partition using count(*) group by topic", SAMPLE)
    assert row == {"topic": "orders", "0": 1000, "1": 1000}


@pytest.mark.parametrize("topic", ["duckdb_tables", "duckdb_settings", "sqlite_master"])
def test_a_topic_may_have_the_name_of_a_table_of_duckdb(tmp_path: Path, topic: str) -> None:
    for name in ("orders", topic):
        BuiltLog(tmp_path, f"{name}-0").segment([batch([Rec(b"a", b"k")])], 0)
    assert rows(f"select topic from {topic}", tmp_path) == [{"topic": topic}]
    assert rows("select topic from orders", tmp_path) == [{"topic": "orders"}]


def test_a_query_that_names_no_topic_needs_no_pyarrow() -> None:
    code = (
        "import sys; from kafkafs.cli import cli\n"
        f"cli(['sql', 'select 1 as one', {str(SAMPLE)!r}, '--csv'], standalone_mode=False)\n"
        "assert 'pyarrow' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "one\n1\n"), ran.stderr


def test_the_lists_of_views_name_every_topic() -> None:
    names = rows("select table_name from information_schema.tables order by 1", SAMPLE)
    assert [each["table_name"] for each in names] == ["orders", "txn"]


def test_decoded_values_are_those_of_the_record_lines() -> None:
    source = log_dir("schemas-confluent")
    lines = CliRunner().invoke(cli, ["grep", "", str(source)]).stdout.splitlines()
    wanted = {
        (line["topic"], line["partition"], line["offset"]): line["value"]
        for line in map(json.loads, lines)
        if line.get("valueEncoding") in ("avro", "protobuf", "json-schema", "json")
    }
    assert wanted
    found = {}
    for topic in {topic for topic, _, _ in wanted}:
        query = f'select topic, partition, "offset", decodedValue from "{topic}" where decodedValue is not null'
        for row in rows(query, source, "--decode", "json"):
            place = row["topic"], row["partition"], row["offset"]
            found[place] = json.loads(row["decodedValue"])
    assert found == wanted


TYPED = log_dir("schemas-confluent")


@pytest.mark.parametrize("topic", ["python-avro", "avro-logical", "avro-types", "avro-evolution"])
def test_decoded_columns_have_the_types_of_the_newest_schema(topic: str) -> None:
    with kafkafs.open(TYPED) as source:
        table = source.scan(topic, columns=["value", "valueNote"], decode="columns").to_arrow()
        wanted = duckdb.from_arrow(table)
    names = rows(f'select column_name from (describe "{topic}")', TYPED)
    assert {"column_name": "decodedValue"} in names
    found = sql(f'select decodedValue, valueNote from "{topic}"', TYPED, "--csv").stdout
    assert found.replace("decodedValue", "value", 1) == csv_of(wanted)


def csv_of(relation: Any) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(relation.columns)
    writer.writerows(map(_in_text, row) for row in relation.fetchall())
    return text.getvalue()


def test_fields_of_decoded_columns_are_selected_and_compared() -> None:
    query = 'select decodedValue.id, decodedValue.amount from "python-avro" where decodedValue.amount > 12.5'
    assert rows(query, TYPED) == [{"id": 3, "amount": "37.02"}]


def test_a_value_of_another_type_is_null_with_a_note_and_json_on_request() -> None:
    query = 'select decodedValue, valueNote from "avro-evolution" where "offset" = 0'
    (typed,) = rows(query, TYPED)
    assert typed["decodedValue"] is None
    assert typed["valueNote"].startswith("the value does not fit the column: field id:")
    (text,) = rows(query, TYPED, "--decode", "json")
    assert json.loads(text["decodedValue"])["id"] == 1
    assert text["valueNote"] is None


def test_values_that_are_null_in_a_column_are_told_of_without_their_notes() -> None:
    told = (
        "kafkafs: proto-keys: some decoded columns are null: the value does not fit the column: it is a message"
        " NoPackage.In, not NoPackage (keyNote and valueNote have all reasons, --decode json has the values)"
    )
    for query, said in (
        ('select decodedValue.name from "proto-keys"', [told]),
        ('select decodedKey from "proto-keys"', []),
        ('select decodedValue, valueNote from "proto-keys"', []),
        ('select decodedValue.id from "python-avro"', []),
    ):
        done = sql(query, TYPED)
        assert (done.exit_code, done.stderr.splitlines()) == (0, said)


def test_times_of_protobuf_are_shown_to_the_microsecond() -> None:
    query = 'select decodedValue.times from "proto-known" where "offset" = 1'
    (row,) = rows(query, TYPED)
    assert row["times"] == [
        "1970-01-01T00:00:00.000Z",
        "0001-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999999Z",
        "2000-01-01T00:00:00.000001Z",
    ]


def test_a_time_that_duckdb_cannot_hold_is_null_with_a_note(tmp_path: Path) -> None:
    kinds = ("timestamp-millis", "local-timestamp-millis")
    fields = [
        {"name": kind.partition("-")[0], "type": {"type": "long", "logicalType": kind}}
        for kind in kinds
    ]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    times = [(1, 2), (2**62, 0), (0, 2**62)]
    framed = [
        b"\0" + (1).to_bytes(4, "big") + b"".join(map(encode_varlong, each)) for each in times
    ]
    write_topic(tmp_path, [schema_record(schema=schema)])
    BuiltLog(tmp_path).segment([batch([Rec(each) for each in framed], 0)], 0)
    found = rows("select decodedValue, valueNote from orders", tmp_path)
    assert [row["decodedValue"] for row in found] == [
        {"timestamp": "1970-01-01T00:00:00.001Z", "local": "1970-01-01T00:00:00.002"},
        {"timestamp": None, "local": "1970-01-01T00:00:00.000"},
        {"timestamp": "1970-01-01T00:00:00.000Z", "local": None},
    ]
    assert [row["valueNote"] is None for row in found] == [True, False, False]
    assert all("a time does not fit the column" in row["valueNote"] for row in found[1:])


def test_masked_topics_have_json_in_place_of_columns(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[[rules]]\ntopics = ["python-avro"]\nfields = { ".value.amount" = "drop" }\n'
    )
    query = 'select decodedValue from "python-avro" where "offset" = 0'
    (row,) = rows(query, TYPED, "--mask", policy)
    assert set(json.loads(row["decodedValue"])) == set(row_of_nothing_masked(query)) - {"amount"}


def row_of_nothing_masked(query: str) -> dict[str, Any]:
    (row,) = rows(query, TYPED, "--decode", "json")
    return dict(json.loads(row["decodedValue"]))


# -- what is read


def bytes_read(
    monkeypatch: pytest.MonkeyPatch, query: str, source: Path, *arguments: object
) -> int:
    """The bytes that are read of .log files."""
    total = 0

    def counted(name: str) -> Any:
        original = getattr(SourceFile, name)

        def read(self: SourceFile, *given: Any) -> Any:
            nonlocal total
            found = original(self, *given)
            if str(self.path).endswith(".log"):
                total += found if isinstance(found, int) else len(found)
            return found

        return read

    with monkeypatch.context() as patch:
        for name in ("read_at", "read_into"):
            patch.setattr(SourceFile, name, counted(name))
        assert sql(query, source, "-j", "1", *arguments).exit_code == 0
    return total


def test_a_condition_on_the_key_reads_its_partition_alone_for_who_names_the_partitioner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The murmur2 of "k1" sends it to partition 1 of 2; somebody wrote it to partition 0 as well.
    for number in (0, 1):
        log = BuiltLog(tmp_path, f"big-{number}")
        log.segment([batch([Rec(b"%d" % number, key=b"k1"), Rec(bytes(100_000))])], 0)
    query = "select partition, value from big where key = 'k1'"
    both = [{"partition": number, "value": f"{number}"} for number in (0, 1)]
    assert rows(query, tmp_path) == both
    assert rows(query, tmp_path, "--partitioner", "murmur2:2") == both[1:]
    whole = bytes_read(monkeypatch, query, tmp_path)
    one = bytes_read(monkeypatch, query, tmp_path, "--partitioner", "murmur2:2")
    assert one < whole * 0.6
    for other in ("key = 'k1' or value = '0'", "key >= 'k1'", "true"):
        query = f"select partition, value from big where value < 'a' and ({other})"
        assert rows(query, tmp_path, "--partitioner", "murmur2:2") == rows(query, tmp_path)
    unknown = sql("from big where key = 'k1'", tmp_path, "--partitioner", "murmur2")
    assert unknown.exit_code == 2
    assert "the number of partitions of 'big' is unknown" in unknown.stderr


def test_conditions_on_partition_and_offset_choose_the_bytes_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        log = BuiltLog(tmp_path, f"big-{number}")
        batches = [
            batch([Rec(bytes(1000))] * 10, first, base_timestamp=1_700_000_000_000 + first)
            for first in range(0, 5000, 10)
        ]
        log.segment(batches, 0)
    whole = bytes_read(monkeypatch, "select count(value) from big", tmp_path)
    assert whole > 4 * 5_000_000
    one = bytes_read(monkeypatch, "select count(value) from big where partition = 2", tmp_path)
    assert one < whole / 3.5
    few = bytes_read(
        monkeypatch,
        'select count(value) from big where partition = 2 and "offset" between 100 and 200',
        tmp_path,
    )
    assert few < one / 10
    nothing = bytes_read(
        monkeypatch, 'select count(value) from big where "offset" > 9000', tmp_path
    )
    assert nothing < one / 10


def test_explain_names_the_columns_and_conditions_that_reach_each_topic() -> None:
    done = sql(
        "select a.value from orders a where a.key = 'k35'::blob and a.timestamp >= '2023-11-14 22:30Z'",
        SAMPLE,
        "--explain",
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("orders:\n  2 partitions, ")
    assert "  columns: value\n" in done.stdout
    assert 'key == "6B3335"' in done.stdout
    assert "only batches with a timestamp at or after 1700001000000" in done.stdout
    narrow = sql('select 1 from orders where partition = 1 and "offset" < 3', SAMPLE, "--explain")
    assert "orders-1: offsets 0 to 3" in narrow.stdout
    assert "orders-0" not in narrow.stdout


@pytest.mark.parametrize(
    "condition",
    [
        '"offset" in (3, 5, 999)',
        '"offset" between 10 and 20 or "offset" = 99',
        "partition <> 0",
        "partition in (1, 7)",
        "key = 'k35'::blob",
        "key is null",
        "timestamp > '2023-11-14 22:40Z'",
        'timestamp is not null and "offset" % 7 = 0',
        "codec = 'zstd'",
        "length(headers) > 0",
        "decode(value) like '%Lagos%'",
        "topic = 'txn'",
    ],
)
def test_a_condition_means_what_it_means_without_pushdown(condition: str) -> None:
    pushed = rows(f'select partition, "offset" from orders where {condition} order by all', SAMPLE)
    held = rows(
        "with every as materialized (from orders)"
        f' select partition, "offset" from every where {condition} order by all',
        SAMPLE,
    )
    assert pushed == held


# -- safety


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("from read_csv('/etc/passwd')", "disabled"),
        ("from read_text('/etc/passwd')", "disabled"),
        ("from glob('/etc/*')", "disabled"),
        ("copy (select 1) to '/tmp/kafkafs-sql-test.csv'", "only reads"),
        ("attach '/tmp/kafkafs-sql-test.db'", "only reads"),
        ("load httpfs", "only reads"),
        ("install httpfs", "only reads"),
        ("set enable_external_access = true", "only reads"),
        ("create table t as select 1", "only reads"),
        ("delete from orders", "only reads"),
        ("select 1; drop view orders", "one statement"),
        ("", "one statement"),
        ("select * from nosuch", "nosuch"),
        ("selec 1", "syntax error"),
        ("select * from logs", "logs"),
    ],
)
def test_what_a_query_must_not_do_is_refused_in_one_line(query: str, said: str) -> None:
    done = sql(query, SAMPLE)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert not Path("/tmp/kafkafs-sql-test.csv").exists()


def test_files_are_reached_only_when_that_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "cities.csv"
    query = f"copy (select count(*) as n from orders) to '{file}'"
    assert sql(query, SAMPLE).exit_code == 2
    assert not file.exists()
    assert sql(query, SAMPLE, "--allow-files").exit_code == 0
    assert file.read_text() == "n\n2000\n"


@pytest.mark.parametrize(
    "topic", ['qu"ote', "a.b", "semi;colon", "it's", "é", "select", "-- x", "a b"]
)
def test_a_hostile_name_of_a_topic_is_a_quoted_view(tmp_path: Path, topic: str) -> None:
    BuiltLog(tmp_path, f"{topic}-0").segment([batch([Rec(b"v")], 0)], 0)
    quoted = topic.replace('"', '""')
    assert rows(f'select topic, value from "{quoted}"', tmp_path) == [
        {"topic": topic, "value": "v"}
    ]


def test_topics_that_sql_does_not_tell_apart_are_no_views(tmp_path: Path) -> None:
    for name in ("Orders-0", "orders-0"):
        BuiltLog(tmp_path, name).segment([batch([Rec(name.encode())], 0)], 0)
    done = sql("from orders", tmp_path)
    assert done.exit_code == 2
    assert "SQL does not tell Orders and orders apart" in done.stderr
    assert rows("select value from orders", tmp_path, "--topic", "Orders") == [
        {"value": "Orders-0"}
    ]


# -- damage, and output


def test_damage_is_reported_and_every_other_record_counts(tmp_path: Path) -> None:
    data = copy_of("current", tmp_path, ["orders-0"])
    path = min((data / "orders-0").glob("*.log"))
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    done = sql("select count(*) as n from orders", data, "--csv")
    assert (done.exit_code, done.stdout) == (1, "n\n987\n")
    assert f"{path}: byte 0: the batch's checksum is wrong" in done.stderr
    elsewhere = sql('select count(*) from orders where "offset" >= 500', data)
    assert elsewhere.exit_code == 0


def test_values_of_all_kinds_are_shown(tmp_path: Path) -> None:
    BuiltLog(tmp_path).segment([batch([Rec(b"\xff\x00"), Rec(None), Rec(b'a,"b"\n')], 0)], 0)
    query = (
        "select value, {'a': [1, null]} as nested, 1.50::decimal(4,2) as money, true as yes,"
        " date '2024-01-02' as day, 'NaN'::double as nan from orders order by \"offset\""
    )
    first, second, third = rows(query, tmp_path)
    assert first == {
        "value": {"base64": "/wA="},
        "nested": {"a": [1, None]},
        "money": "1.50",
        "yes": True,
        "day": "2024-01-02",
        "nan": "nan",
    }
    assert (second["value"], third["value"]) == (None, 'a,"b"\n')
    table = list(csv.reader(sql(query, tmp_path, "--csv").stdout.splitlines(keepends=True)))
    assert table[0] == ["value", "nested", "money", "yes", "day", "nan"]
    assert [row[0] for row in table[1:]] == ["base64:/wA=", "", 'a,"b"\n']
    assert sql("select 1 as one where false", tmp_path).stdout == "one\n"
