"""A source that changes, goes away or cannot be read while somebody looks at it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from kafkafs.browse.explorer import Explorer
from kafkafs.browse.session import BrowseSession
from kafkafs.browse.work import InThreads
from kafkafs.time_grammar import TimeGrammar
from tests.fixtures_data import copy_of, log_dir
from tests.kafkafs.browse.driven import driven
from tests.kafkafs.built_logs import BuiltLog, batches_of, text_batch, tree_over

KEYS = ["up", "down", "pageup", "pagedown", "home", "end", "enter", "c", "r", "g", "type 7", "/", "type x",
        "n", "N", "x", "<", ">", "y", "?", "back", "k", "j"]  # fmt: skip
PATHS = ["", "orders", "orders-0", "orders-0/records", "orders-0/offset/7"]


@pytest.mark.parametrize("path", PATHS)
def test_a_folder_that_goes_away_is_said_and_no_crash(path: str, tmp_path: Path) -> None:
    data = copy_of("sample", tmp_path / "data")
    with driven(data, path) as screen:
        shutil.rmtree(data / "orders-0")
        time.sleep(0.3)
        screen.explorer.tick()
        screen.press(*KEYS)
        screen.explorer.tick()
        screen.press(*KEYS)


@pytest.mark.parametrize("size", [(1, 1), (5, 2), (10, 4), (23, 7), (300, 100)])
@pytest.mark.parametrize("path", PATHS)
def test_any_size_is_drawn(path: str, size: tuple[int, int]) -> None:
    with driven(log_dir("sample"), path, *size) as screen:
        screen.press(*KEYS)


def test_new_topics_and_records_appear_at_the_next_tick(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment(batches_of(1), 0)
    with driven(tmp_path) as topics, driven(tmp_path, "orders-0/records") as records:
        BuiltLog(tmp_path, "later-0").segment(batches_of(1), 0)
        log.append(text_batch(10, 3))
        time.sleep(0.6)  # lists may be old for 0.2 s
        topics.explorer.tick()
        records.explorer.tick()
        assert "later" in topics.draw()
        assert "0..13" in topics.draw()
        assert "of 0..13," in records.draw()


def test_a_log_that_loses_its_first_segments_goes_on_at_its_start(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    for base in (0, 100, 200):
        log.segment(batches_of(10, first=base), base)
    with driven(tmp_path, "orders-0/offset/50..") as screen:
        for each in (tmp_path / "orders-0").glob(f"{0:020}.*"):
            each.unlink()
        log.start_at(100)
        time.sleep(0.6)  # lists may be old for 0.2 s
        assert "100 of 100..300" in screen.press("r", "home")


def test_hostile_names_and_records_cannot_reach_the_terminal(tmp_path: Path) -> None:
    from tests import builders
    from tests.builders import Rec

    evil = b"\x1b[2J\x1b]52;c;eA==\x07\xc2\x9b31m\xe2\x80\xae\r\n\xff"
    log = BuiltLog(tmp_path, "evil\x1b[2J\u202e-0")
    log.segment(
        [
            builders.batch(
                [Rec(evil, evil, headers=[(evil, evil)]), Rec(b'{"a":"\xe2\x80\xae"}', b"k")], 0
            )
        ],
        0,
    )
    with driven(tmp_path) as screen:  # `draw` looks at each line
        screen.press("enter", "enter", "enter", "x", "end", ">", "back", "back", "back")


def test_a_check_of_a_topic_is_one_job_and_can_be_stopped() -> None:
    with tree_over(log_dir("sample")) as tree:
        runner = InThreads(lambda: None)
        session = BrowseSession(tree, runner, lambda: TimeGrammar(0), lambda *_: "", lambda _: None)
        explorer = Explorer(session)
        explorer.press("c")
        jobs = {id(each.check) for each in session.partitions.values() if each.topic == "orders"}
        assert len(jobs) == 1
        explorer.press("c")
        assert session.message in ("stopped the check", "") or "checked" in session.message
        deadline = time.monotonic() + 20
        explorer.press("c")
        while not session.partitions["orders-1"].is_checked and time.monotonic() < deadline:
            time.sleep(0.02)
            runner.deliver()
            explorer.lines(80, 24)
        assert session.partitions["orders-1"].damage == "0 errors, 0 warnings"
