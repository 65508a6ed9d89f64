"""What a 4.4.0 broker left after SIGKILL and after a clean stop, as its own next starts took it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from engine.plan.loading.broker_failure import Outcome
from engine.plan.loading.broker_versions import broker_version
from engine.plan.start_plan import StartPlan
from tests.engine.check.logs import bad, found
from tests.fixtures_data import DATA

METADATA = "__cluster_metadata-0"
PREALLOCATED = {".index": 10_485_760, ".timeindex": 10_485_756}
RECOVERED = ("compacted-0", "orders-0", "orders-1", "txn-0", "txn-1", "__consumer_offsets-0")
"""Logs that got no records between the start after SIGKILL and the clean stop."""


@pytest.fixture(params=["clean", "killed"])
def log_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


def unpacked(kind: str, folder: Path) -> Path:
    """The log dir of a combined node of 4.4.0; `clean` is that of `killed` after one more start and a clean stop."""
    with tarfile.open(DATA / "kafka-4.4" / f"{kind}.tar.gz") as archive:
        archive.extractall(folder / kind, filter="data")
    return folder / kind / "data"


def test_nothing_is_found_in_it(log_dir: Path) -> None:
    assert bad(found(log_dir)) == []


def test_a_clean_stop_leaves_the_metadata_logs_indexes_preallocated_and_others_trimmed(
    tmp_path: Path,
) -> None:
    log_dir = unpacked("clean", tmp_path)
    for suffix, size in PREALLOCATED.items():
        sizes = {path: path.stat().st_size for path in log_dir.glob(f"*/*{suffix}")}
        untrimmed = {path.parent.name for path, each in sizes.items() if each > 4096}
        assert untrimmed == {METADATA}
        assert sizes[log_dir / METADATA / f"{0:020}{suffix}"] == size


def test_an_index_of_another_log_that_misses_its_last_time_is_still_found(tmp_path: Path) -> None:
    log_dir = unpacked("clean", tmp_path)
    index = max((log_dir / "orders-0").glob("*.timeindex"))
    index.write_bytes(index.read_bytes()[:-12])
    assert {each.rule for each in bad(found(log_dir))} <= {
        "time-index-misses-records",
        "time-index-missing",
    }
    assert bad(found(log_dir))


def test_a_missing_index_of_the_metadata_log_is_still_found(tmp_path: Path) -> None:
    log_dir = unpacked("clean", tmp_path)
    (log_dir / METADATA / f"{0:020}.timeindex").unlink()
    assert [each.rule for each in bad(found(log_dir))] == ["time-index-missing"]


@pytest.mark.parametrize(
    ("version", "outcome"), [("4.4.0", Outcome.LOADS), ("4.3.1", Outcome.BROKER_STOPS)]
)
def test_440_starts_and_431_does_not_know_its_metadata_version(
    log_dir: Path, version: str, outcome: Outcome
) -> None:
    with StartPlan([str(log_dir)], broker_version(version)) as start:
        logs = [log for _, log in start.logs()]
        assert start.verdict()[0] is outcome
    assert all(log.losses.records == 0 for log in logs)


def test_the_planned_ends_after_a_crash_are_those_that_the_broker_wrote_down_later(
    tmp_path: Path,
) -> None:
    with StartPlan([str(unpacked("killed", tmp_path))], broker_version("4.4.0")) as start:
        ends = {log.folder: log.log_end for _, log in start.logs()}
    text = (unpacked("clean", tmp_path) / "recovery-point-offset-checkpoint").read_text()
    lines = [line.split(" ") for line in text.splitlines()[2:]]
    written = {f"{topic}-{partition}": int(offset) for topic, partition, offset in lines}
    assert {name: ends[name] for name in RECOVERED} == {name: written[name] for name in RECOVERED}
