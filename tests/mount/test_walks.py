"""A walk over a mount, with the programs that people use."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests import builders
from tests.builders import Rec
from tests.kafkafs.built_logs import DAY_MS, BuiltLog
from tests.mount.mounted import needs_fuse
from tests.mount.test_log_dirs import MountedLogs

pytestmark = [pytest.mark.mount, needs_fuse]

OLD = 19_675 * DAY_MS  # 2023-11-14


@pytest.fixture
def mount(tmp_path: Path):
    log = BuiltLog(tmp_path / "data")
    for segment in (0, 10):
        batches = [
            builders.batch([Rec(b"needle-%02d" % at, timestamp=OLD + at * DAY_MS // 8)], at)
            for at in range(segment, segment + 10)
        ]
        log.segment(batches, segment)
    (tmp_path / "mount").mkdir()
    mounted = MountedLogs(tmp_path / "mount", log.log_dir)
    yield mounted.path
    mounted.stop()


def lines(*command: object) -> list[str]:
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
    return done.stdout.splitlines()


def test_grep_finds_each_record_once(mount: Path) -> None:
    found = lines("grep", "-rIho", "needle-[0-9]*", mount)
    assert Counter(found) == {f"needle-{at:02}": 1 for at in range(20)}


def test_find_lists_a_landmark_for_each_segment_day_and_hour(mount: Path) -> None:
    links = lines("find", mount / "orders-0", "-type", "l", "-printf", "%P %l\n")
    assert {
        "offset/earliest 0", "offset/latest 19",
        "offset/00000000000000000000 0", "offset/00000000000000000010 10",
        "committed/00000000000000000000.jsonl 0.jsonl", "committed/00000000000000000010.jsonl 10.jsonl",
        "time/2023-11-14/00 ../2023-11-14T00", "time/2023-11-14/21 ../2023-11-14T21",
    } < set(links)  # fmt: skip


def test_every_link_leads_somewhere(mount: Path) -> None:
    links = lines("find", mount, "-type", "l")
    assert len(links) > 20
    assert [link for link in links if not Path(link).exists()] == []


def test_names_that_are_not_listed_can_be_read(mount: Path) -> None:
    day = mount / "orders-0/time/2023-11-15"
    assert (day / "records.jsonl").read_text().count("needle") == 8
    assert (day / "03/records.jsonl").read_text().count("needle-09") == 1
    assert min(each.name for each in (day / "log").iterdir()) == f"{8:020}.log"
    committed = lines("cat", *sorted((mount / "orders-0/committed").iterdir()))
    assert len(committed) == 20


def test_a_readme_gives_names_that_work(mount: Path) -> None:
    folder = mount / "orders-0/offset"
    text = (folder / "README.txt").read_text()
    assert "orders-0 by offset: 0 to 19 (log start offset 0, log end offset 20)" in text
    assert (folder / "9.value").read_bytes() == b"needle-09"
    for name in ("9", "9.value", "9..19", "-10", "latest"):
        assert f"  {name} " in text
        assert (folder / name).read_bytes()
    folder = mount / "orders-0/time"
    names = [line.strip() for line in (folder / "README.txt").read_text().splitlines()]
    for name in ("2023-11-14T00/records.jsonl", "2023-11-14T00:00../records.jsonl"):
        assert name in names
        assert (folder / name).read_bytes()
    text = (folder / "2023-11-15/README.txt").read_text()
    assert "offsets 8 to 15" in text
