"""kafkafs groups, transactions and topics: tables, JSON, exit statuses, one line for what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli, main
from kafkafs.cli.printing.terminal.table import duration, moment
from tests.builders import Producer, batch, end_marker, values
from tests.fixtures_data import copy_of, log_dir, truth_records
from tests.replayed_bytes import (
    NOW,
    TOPIC_ID,
    commit,
    flights,
    in_batches,
    share_group,
    share_snapshot,
    share_update,
    transaction_record,
    write_partition,
)

CURRENT = str(log_dir("current"))
CRASHED = str(log_dir("crashed"))
OFFSETS = "__consumer_offsets-0"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_groups_are_described_like_kafka_consumer_groups() -> None:
    result = run("groups", CURRENT, "billing-0")
    assert result.exit_code == 0
    header, row, *rest = result.stdout.splitlines()
    assert header.split() == [
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
        "HOST", "CLIENT-ID",
    ]  # fmt: skip
    assert row.split() == ["billing-0", "orders", "0", "50", "1000", "950", "-", "-", "-"]
    assert rest == [""]


def test_columns_stand_under_their_headers() -> None:
    header, row, *_ = run("groups", CURRENT, "billing-0").stdout.splitlines()
    for name, value in (("TOPIC", "orders"), ("LAG", "950"), ("PARTITION", "0 ")):
        at = header.index(name)
        assert row[at : at + len(value)] == value


def test_groups_as_json_are_one_object_a_line() -> None:
    [row] = lines(run("groups", CURRENT, "billing-0", "--json"))
    assert (row["group"], row["topic"], row["partition"]) == ("billing-0", "orders", 0)
    assert (row["currentOffset"], row["logEndOffset"], row["lag"]) == (50, 1000, 950)


@pytest.mark.parametrize("command", ["groups", "topics"])
def test_the_end_of_a_log_without_its_last_records_file_is_the_proven_one_and_told(
    tmp_path: Path, command: str
) -> None:
    source = copy_of("current", tmp_path, ["orders-0", OFFSETS, "__cluster_metadata-0"])
    max((source / "orders-0").glob("*.log")).unlink()
    result = run(command, str(source), "--json")
    rows = lines(result)
    if command == "topics":
        [orders] = [row for row in rows if row["name"] == "orders"]
        assert orders["partitions"][0]["logEndOffset"] == 1000
    else:
        billing = [row for row in rows if (row["topic"], row["partition"]) == ("orders", 0)]
        assert {(row["logEndOffset"], row["lag"]) for row in billing} == {(1000, 950)}
    assert "orders-0: offsets 790 to 999 (210) are gone" in result.stderr
    assert "the log end and the lag count the lost offsets" in result.stderr
    assert result.exit_code == 1


def test_a_group_that_is_not_there_is_named_with_status_1() -> None:
    result = run("groups", CURRENT, "nobody", "billing-0")
    assert result.exit_code == 1
    assert "nobody" in result.stderr
    assert "billing-0" in result.stdout


def test_names_and_states_of_groups() -> None:
    assert run("groups", CURRENT, "--list").stdout.split() == ["billing-0", "billing-2"]
    found = {row["group"]: row for row in lines(run("groups", CURRENT, "--state", "--json"))}
    assert {row["state"] for row in found.values()} == {"Empty"}
    assert run("groups", CURRENT, "--members").stdout == ""


def test_groups_as_of_a_time_before_all_are_none() -> None:
    result = run("groups", CURRENT, "--at", "2020-01-01T00:00:00Z")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("command", ["groups", "transactions", "topics"])
def test_a_time_that_is_none_is_wrong_usage(command: str) -> None:
    result = run(command, CURRENT, "--at", "soon")
    assert result.exit_code == 2
    assert "--at" in result.output


@pytest.mark.parametrize("command", ["groups", "transactions"])
def test_a_source_without_the_topic_is_one_line_and_status_3(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, CRASHED])
    error = capsys.readouterr().err
    assert (left.value.code, error.count("\n")) == (3, 1)
    assert "holds no partition of __" in error


def test_damage_is_a_warning_and_status_1_and_the_rest_is_shown(tmp_path: Path) -> None:
    batches = in_batches([commit("g", "t", number, number) for number in range(3)])
    broken = bytearray(batches[1])
    broken[70] ^= 1
    write_partition(tmp_path, OFFSETS, [batches[0], bytes(broken), batches[2]])
    result = run("groups", str(tmp_path), "--json")
    assert result.exit_code == 1
    assert [row["partition"] for row in lines(result)] == [0, 2]
    assert f"position {len(batches[0])}" in result.stderr


def test_names_do_not_drive_the_terminal(tmp_path: Path) -> None:
    write_partition(tmp_path, OFFSETS, in_batches([commit("a\x1b[31m\n", "t", 0, 1)]))
    for form in ("--list", "--offsets", "--state"):
        result = run("groups", str(tmp_path), form)
        assert "\x1b" not in result.stdout
        assert "a\\x1b[31m\\x0a" in result.stdout
    assert lines(run("groups", str(tmp_path), "--json"))[0]["group"] == "a\x1b[31m\n"


def test_transactional_ids_are_listed() -> None:
    found = {row["transactionalId"]: row for row in lines(run("transactions", CURRENT, "--json"))}
    assert found["tx-0"]["state"] == "Ongoing"
    assert found["tx-0"]["partitions"] == [{"topic": "open-txn", "partition": 0}]
    header, *rows = run("transactions", CURRENT).stdout.splitlines()
    assert header.split()[:2] == ["TRANSACTIONAL-ID", "PRODUCER-ID"]
    assert [row.split()[0] for row in rows] == sorted(found)


def test_open_transactions_need_no_coordinator() -> None:
    alone = str(log_dir("current") / "open-txn-0")
    [row] = lines(run("transactions", alone, "--open", "--json"))
    assert (row["topic"], row["firstOffset"], row["hangs"]) == ("open-txn", 50, None)
    result = run("transactions", alone, "--hanging")
    assert result.exit_code == 0
    assert "not known" in result.stdout


def test_a_hanging_transaction_is_a_finding(tmp_path: Path) -> None:
    writer = Producer(id=7, epoch=0, sequence=0)
    write_partition(
        tmp_path, "t-0",
        [batch(values("a", timestamp=NOW), producer=writer, transactional=True)],
    )  # fmt: skip
    ended = [batch(values("a", timestamp=NOW), producer=writer, transactional=True),
             end_marker(1, writer, commit=True)]  # fmt: skip
    write_partition(tmp_path, "u-0", ended)
    record = transaction_record(
        "tx", producerId=7, producerEpoch=0, transactionTimeoutMs=1, transactionStatus=4,
        transactionLastUpdateTimestampMs=NOW, transactionStartTimestampMs=NOW,
        transactionPartitions=[],
    )  # fmt: skip
    write_partition(tmp_path, "__transaction_state-0", in_batches([record]))
    result = run("transactions", str(tmp_path), "--hanging", "--json")
    assert result.exit_code == 1
    [row] = lines(result)
    assert (row["topic"], row["transactionalId"], row["hangs"]) == ("t", "tx", True)
    aged = run("transactions", str(tmp_path), "--hanging", "--at", str(NOW + 90_000))
    assert "1m 30s" in aged.stdout


def test_topics_are_described_by_the_metadata_log() -> None:
    result = run("topics", CURRENT, "orders")
    assert result.exit_code == 0
    heading, *rows = result.stdout.splitlines()
    assert heading.startswith("Topic: orders\tTopicId: ")
    assert len(rows) == 3
    assert "PartitionCount: 3\tReplicationFactor: 1" in heading
    [facts] = lines(run("topics", CURRENT, "orders", "--json"))
    assert facts["partitions"][0]["logEndOffset"] == 1000


def test_topics_are_described_by_their_folders_without_it() -> None:
    found = {facts["name"]: facts for facts in lines(run("topics", CRASHED, "--json"))}
    assert found["crash"]["topicId"]
    assert [row["partition"] for row in found["crash"]["partitions"]] == [0]
    assert "Leader: -" in run("topics", CRASHED, "crash").stdout


def test_topics_are_chosen_by_name_or_pattern() -> None:
    for text in ("orders", "or*", "/or.*/"):
        assert run("topics", CURRENT, "--list", text).stdout.split() == ["orders"]
        assert run("topics", CURRENT, "--list", "--topic", text).stdout.split() == ["orders"]
    assert run("topics", CURRENT, "no-such-topic").exit_code == 1
    assert run("topics", CURRENT, "/(/").exit_code == 2
    names = run("topics", CURRENT, "--list", "--exclude-internal").stdout.split()
    assert names
    assert not [name for name in names if name.startswith("__")]


@pytest.mark.parametrize("command", ["groups", "transactions", "topics"])
def test_help_has_examples(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"kafkafs {command} /var/lib/kafka/data" in result.stdout


def test_times_and_lengths_are_for_people() -> None:
    assert moment(NOW + 7) == "2023-11-14T22:13:20.007Z"
    assert (moment(None), moment(-1), moment(2**62)) == (None, None, str(2**62))
    assert [duration(each) for each in (0, 250, 61_000, 90_061_000, 3_600_000)] == [
        "0.000s", "0.250s", "1m 1s", "1d 1h", "1h 0m",
    ]  # fmt: skip


def share_group_in(folder: Path, *updates: dict[str, int]) -> None:
    """A share group beside a consumer group."""
    group = share_group("sharing", {TOPIC_ID: ("t", [0, 1])})
    write_partition(folder, OFFSETS, in_batches([group, commit("g", "t", 0, 2)]))
    write_partition(folder, "t-0", [batch(values("a", "b", "c", "d", "e"))])
    records = [
        share_snapshot("sharing", 0, startOffset=1, deliveryCompleteCount=1, leaderEpoch=3,
                       stateEpoch=6, stateBatches=flights((2, 2, 2, 1), (3, 3, 0, 4))),
        share_snapshot("sharing", 1),
    ]  # fmt: skip
    records += [share_update("sharing", 0, **told) for told in updates]
    write_partition(folder, "__share_group_state-0", in_batches(records))


def test_share_groups_have_start_offsets_and_lag(tmp_path: Path) -> None:
    share_group_in(tmp_path)
    result = run("groups", str(tmp_path))
    assert result.exit_code == 0
    shown = [line.split() for line in result.stdout.splitlines()]
    at = next(place for place, cells in enumerate(shown) if "START-OFFSET" in cells)
    assert shown[at] == [
        "GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LOG-END-OFFSET", "LAG",
        "STATE-EPOCH", "COMPLETE-COUNT", "MOST-DELIVERIES",
    ]  # fmt: skip
    assert shown[at + 1] == ["sharing", "t", "0", "3", "1", "5", "3", "6", "1", "4"]
    assert shown[at + 2] == ["sharing", "t", "1", "0", "-", "-", "-", "0", "-", "-"]
    assert ["g", "t", "0", "2", "5", "3", "-", "-", "-"] in shown


def test_share_groups_as_json_tell_the_records_in_flight(tmp_path: Path) -> None:
    share_group_in(tmp_path)
    row, _ = lines(run("groups", str(tmp_path), "sharing", "--json"))
    assert (row["group"], row["topic"], row["startOffset"], row["lag"]) == ("sharing", "t", 1, 3)
    assert [(each["deliveryState"], each["deliveryCount"]) for each in row["stateBatches"]] == [
        ("ACKNOWLEDGED", 1), ("AVAILABLE", 4),
    ]  # fmt: skip


def test_share_groups_as_of_a_time_have_what_counted_then(tmp_path: Path) -> None:
    share_group_in(tmp_path, {"startOffset": 4, "timestamp": NOW + 10})
    now, _ = lines(run("groups", str(tmp_path), "sharing", "--json"))
    then, _ = lines(run("groups", str(tmp_path), "sharing", "--json", "--at", str(NOW + 9)))
    assert (now["startOffset"], then["startOffset"]) == (4, 1)


def test_the_state_of_a_share_group_counts_its_partitions(tmp_path: Path) -> None:
    share_group_in(tmp_path)
    row = run("groups", str(tmp_path), "sharing", "--state").stdout.splitlines()[1]
    assert row.split()[:3] == ["sharing", "share", "Empty"]
    assert row.split()[-3:] == ["2", "0", "-"]
    [facts] = lines(run("groups", str(tmp_path), "sharing", "--state", "--json"))
    assert facts["sharedPartitions"] == 2


def test_what_is_missing_of_a_share_group_is_a_warning_with_status_1(tmp_path: Path) -> None:
    share_group_in(tmp_path)
    records = [share_update("sharing", 0, startOffset=2)]
    write_partition(tmp_path, "__share_group_state-0", in_batches(records))
    result = run("groups", str(tmp_path), "sharing")
    assert result.exit_code == 1
    assert (
        "sharing, t-0: __share_group_state-0, offset 0: an update without a snapshot"
        in result.stderr
    )
    assert run("groups", str(tmp_path), "g").exit_code == 0


# Times


def test_times_tell_the_age_of_the_next_record_and_since_when_a_group_stands_still() -> None:
    [row] = lines(run("groups", CURRENT, "billing-0", "--times", "--json", "--at", "1795236000000"))
    following = truth_records("current", "orders-0")[50]
    assert (row["nextOffset"], row["nextTimestamp"]) == (50, following.timestamp)
    assert row["ageMs"] == 1795236000000 - following.timestamp
    newest = max(each.timestamp for each in truth_records("current", "orders-0"))
    assert row["behindMs"] == newest - following.timestamp
    assert row["stillSince"] == row["commitTimestamp"]
    assert "47m 27s" in run("groups", CURRENT, "billing-0", "--times").stdout


def test_a_history_has_each_commit_and_ends_at_a_time() -> None:
    rows = lines(run("groups", CURRENT, "billing-0", "--history", "--json"))
    assert [row["offset"] for row in rows] == [10, 20, 30, 40, 50]
    until = str(rows[2]["commitTimestamp"])
    assert (
        len(lines(run("groups", CURRENT, "billing-0", "--history", "--json", "--at", until))) == 3
    )
    assert "billing-0" not in run("groups", CURRENT, "--history", "--topic", "txn").stdout


def test_a_long_history_in_a_terminal_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kafkafs.cli.cluster import group_times

    monkeypatch.setattr(group_times, "MOST_ROWS", 2)
    shown = run("groups", CURRENT, "billing-0", "--history").stdout
    assert "3 earlier commits: --json has all" in shown
    assert len(shown.splitlines()) == 4


def test_exported_offsets_are_those_that_were_committed_or_those_of_a_time() -> None:
    done = run("groups", CURRENT, "billing-0", "--export")
    assert (done.exit_code, done.stdout) == (0, "orders,0,50\n")
    several = run("groups", CURRENT, "--export")
    assert several.stdout == "billing-0,orders,0,50\nbilling-2,orders,2,50\n"
    assert "orders-2: its log is not here, so 50 may be outside of it" in several.stderr
    assert several.exit_code == 1
    at = truth_records("current", "orders-0")[70].timestamp
    timed = run("groups", CURRENT, "--export", "--at-time", str(at))
    assert timed.stdout == "billing-0,orders,0,70\n"
    assert "billing-2, orders-2 is left out: its log is not here" in timed.stderr
    late = run("groups", CURRENT, "billing-0", "--export", "--at-time", "2030-01-01")
    assert late.stdout == "orders,0,1000\n"
    assert run("groups", CURRENT, "--at-time", "2030-01-01").exit_code == 2


def test_an_offset_outside_of_the_log_is_exported_as_its_bound(tmp_path: Path) -> None:
    home = copy_of("current", tmp_path)
    (home / "log-start-offset-checkpoint").write_text("0\n1\norders 0 600\n")
    done = run("groups", str(home), "billing-0", "--export")
    assert (done.exit_code, done.stdout) == (1, "orders,0,600\n")
    assert "offset 50 is outside of the log, 600 to 1000: 600 is written" in done.stderr
