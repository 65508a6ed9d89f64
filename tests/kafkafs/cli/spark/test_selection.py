"""Which topics a Spark job reads: looked up before a session is started."""

from pathlib import Path
from typing import Any

import click
import pytest

from kafkafs.cli import main
from kafkafs.cli.spark.selection import selected
from tests.fixtures_data import log_dir

SOURCE = str(log_dir("current"))
NOTHING: dict[str, Any] = {
    "on_corrupt": "fail", "options": (), "topics": None, "topic_pattern": None, "committed": False,
    "internal": False, "since": None, "until": None,
}  # fmt: skip


@pytest.mark.parametrize("command", ["stats", "search", "export"])
@pytest.mark.parametrize(
    ("option", "text"),
    [("--topics", "nope"), ("--topics", "orders,nope"), ("--topic-pattern", "nope")],
)
def test_topics_that_are_not_there_are_an_error_that_names_those_that_are(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    option: str,
    text: str,
) -> None:
    def no_session(*_: object) -> None:
        raise AssertionError("a session was started")

    monkeypatch.setattr("kafkafs.cli.spark.job.job_session", no_session)
    target = [str(tmp_path / "out")] if command == "export" else []
    with pytest.raises(SystemExit) as left:
        main(["spark", command, SOURCE, *target, option, text])
    error = capsys.readouterr().err
    assert error.startswith(
        f"kafkafs: no topic matches {option} nope; the source has append-time, "
    )
    assert error.count("\n") == 1
    assert left.value.code == 2
    assert not (tmp_path / "out").exists()


def test_a_like_name_is_proposed() -> None:
    with pytest.raises(click.ClickException, match=r"did you mean orders\?"):
        selected((SOURCE,), NOTHING | {"topics": "order"})


def test_topics_that_are_there_are_passed_on() -> None:
    assert selected((SOURCE,), NOTHING | {"topics": "orders, txn"})["topics"] == "orders, txn"
    assert selected((SOURCE,), NOTHING | {"topics": "__consumer_offsets"})["topics"]
    found = selected((SOURCE,), NOTHING | {"topic_pattern": "^ord"})
    assert found["subscribePattern"] == "^ord"


def test_a_pattern_of_internal_topics_alone_says_which_option_takes_them() -> None:
    given = NOTHING | {"topic_pattern": "__consumer"}
    with pytest.raises(click.ClickException, match="name --internal too"):
        selected((SOURCE,), given)
    assert selected((SOURCE,), given | {"internal": True})["includeInternalTopics"] is True


def test_a_source_that_is_not_on_this_machine_is_left_to_spark(tmp_path: Path) -> None:
    for path in (str(tmp_path / "elsewhere"), "s3a://bucket/kafka", str(tmp_path / "broker-*")):
        assert selected((path,), NOTHING | {"topics": "nope"})["topics"] == "nope"
