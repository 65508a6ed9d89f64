"""A selection that matches nothing is an error that names what there is."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkafs.cli import main
from tests.fixtures_data import log_dir

CURRENT = str(log_dir("current"))

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A command's exit status, output and complaints."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return call


@pytest.fixture
def without_partitions(tmp_path: Path) -> str:
    """A log dir in which no partition is."""
    shutil.copy(log_dir("current") / "meta.properties", tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize("command", ["check", "offsets"])
@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--topic", "order"),
        ("--topic", "orders,order"),
        ("--partition", "order-0"),
    ],
)
def test_an_option_that_matches_nothing_is_an_error(
    run: Run, command: str, option: str, text: str
) -> None:
    status, out, err = run(command, CURRENT, option, text)
    assert (status, out) == (2, "")
    assert err.startswith(f"kafkafs: no partition matches {option} order")
    assert "; the source has append-time-0, " in err
    assert "did you mean orders" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["check", "offsets"])
def test_a_partition_that_is_not_there_names_the_others_of_its_topic(
    run: Run, command: str
) -> None:
    for text in ("orders-7", "orders-0,orders-7"):
        status, _, err = run(command, CURRENT, "--partition", text)
        assert (status, err.partition("; ")[2]) == (2, "the source has orders-0\n")
    status, _, err = run("offsets", CURRENT, "--topic-partitions", "orders:7")
    assert (status, err) == (
        2,
        "kafkafs: no partition matches --topic-partitions orders:7; the source has orders-0\n",
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--topic", "orders"),
        ("-t", "or*rs"),
        ("--topic", "/or.*|nothing/"),
        ("--topic", "/(or){1,2}ders/", "-p", "0"),
        ("--partition", "orders-0"),
        ("--partition", "orders-[0-3]"),
        ("--partition", "/orders-\\d/"),
        ("--topic", "orders", "--partition", "0..1"),
        ("--topic-partitions", "orders:0"),
        ("--topic-partitions", "orders:0-1"),
        ("--topic-partitions", "or.*s"),
    ],
    ids=" ".join,
)
def test_a_partition_is_chosen_by_topic_number_or_folder(
    run: Run, options: tuple[str, ...]
) -> None:
    assert run("offsets", CURRENT, *options)[1] == "orders:0:1000\n"


def test_a_topic_with_dots_and_dashes_is_named_as_it_is(run: Run) -> None:
    found = run("offsets", CURRENT, "--topic", "mixed.codecs_in-one-7")[1]
    assert found.startswith("mixed.codecs_in-one-7:0:")
    _, out, _ = run("check", CURRENT, "--partition", "orders-0")
    assert "\n1 partition, " in f"\n{out}"


def test_several_topics_are_listed_or_the_option_is_repeated(run: Run) -> None:
    listed = run("offsets", CURRENT, "--topic", "orders,txn")[1]
    assert [line.partition(":")[0] for line in listed.splitlines()] == ["orders", "txn"]
    assert run("offsets", CURRENT, "-t", "txn", "-t", "orders")[1] == listed


def test_a_folder_or_a_regular_expression_as_a_topic_says_how_to_write_it(run: Run) -> None:
    assert "; did you mean --partition orders-0?" in run("check", CURRENT, "--topic", "orders-0")[2]
    assert "; did you mean --topic '/or.*s/'?" in run("check", CURRENT, "--topic", "or.*s")[2]


@pytest.mark.parametrize("text", ["/(/", "/open", "", "orders,", "5..2"])
def test_a_malformed_choice_is_a_usage_error(run: Run, text: str) -> None:
    option = "--partition" if text == "5..2" else "--topic"
    status, out, err = run("check", CURRENT, option, text)
    assert (status, out) == (2, "")
    assert f"Invalid value for {option}" in err


def test_a_topic_without_the_chosen_numbers_is_an_error(run: Run) -> None:
    status, _, err = run("check", CURRENT, "--topic", "orders", "--partition", "txn-0")
    assert (status, err) == (2, "kafkafs: no partition matches --topic and --partition together\n")


def test_two_selections_at_once_are_refused(run: Run) -> None:
    status, _, err = run("offsets", CURRENT, "--topic", "orders", "--topic-partitions", "txn")
    assert status == 2
    assert "cannot be used together" in err


def test_a_plan_of_some_partitions_does_not_speak_for_the_others(run: Run) -> None:
    _, out, _ = run("plan", CURRENT, "--topic", "orders")
    assert re.search(
        r"^1 of \d\d+ logs, as chosen, would load in a 4.4.0 broker: ", out, re.MULTILINE
    )
    assert run("plan", CURRENT, "--topic", "order")[0] == 2
    rows = [
        json.loads(line)
        for line in run("plan", CURRENT, "-p", "orders-0", "--json")[1].splitlines()
    ]
    assert [row["folder"] for row in rows if row["kind"] == "log"] == ["orders-0"]
    assert rows[-1]["plannedLogs"] == 1 < rows[-1]["logs"]


def test_a_dump_of_some_partitions_has_their_files_alone(run: Run) -> None:
    _, out, _ = run("dump", CURRENT, "--topic", "orders")
    files = {
        line.partition("Dumping ")[2] for line in out.splitlines() if line.startswith("Dumping ")
    }
    assert files
    assert all(file.startswith(f"{CURRENT}/orders-0/") for file in files)
    status, out, err = run("dump", CURRENT, "--topic", "order")
    assert (status, out) == (3, "")
    assert err == f"{CURRENT}: no partition matches --topic and --partition\n"


def test_groups_and_transactions_are_chosen_by_their_partitions(run: Run) -> None:
    every = [json.loads(line) for line in run("groups", CURRENT, "--json")[1].splitlines()]
    topic = every[0]["topic"]
    some = [
        json.loads(line) for line in run("groups", CURRENT, "--json", "-t", topic)[1].splitlines()
    ]
    assert some == [row for row in every if row["topic"] == topic]
    assert run("groups", CURRENT, "--topic", "nobody-read-this")[0] == 2
    every = [
        json.loads(line)
        for line in run("transactions", CURRENT, "--open", "--json")[1].splitlines()
    ]
    some = [
        json.loads(line)
        for line in run("transactions", CURRENT, "--open", "--json", "-t", "open-txn")[
            1
        ].splitlines()
    ]
    assert some == [row for row in every if row["topic"] == "open-txn"] != []
    assert run("transactions", CURRENT, "--open", "-t", "open")[0] == 2


@pytest.mark.parametrize(("option", "said"), [("--open", "is open"), ("--hanging", "hangs")])
def test_no_open_transactions_are_told(run: Run, option: str, said: str) -> None:
    status, out, err = run("transactions", CURRENT, option, "-t", "orders")
    assert (status, err) == (0, f"kafkafs: no transaction {said}\n")
    assert [line.split()[0] for line in out.splitlines()] == ["TOPIC"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("cat", CURRENT, "order-0/offset/3"), "order-0: no such partition; the source has "),
        (("ls", CURRENT, "order-0"), "did you mean orders-0?"),
        (("cp", CURRENT, "orders-7/offset/3", "/nowhere"), "the source has orders-0"),
        (("grep", "x", CURRENT, "order-0"), "did you mean orders-0?"),
        (("grep", "x", CURRENT, "time/2024/order-0"), "did you mean orders-0?"),
        (("ls", CURRENT, "time/2024/order-0"), "did you mean orders-0?"),
    ],
)
def test_a_path_of_no_partition_says_which_there_are(
    run: Run, command: tuple[str, ...], words: str
) -> None:
    status, out, err = run(*command)
    assert (status, out) == (3, "")
    assert words in err


def test_a_path_inside_the_tree_is_no_partition(run: Run) -> None:
    assert (
        run("cat", CURRENT, "state/nothing")[2]
        == "kafkafs: state/nothing: no such file or folder\n"
    )
    assert "no records in this period" in run("ls", CURRENT, "time/1999/orders-0")[2]


def test_topics_and_groups_that_are_not_there_name_those_that_are(run: Run) -> None:
    status, out, err = run("topics", CURRENT, "order", "txn")
    assert status == 1
    assert out.startswith("Topic: txn\t")
    assert err.startswith("kafkafs: no topic matches order; the source has ")
    assert err.endswith("did you mean orders?\n")
    status, _, err = run("groups", CURRENT, "nobody")
    assert status == 1
    assert err.startswith("kafkafs: there is no group 'nobody'; the source has ")


def test_a_rebuild_names_what_a_pattern_could_have_meant(run: Run) -> None:
    status, _, err = run("rebuild", "--dry-run", CURRENT, "--topic", "orders", "--topic", "tx")
    assert status == 2
    assert "no partition matches --topic tx: the source has " in err


@pytest.mark.parametrize(
    "command", [("offsets",), ("topics",), ("grep", "x"), ("transactions", "--open")], ids=" ".join
)
def test_a_source_without_partitions_is_an_error(
    run: Run, without_partitions: str, command: tuple[str, ...]
) -> None:
    status, out, err = run(*command, without_partitions)
    assert (status, out) == (3, "")
    assert err.startswith(f"kafkafs: {without_partitions} has no partition")


def test_offsets_of_a_time_past_all_records_say_so(run: Run) -> None:
    status, out, err = run("offsets", CURRENT, "--time", "2099-01-01T00:00:00Z")
    assert (status, out) == (1, "")
    assert err.endswith("kafkafs: no partition has an offset for --time 2099-01-01T00:00:00Z\n")


def test_a_dump_of_a_range_past_the_log_says_so(run: Run) -> None:
    folder = f"{CURRENT}/orders-0"
    words = f"{folder}: no record is in the range; its log has offsets 0 to 999\n"
    assert run("dump", folder, "--from", "5000") == (3, "", words)
    assert run("dump", folder, "--from", "2099-01-01") == (3, "", words)
    status, out, err = run("dump", CURRENT, "--from", "5000000")
    assert (status, out) == (3, "")
    assert err == f"{CURRENT}: no record is in the range\n"
