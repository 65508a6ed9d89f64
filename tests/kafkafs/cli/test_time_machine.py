"""All commands show the same source at a moment; `diff` prints what changed since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kafkafs
from engine.cut.opening import open_at
from kafkafs.cli import cli
from kafkafs.time_grammar import TimeGrammar
from tests.fixtures_data import log_dir

CURRENT = str(log_dir("current"))
AT = ("--at", "orders-0@500")
END = 494


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def committed(source: str, name: str, *at: str) -> str:
    """The lines that a read_committed reader gets of a partition."""
    return run("tail", source, name, "-n", "2000", "--committed", *at).stdout


def test_every_command_has_the_same_records_at_a_moment(tmp_path: Path) -> None:
    orders = ("--topic", "orders")
    assert run("offsets", CURRENT, *orders, *AT).stdout == f"orders:0:{END}\n"
    lines = run("cat", CURRENT, *orders, *AT).stdout.splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [*range(END)]
    assert run("grep", "-c", ".", CURRENT, "orders-0", *AT).stdout == f"{END}\n"
    assert json.loads(run("tail", CURRENT, "orders-0", "-n", "1", *AT).stdout)["offset"] == END - 1
    row, *_ = run("stats", CURRENT, *orders, "--json", *AT).stdout.splitlines()
    assert json.loads(row)["records"] == END
    exported = run("export", CURRENT, str(tmp_path / "out"), *orders, "--json", *AT)
    assert json.loads(exported.stdout)["records"] == END
    with kafkafs.open(CURRENT, at="orders-0@500") as source:
        assert source["orders", 0].end == END
        assert source.tree.resolve("orders-0/offset").lookup(str(END - 1))


def test_the_folder_of_a_moment_has_its_tree_and_is_not_listed() -> None:
    with kafkafs.open(CURRENT) as source:
        assert source.tree.resolve(f"at/orders-0@500/orders-0/offset/{END - 1}")
        with pytest.raises(kafkafs.NotFound):
            source.tree.resolve(f"at/orders-0@500/orders-0/offset/{END}")
        with pytest.raises(kafkafs.NotFound):
            source.tree.resolve("at/-2h")
        assert "at" not in [each.name for each in source.tree.root().entries()]


def test_a_folder_of_a_moment_is_read_on_after_many_other_moments() -> None:
    with kafkafs.open(CURRENT) as source:
        folder = source.tree.resolve("at/orders-0@500/orders-0/offset")
        for offset in range(600, 612):
            source.tree.resolve(f"at/orders-0@{offset}/orders-0")
        assert folder.lookup("100").open().read(0, 1 << 20)


def test_diff_prints_what_was_written_since(tmp_path: Path) -> None:
    result = run("diff", CURRENT, *AT, "--json")
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    [orders] = [row for row in rows if (row["kind"], row["name"]) == ("records", "orders-0")]
    assert (orders["before"], orders["after"]) == ([0, END], [0, 1000])
    same = run("diff", CURRENT, CURRENT)
    assert (same.exit_code, same.stdout) == (0, "")
    assert run("diff", CURRENT).exit_code == 2


def test_a_moment_that_is_not_there_is_one_line() -> None:
    for at, said in (
        ("before-delete:nothing", "no deletion of topic nothing"),
        ("after-transaction:tx-9", "no coordinator tells of a transaction of tx-9 that ended"),
        ("orders-0@5000", "orders-0 has no record at offset 5000"),
        ("soon", "is no moment"),
    ):
        result = run("offsets", CURRENT, "--at", at)
        text = f"{result.output} {result.exception}"
        assert result.exit_code
        assert said in " ".join(text.split())


def test_a_moment_after_a_transaction_has_it_and_not_the_next() -> None:
    with kafkafs.open(CURRENT) as source:
        ended = {name: each.record_timestamp for name, each in source.transactions.items()}
    for name in ("tx-1", "tx-2"):
        with kafkafs.open(CURRENT, at=f"after-transaction:{name}") as then:
            assert then.transactions[name].record_timestamp == ended[name]
            for each, timestamp in ended.items():
                assert each in then.transactions or timestamp > ended[name]


def test_a_deleted_topic_is_read_from_the_folder_that_is_set_aside() -> None:
    moment = TimeGrammar(0).moment("before-delete:doomed")
    assert moment is not None
    source = open_at(CURRENT, moment)
    assert "doomed-0" in source.partitions()
    assert source.partitions()["doomed-0"].view().log_end_offset > 0
    source.close()


def test_rebuild_and_recover_bring_back_what_was_there_before_a_topic_was_deleted(
    tmp_path: Path,
) -> None:
    before = ("--at", "before-delete:doomed")
    names = ("doomed-0", "txn-0")
    lines = [committed(CURRENT, each, *before) for each in names]
    assert all(lines)
    log_dirs = [tmp_path / "rebuilt", tmp_path / "recovered"]
    words = (*before, "--topic", "doomed,txn")
    assert run("rebuild", CURRENT, str(log_dirs[0]), *words).exit_code == 0
    assert run("recover", CURRENT, str(log_dirs[1]), *words).exit_code == 1
    for path in (log_dirs[0], log_dirs[1] / "node-1/data"):
        assert [committed(str(path), each) for each in names] == lines
    manifest = json.loads((log_dirs[0] / "kafkafs-rebuild.json").read_text())
    assert manifest["at"] == json.loads((log_dirs[1] / "kafkafs-rebuild.json").read_text())["at"]
    assert run("rebuild", CURRENT, "new", *before, "--to", "9").exit_code == 2


def test_a_log_dir_rebuilt_as_of_a_moment_has_no_open_transaction(tmp_path: Path) -> None:
    at = ("--at", "txn-0@300")
    lines = committed(CURRENT, "txn-0", *at)
    result = run("rebuild", CURRENT, str(tmp_path / "made"), "--topic", "txn", *at)
    assert result.exit_code == 0
    made = str(tmp_path / "made")
    assert run("transactions", made, "--open", "--json").stdout == ""
    assert committed(made, "txn-0") == lines


def test_groups_and_transactions_in_python_and_of_a_period_are_those_of_the_cut() -> None:
    with kafkafs.open(CURRENT) as source:
        stamps = [each.record_timestamp for each in source.transactions.values()]
        for moment in (int(sum(stamps) / len(stamps)), "orders-0@500"):
            with kafkafs.open(CURRENT, at=moment) as then:
                assert dict(source.groups.at(moment)) == dict(then.groups)
                assert dict(source.transactions.at(moment)) == dict(then.transactions)
                for name in then.groups:
                    assert source.groups.at(moment).lag(name) == then.groups.lag(name)
        for folder in ("groups", "transactions"):
            period, now = f"time/2030/{folder}", folder
            names = [each.name for each in source.tree.resolve(period).entries()]
            assert names == [each.name for each in source.tree.resolve(now).entries()]


def test_schemas_are_those_before_a_record() -> None:
    source = str(log_dir("schemas-confluent"))
    rows = run("schemas", source, "--json", "--at", "_schemas-0@10").stdout.splitlines()
    assert len(rows) == 8
    assert run("schemas", source, "--at", "before-delete:orders").exit_code


def test_explain_prints_the_evidence_of_each_end_and_what_is_gone_since() -> None:
    words = ("offsets", CURRENT, "-t", "orders,retained", *AT, "--explain")
    orders, retained = json.loads(run(*words, "--json").stdout)["partitions"]
    assert (orders["end"], orders["evidence"]) == (END, "the moment names this offset")
    assert retained["gone"].startswith("all of it")
    text = run(*words).stdout
    assert "the moment names this offset" in text
    assert "clocks" in text
    for wrong in (words[:-3], (*words, "--committed"), (*words, "--time", "earliest")):
        assert run(*wrong, "--explain").exit_code == 2


def test_diff_has_the_schemas_that_were_registered_since() -> None:
    source = str(log_dir("schemas-confluent"))
    result = run("diff", source, "--at", "_schemas-0@10", "--at", "_schemas-0@11", "--json")
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    [row] = [row for row in rows if row["kind"] == "schemas"]
    assert row["before"] is None
    assert row["after"].keys() == {"id", "schemaType", "state", "schema"}
