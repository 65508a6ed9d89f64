"""Which log dirs a broker takes, by what their meta.properties say."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.plan.loading.broker_failure import Outcome
from engine.plan.loading.broker_versions import broker_version
from engine.plan.start_plan import StartPlan

GOOD = "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=sgf5MsZgRTuEMv68ZXKJbQ\n"
OTHER_ID = "cmVjb3JkcyBvZiBsb2dzIQ"
STOPS, OFFLINE, LOADS = Outcome.BROKER_STOPS, Outcome.LOG_DIR_OFFLINE, Outcome.LOADS


def log_dir(path: Path, meta: str | None, *, logs: int = 1) -> Path:
    for number in range(logs):
        (path / f"t-{number}").mkdir(parents=True)
    if meta is not None:
        (path / "meta.properties").write_text(meta)
    return path


def verdict(*paths: Path, version: str = "4.3.1") -> tuple[Outcome, str]:
    with StartPlan([str(path) for path in paths], broker_version(version)) as start:
        for _ in start.logs():
            pass
        return start.verdict()


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        ("", "states no version=1 and node.id"),
        ("\0" * len(GOOD), "states no version=1 and node.id"),
        ("%$ what\n", "states no version=1 and node.id"),
        (GOOD.replace("version=1\n", ""), "states no version=1 and node.id"),
        ("version=0\nbroker.id=1\n", "states no cluster.id"),
        (GOOD.replace("node.id=1", "node.id=-1"), "states node -1"),
        (GOOD.replace("node.id=1\n", ""), "there is no node.id"),
        (GOOD.replace("cluster.id=c\n", ""), "there is no cluster.id"),
        (GOOD.replace("version=1", "version=2"), "version 2"),
        (GOOD.replace("node.id=1", "node.id=one"), "is not a number"),
        (GOOD.replace("sgf5", "sg"), "UUID"),
        (GOOD.replace("sgf5MsZgRTuEMv68ZXKJbQ", "AAAAAAAAAAAAAAAAAAAAAA"), "reserved"),
        (GOOD + "x=\\u12", "malformed"),
        (None, "is missing"),
    ],
)
def test_a_spoiled_file_of_the_only_log_dir_stops_the_broker(
    tmp_path: Path, meta: str | None, reason: str
) -> None:
    outcome, found = verdict(log_dir(tmp_path / "data", meta))
    assert outcome is STOPS
    assert reason in found


@pytest.mark.parametrize(
    "meta", [GOOD, GOOD.replace("directory", "other"), "version=0\nbroker.id=1\ncluster.id=c\n"]
)
def test_a_file_with_node_and_cluster_lets_the_broker_start(tmp_path: Path, meta: str) -> None:
    assert verdict(log_dir(tmp_path / "data", meta))[0] is LOADS


def test_of_several_log_dirs_one_that_cannot_be_read_is_left_out_but_not_the_first(
    tmp_path: Path,
) -> None:
    good = log_dir(tmp_path / "good", GOOD)
    bad = log_dir(tmp_path / "bad", "version=9\n", logs=3)
    assert verdict(good, bad)[0] is OFFLINE
    with StartPlan([str(good), str(bad)]) as start:
        assert [log.folder for _, log in start.logs()] == ["t-0"]
    assert verdict(bad, good)[0] is STOPS  # it is where the metadata log is looked for
    (good / "__cluster_metadata-0").mkdir()
    assert verdict(bad, good)[0] is OFFLINE


def test_log_dirs_must_be_of_one_broker_and_each_must_say_so(tmp_path: Path) -> None:
    first = log_dir(tmp_path / "first", GOOD)
    for number, (meta, reason) in enumerate(
        (
            (
                GOOD.replace("node.id=1", "node.id=2").replace("sgf5MsZgRTuEMv68ZXKJbQ", OTHER_ID),
                "node.id",
            ),
            (GOOD.replace("=c", "=d").replace("sgf5MsZgRTuEMv68ZXKJbQ", OTHER_ID), "cluster.id"),
            (GOOD, "directory.id is also that of"),
            (None, "is missing: format the log dir"),
            ("", "states no version=1 and node.id"),
        )
    ):
        second = tmp_path / f"second-{number}"
        second.mkdir()
        (second / "u-0").mkdir()
        if meta is not None:
            (second / "meta.properties").write_text(meta)
        outcome, found = verdict(first, second)
        assert outcome is STOPS, meta
        assert reason in found


def test_a_second_metadata_log_stops_the_broker(tmp_path: Path) -> None:
    first = log_dir(tmp_path / "first", GOOD)
    second = tmp_path / "second"
    for path in (first, second):
        (path / "__cluster_metadata-0").mkdir(parents=True)
    (second / "meta.properties").write_text(GOOD.replace("sgf5MsZgRTuEMv68ZXKJbQ", OTHER_ID))
    outcome, reason = verdict(first, second)
    assert outcome is STOPS
    assert "is a second metadata log" in reason


def test_a_broker_with_zookeeper_needs_no_file(tmp_path: Path) -> None:
    path = log_dir(tmp_path / "data", "broker.id=1\n")
    assert verdict(path, version="3.9.1")[0] is LOADS
    assert verdict(path)[0] is STOPS


def test_a_marker_that_is_a_folder_counts_if_it_can_be_removed(tmp_path: Path) -> None:
    path = log_dir(tmp_path / "data", GOOD)
    (path / ".kafka_cleanshutdown").mkdir()
    with StartPlan([str(path)]) as start:
        assert start.log_dirs[0].clean
    (path / ".kafka_cleanshutdown" / "x").write_text("")
    outcome, reason = verdict(path)
    assert outcome is STOPS
    assert "is a folder that is not empty" in reason


def test_another_partition_of_the_metadata_topic_is_left_alone(tmp_path: Path) -> None:
    path = log_dir(tmp_path / "data", GOOD)
    (path / "__cluster_metadata-1").mkdir()
    (path / "__cluster_metadata-1" / "foo.log").write_text(
        "x"
    )  # no log that is loaded could have it
    with StartPlan([str(path)]) as start:
        assert [log.folder for _, log in start.logs()] == ["t-0"]
        assert start.log_dirs[0].notes == ["__cluster_metadata-1 stays, and no broker reads it"]
        assert start.starts
