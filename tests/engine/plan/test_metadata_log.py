"""What keeps a metadata log from being used: without it no broker starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.plan.loading.broker_failure import Outcome
from engine.plan.start_plan import StartPlan
from engine.writing.log_config import LogConfig
from tests.builders import batch, values
from tests.replayed_bytes import in_batches, metadata_record, snapshot_bytes, write_partition

META = "version=1\ncluster.id=c\nnode.id=1\ndirectory.id={}\n"
NOTHING = metadata_record("NO_OP_RECORD")
IDS = {"first": "sgf5MsZgRTuEMv68ZXKJbQ", "second": "cmVjb3JkcyBvZiBsb2dzIQ"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The metadata log in the first of two log dirs."""
    for name, directory in IDS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(META.format(directory))
    return metadata(tmp_path / "first", 0)


def metadata(log_dir: Path, base: int) -> Path:
    return write_partition(
        log_dir, "__cluster_metadata-0", in_batches([NOTHING, NOTHING], base), base
    ).parent


def verdict(folder: Path, config: LogConfig | None = None) -> tuple[Outcome, set[str], str]:
    top = folder.parent.parent
    with StartPlan([str(top / name) for name in IDS], config=config) as start:
        list(start.logs())
        outcome, reason = start.verdict()
        return outcome, {each.java for each in start.failures}, reason


def test_a_metadata_log_of_another_topic_id_stops_the_broker(folder: Path) -> None:
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    assert verdict(folder)[0] is Outcome.LOADS
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: cmVjb3JkcyBvZiBsb2dzIQ")
    outcome, javas, reason = verdict(folder)
    assert (outcome, javas) == (Outcome.BROKER_STOPS, {"InconsistentTopicIdException"})
    assert "has the topic id cmVjb3JkcyBvZiBsb2dzIQ, not AAAAAAAAAAAAAAAAAAAAAQ" in reason


def test_a_metadata_log_without_its_beginning_needs_a_snapshot(folder: Path) -> None:
    (folder / f"{0:020}.log").unlink()
    metadata(folder.parent, 8)
    outcome, javas, reason = verdict(folder)
    assert (outcome, javas) == (Outcome.BROKER_STOPS, {"IllegalStateException"})
    assert reason.endswith("starts at offset 8 and has no snapshot")
    (folder / f"{5:020}-{0:010}.checkpoint").write_bytes(b"")
    assert verdict(folder)[2].endswith("and its newest snapshot ends at offset 5")
    (folder / f"{8:020}-{0:010}.checkpoint").write_bytes(b"")
    assert verdict(folder)[2].endswith(".checkpoint is empty")
    (folder / f"{8:020}-{0:010}.checkpoint").write_bytes(snapshot_bytes([]))
    assert verdict(folder)[0] is Outcome.LOADS


def test_a_node_does_without_the_records_of_the_snapshot_of_its_format(folder: Path) -> None:
    of_format = folder / f"{0:020}-{0:010}.checkpoint"
    whole = snapshot_bytes([])
    for kept in (b"", whole[:40], whole):
        of_format.write_bytes(kept)
        assert verdict(folder)[0] is Outcome.LOADS
    of_format.write_bytes(whole[:10])
    assert verdict(folder)[:2] == (Outcome.BROKER_STOPS, {"NullPointerException"})


def test_an_io_error_of_the_metadata_log_is_not_only_its_log_dirs(folder: Path) -> None:
    (folder / "leader-epoch-checkpoint").write_text("x\n")
    assert verdict(folder)[:2] == (Outcome.BROKER_STOPS, {"KafkaStorageException"})


def test_the_metadata_log_goes_by_the_defaults(folder: Path) -> None:
    """Offsets out of order are noticed where an index entry is due; here the defaults have none due."""
    records = [batch(values("x"), offset) for offset in (0, 3, 1, 4)]
    (folder / f"{0:020}.log").write_bytes(b"".join(records))
    with StartPlan([str(folder.parent)], config=LogConfig(index_interval=0)) as start:
        ((_, log),) = start.logs()
    assert not log.losses.records
