"""Which topics a Spark job reads: looked up before a session is started."""

import re
from pathlib import Path
from typing import Any

import click
import pytest

from engine.log.log_bound import LogBound, LogRange
from engine.log.partition_choice import ALL_PARTITIONS
from kafkafs.cli import main
from kafkafs.cli.options.partitions import choice_of
from kafkafs.cli.spark.selection import selected
from tests.fixtures_data import log_dir

SOURCE = str(log_dir("current"))
NOTHING: dict[str, Any] = {
    "on_corrupt": "fail", "options": (), "choice": ALL_PARTITIONS, "extent": LogRange(),
    "committed": False, "internal": False,
}  # fmt: skip


def chosen(topics: str) -> dict[str, Any]:
    """Options with --topic."""
    return NOTHING | {"choice": choice_of([topics])}


@pytest.mark.parametrize(
    ("option", "text"), [("--topic", "nope"), ("--topic", "orders,nope"), ("--partition", "nope")]
)
def test_topics_that_are_not_there_are_an_error_that_names_those_that_are(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: str,
    text: str,
) -> None:
    def no_session(*_: object) -> None:
        raise AssertionError("a session was started")

    monkeypatch.setattr("kafkafs.cli.spark.job.spark_session", no_session)
    with pytest.raises(SystemExit) as left:
        main(["spark", "export", SOURCE, str(tmp_path / "out"), option, text])
    error = capsys.readouterr().err
    assert error.startswith(
        f"kafkafs: no partition matches {option} nope; the source has append-time-0, "
    )
    assert error.count("\n") == 1
    assert left.value.code == 2
    assert not (tmp_path / "out").exists()


def test_a_like_name_is_proposed() -> None:
    with pytest.raises(click.ClickException, match=r"did you mean orders\?"):
        selected((SOURCE,), chosen("order"))


def test_topics_that_are_there_are_passed_on() -> None:
    assert selected((SOURCE,), chosen("orders,txn"))["topics"] == "orders,txn"
    assert selected((SOURCE,), chosen("__consumer_offsets"))["topics"]
    found = selected((SOURCE,), chosen("ord*"))
    assert re.search(found["subscribePattern"], "orders")
    assert not re.search(found["subscribePattern"], "my-orders")
    found = selected((SOURCE,), NOTHING | {"choice": choice_of(["orders,txn"], ["orders-[0-2]"])})
    assert found["partitions"] == {"orders": [0]}
    assert "topics" not in found


def test_a_pattern_of_internal_topics_alone_says_which_option_takes_them() -> None:
    given = chosen("__consumer*")
    with pytest.raises(click.ClickException, match="name --internal too"):
        selected((SOURCE,), given)
    assert selected((SOURCE,), given | {"internal": True})["includeInternalTopics"] is True


def test_a_source_that_is_not_on_this_machine_is_left_to_spark(tmp_path: Path) -> None:
    for path in (str(tmp_path / "elsewhere"), "s3a://bucket/kafka", str(tmp_path / "broker-*")):
        assert selected((path,), chosen("nope"))["topics"] == "nope"


def test_a_job_takes_times_and_says_how_to_write_milliseconds() -> None:
    extent = LogRange(LogBound(timestamp=5), LogBound(timestamp=9))
    found = selected((SOURCE,), NOTHING | {"extent": extent})
    assert (found["since"], found["until"]) == (5, 9)
    with pytest.raises(click.BadParameter, match="for milliseconds write @5"):
        selected((SOURCE,), NOTHING | {"extent": LogRange(LogBound(offset=5))})
