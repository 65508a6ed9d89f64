"""`kafkafs get` prints the newest record of a key, and never claims more than it has read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.builders import Producer, Rec, batch, end_marker
from tests.fixtures_data import DATA, WITH_TRUTH, log_dir, truth_partitions, truth_records
from tests.kafkafs.built_logs import BuiltLog

SAMPLE = log_dir("sample")
MOST_KEYS = 4


def get(source: Path, *arguments: object) -> Result:
    return CliRunner().invoke(cli, ["get", str(source), *map(str, arguments)])


def places(done: Result) -> list[tuple[int, int]]:
    """Partition and offset of each printed line."""
    return [
        (each["partition"], each["offset"]) for each in map(json.loads, done.stdout.splitlines())
    ]


def record(key: bytes, value: bytes | None, offset: int) -> bytes:
    return batch([Rec(value, key=key)], offset)


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("committed", [False, True], ids=["all", "committed"])
@pytest.mark.parametrize("kind", WITH_TRUTH)
def test_the_newest_record_and_the_history_are_those_that_a_consumer_got(
    kind: str, committed: bool
) -> None:
    asked = 0
    options = ["--committed"] if committed else []
    for name in truth_partitions(kind):
        topic, _, number = name.rpartition("-")
        records = truth_records(kind, name, committed)
        keys = sorted({each.key for each in records if each.key is not None})
        for key in keys[:: len(keys) // MOST_KEYS + 1]:
            own = [each for each in records if each.key == key]
            arguments = [topic, key.hex(), "--key-format", "hex", "-p", number, *options]
            newest = get(log_dir(kind), *arguments)
            assert newest.exit_code == 0, newest.output
            assert places(newest) == [(int(number), own[-1].offset)]
            history = places(get(log_dir(kind), *arguments, "--all"))
            assert history == [(int(number), each.offset) for each in own]
            value = get(log_dir(kind), *arguments, "--value")
            assert value.stdout_bytes == (own[-1].value or b"")
            assert value.exit_code == (own[-1].value is None)
            asked += 1
    assert asked > MOST_KEYS


def test_only_the_segments_up_to_the_first_with_the_key_are_read(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    for offset in (0, 1, 2):
        log.segment([record(b"k%d" % offset, b"v", offset)], offset)
    assert "segments first: 1 of 3" in get(tmp_path, "orders", "k2").stderr
    assert "segments first: 3 of 3" in get(tmp_path, "orders", "k0").stderr


def test_a_key_that_begins_or_ends_like_another_is_another(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    keys = [b"k", b"k1", b"1k", b"K", b"", None]
    log.segment([batch([Rec(b"k", key=key) for key in keys])], 0)
    assert [places(get(tmp_path, "orders", key)) for key in ("k", "k1", "K", "")] == [
        [(0, 0)],
        [(0, 1)],
        [(0, 3)],
        [(0, 4)],
    ]


@pytest.mark.parametrize(
    ("form", "text"), [("text", "café"), ("hex", "636166c3a9"), ("base64", "Y2Fmw6k=")]
)
def test_a_key_has_one_of_three_forms(tmp_path: Path, form: str, text: str) -> None:
    BuiltLog(tmp_path).segment([record("café".encode(), b"v", 0)], 0)
    assert places(get(tmp_path, "orders", text, "--key-format", form)) == [(0, 0)]


@pytest.mark.parametrize("form", ["hex", "base64"])
def test_a_key_without_its_form_is_refused(tmp_path: Path, form: str) -> None:
    BuiltLog(tmp_path).segment([record(b"k", b"v", 0)], 0)
    done = get(tmp_path, "orders", "k!", "--key-format", form)
    assert (done.exit_code, done.stdout) == (2, "")


def test_a_tombstone_is_the_newest_record_and_has_no_value(tmp_path: Path) -> None:
    BuiltLog(tmp_path).segment([record(b"k", b"v", 0), record(b"k", None, 1)], 0)
    line = json.loads(get(tmp_path, "orders", "k").stdout)
    assert (line["offset"], line["value"]) == (1, None)
    done = get(tmp_path, "orders", "k", "--value", "-q")
    assert (done.exit_code, done.stdout) == (1, "")
    assert (
        done.stderr == "kafkafs: orders-0: the newest record of the key is a tombstone (offset 1)\n"
    )


def test_a_value_is_written_byte_for_byte(tmp_path: Path) -> None:
    BuiltLog(tmp_path).segment([record(b"k", b"\x00\xff\n", 0)], 0)
    assert get(tmp_path, "orders", "k", "--value").stdout_bytes == b"\x00\xff\n"


def test_a_key_without_a_record_is_one_line_and_status_1(tmp_path: Path) -> None:
    BuiltLog(tmp_path).segment([record(b"k", b"none", 0)], 0)
    done = get(tmp_path, "orders", "none", "-q")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_the_key_of_a_control_record_is_no_key(tmp_path: Path) -> None:
    producer = Producer(id=1, epoch=0, sequence=0)
    marker = end_marker(1, producer=producer, commit=True)
    first = batch([Rec(b"v", key=b"k")], producer=producer, transactional=True)
    BuiltLog(tmp_path).segment([first, marker], 0)
    done = get(tmp_path, "orders", "00000001", "--key-format", "hex")
    assert (done.exit_code, done.stdout) == (1, "")


def in_two_partitions(folder: Path) -> Path:
    """The murmur2 of k1 sends it to partition 1 of 2; somebody wrote it to partition 0 as well."""
    for number in (0, 1):
        BuiltLog(folder, f"orders-{number}").segment([record(b"k1", b"v%d" % number, 0)], 0)
    return folder


def test_all_partitions_with_the_key_are_named_and_printed(tmp_path: Path) -> None:
    done = get(in_two_partitions(tmp_path), "orders", "k1", "-q")
    assert (done.exit_code, places(done)) == (0, [(0, 0), (1, 0)])
    assert "2 partitions hold the key: orders-0 (offset 0), orders-1 (offset 0)" in done.stderr
    value = get(tmp_path, "orders", "k1", "--value", "-q")
    assert (value.exit_code, value.stdout) == (1, "")


def test_only_the_partition_of_the_default_partitioner_is_read_on_request(tmp_path: Path) -> None:
    in_two_partitions(tmp_path)
    done = get(tmp_path, "orders", "k1", "--partitioner", "murmur2:2", "--value")
    assert done.stdout == "v1"
    assert "read orders-1," in done.stderr
    unknown = get(tmp_path, "orders", "k1", "--partitioner", "murmur2")
    assert (unknown.exit_code, "is unknown" in unknown.stderr) == (2, True)
    missing = get(tmp_path, "orders", "k1", "--partitioner", "murmur2:100")
    assert (missing.exit_code, "does not have" in missing.stderr) == (2, True)
    assert get(tmp_path, "orders", "k1", "--partitioner", "crc32").exit_code == 2


def test_the_clusters_metadata_states_the_number_of_partitions() -> None:
    # The topic has 3 partitions; the source has the first one.
    assert get(log_dir("current"), "orders", "k2", "--partitioner", "murmur2").exit_code == 0
    done = get(log_dir("current"), "orders", "k1", "--partitioner", "murmur2")
    words = "kafkafs: murmur2 sends the key to partition 2 of 3, which the source does not have\n"
    assert (done.exit_code, done.stderr) == (2, words)


def test_damage_after_the_record_may_hide_a_newer_one(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([record(b"k", b"old", 0)], 0)
    log.segment([damaged(record(b"k", b"new", 1)), record(b"x", b"k", 2)], 1)
    done = get(tmp_path, "orders", "k", "-q")
    assert (done.exit_code, places(done)) == (3, [(0, 0)])
    assert "may not be the newest of the key" in done.stderr
    none = get(tmp_path, "orders", "y", "-q")
    assert (none.exit_code, none.stdout) == (3, "")


def test_damage_before_the_record_hides_none(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([damaged(record(b"k", b"old", 0)), record(b"k", b"new", 1)], 0)
    done = get(tmp_path, "orders", "k", "-q")
    assert (done.exit_code, places(done), done.stderr) == (0, [(0, 1)], "")
    assert get(tmp_path, "orders", "k", "--all", "-q").exit_code == 3


def test_a_last_segment_that_is_damaged_as_a_whole_may_hide_a_newer_one(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([record(b"k", b"old", 0)], 0)
    log.segment([damaged(record(b"k", b"new", 1))], 1)
    assert get(tmp_path, "orders", "k", "-q").exit_code == 3


def test_records_below_the_log_start_are_no_records(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([record(b"k", b"old", 0), record(b"x", b"new", 1)], 0)
    log.start_at(1)
    assert get(tmp_path, "orders", "k").exit_code == 1


def test_an_unknown_topic_is_answered_with_a_similar_one() -> None:
    done = get(SAMPLE, "order", "k1")
    assert (done.exit_code, "did you mean orders" in done.stderr) == (2, True)


def test_the_whole_of_a_partitions_folder_is_a_source() -> None:
    assert places(get(SAMPLE / "orders-1", "orders", "k3")) == [(1, 930)]


@pytest.mark.parametrize(
    "options", [["--all", "--value"], ["--partition", "0", "--partitioner", "murmur2:2"]]
)
def test_options_that_contradict_each_other_are_refused(options: list[str]) -> None:
    assert get(SAMPLE, "orders", "k3", *options).exit_code == 2


SCHEMAS = DATA / "schemas-confluent" / "data"


def test_a_key_and_its_values_are_shown_by_their_schemas() -> None:
    for topic in ("avro-evolution", "proto-keys"):
        wanted = [
            line
            for line in CliRunner()
            .invoke(cli, ["cat", str(SCHEMAS), f"{topic}-0/offset/0.."])
            .stdout.splitlines()
            if '"keyEncoding":"' in line
        ]
        assert wanted
        for line in wanted:
            key = json.dumps(json.loads(line)["key"], indent=1)
            done = get(SCHEMAS, topic, "--key-format", "json", key, "--all")
            assert line in done.stdout.splitlines()
            assert done.exit_code == 0


def test_without_schemas_a_decoded_key_is_not_found_and_bytes_are_shown() -> None:
    found = [SCHEMAS, "avro-evolution", "--key-format", "json", '"user-0"']
    assert get(*found).exit_code == 0
    assert get(*found, "--schemas", "none").exit_code == 1
    bare = json.loads(get(*found[:2], "--schemas", "none", "--key-format", "hex",
                          "00000000090c757365722d30").stdout)  # fmt: skip
    assert bare["offset"] == 0
    assert "schema" not in bare


def test_the_order_of_names_and_spaces_do_not_count_in_a_json_key(tmp_path: Path) -> None:
    keys = [
        b'{"a":1,"b":[true]}',
        b'{"b":[true],"a":1}',
        b'{"a":1.5,"b":[1]}',
        b"text",
        b"\xff",
        None,
    ]
    BuiltLog(tmp_path).segment([batch([Rec(b"v", key=key) for key in keys])], 0)
    asked = [("orders", "--key-format", "json", key) for key in
             ('{"b": [true], "a": 1}', '"text"', '"/w=="', "null", '{"a":1,"b":[1]}')]  # fmt: skip
    assert [places(get(tmp_path, *each)) for each in asked] == [[(0, 1)], [(0, 3)], [], [], []]
    assert places(get(tmp_path, *asked[0], "--all")) == [(0, 0), (0, 1)]


def test_a_key_of_kafkas_own_topics_is_found_by_its_json() -> None:
    name = "__consumer_offsets"
    source = log_dir("current")
    lines = CliRunner().invoke(cli, ["cat", str(source), f"{name}-0/offset/0.."]).stdout
    first = json.loads(lines.splitlines()[0])
    done = get(source, name, "--key-format", "json", json.dumps(first["key"]), "-p", "0", "--all")
    assert json.loads(done.stdout.splitlines()[0]) == first


@pytest.mark.parametrize("options", [["{"], ['"k3"', "--partitioner", "murmur2:2"]])
def test_a_json_key_has_to_be_json_and_has_no_partition(options: list[str]) -> None:
    assert get(SAMPLE, "orders", "--key-format", "json", *options).exit_code == 2


def test_who_looks_for_the_text_of_a_decoded_key_is_told_how_to_find_it() -> None:
    source = log_dir("schemas-confluent")
    done = get(source, "python-avro", "b")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].endswith(
        "its keys have the schema python-avro-key version 1 (id 9): --key-format json finds them"
        " by their JSON"
    )
    assert places(get(source, "python-avro", '"b"', "--key-format", "json")) == [(0, 1)]
    assert "schema" not in get(SAMPLE, "orders", "no such key").stderr
