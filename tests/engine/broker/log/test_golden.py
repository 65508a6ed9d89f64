"""The same calls with the same clock make the files that Kafka's own classes made, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden_logs import GOLDEN, cases, files_of
from tests.log_scripts import run

each_theme = pytest.mark.parametrize("theme", cases())


@each_theme
def test_the_files_are_those_that_kafka_writes(tmp_path: Path, theme: str) -> None:
    folder = tmp_path / "topic-0"
    run(folder, cases()[theme]["script"])
    wanted = files_of(theme)
    assert sorted(path.name for path in folder.iterdir()) == sorted(wanted)
    for name, data in wanted.items():
        assert (folder / name).read_bytes() == data, name


@each_theme
def test_the_answers_and_the_state_are_those_of_kafka(tmp_path: Path, theme: str) -> None:
    case = cases()[theme]
    ours = json.loads(json.dumps(run(tmp_path / "topic-0", case["script"])))
    assert ours["steps"] == case["answer"]["steps"]
    assert ours["state"] == case["answer"]["state"]


def test_the_scripts_do_all_that_a_log_can() -> None:
    calls = {step["call"] for case in cases().values() for step in case["script"]["steps"]}
    assert calls == {
        *("append_as_leader", "append_as_follower", "assign_epoch", "clean", "delete_old_segments"),
        *("delete_records", "flush", "high_watermark", "reopen", "roll", "sleep", "take_snapshot"),
        *("truncate_fully", "truncate_to"),
    }
    endings = {Path(name).suffix for theme in cases() for name in files_of(theme)}
    assert {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".metadata"} <= endings


def test_the_file_stays_small() -> None:
    assert GOLDEN.stat().st_size < 300_000
