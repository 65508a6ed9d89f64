"""What becomes of log dirs before, and after, their logs are loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.errors import SourceError
from engine.plan.loading.broker_failure import BrokerFailure, Outcome
from engine.plan.loading.broker_versions import broker_version
from engine.plan.log_dir_plan import parse_log_folder
from engine.plan.start_plan import StartPlan
from engine.units import TopicPartition
from tests import fixtures_data as data
from tests.builders import Producer, batch, values
from tests.replayed_bytes import metadata_record, write_partition

FIRST_ID, SECOND_ID = "sgf5MsZgRTuEMv68ZXKJbQ", "cmVjb3JkcyBvZiBsb2dzIQ"
META = "version=1\ncluster.id=c\nnode.id=1\ndirectory.id={}\n"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A copy of some logs of a broker that was stopped properly."""
    made = tmp_path / "data"
    made.mkdir()
    for name in ("orders-0", "txn-0"):
        shutil.copytree(data.log_dir("current") / name, made / name)
    for file in data.log_dir("current").iterdir():
        if file.is_file():
            shutil.copy(file, made / file.name)
    return made


def outcomes(*paths: Path, clean: bool | None = None) -> tuple[Outcome, str, list[str]]:
    with StartPlan([str(path) for path in paths], clean=clean) as start:
        logs = [f"{log.folder} {log.outcome.value}" for _, log in start.logs()]
        return (*start.verdict(), logs)


def test_a_broker_starts_on_what_it_left(log_dir: Path) -> None:
    for clean in (None, True, False):
        assert outcomes(log_dir, clean=clean)[0] is Outcome.LOADS
    with StartPlan([str(log_dir)]) as start:
        assert start.log_dirs[0].has_marker
        assert start.log_dirs[0].clean
        assert start.log_count == 2
        assert all(log.is_harmless for _, log in start.logs())


def test_a_partitions_folder_alone_is_planned_with_its_log_dirs_checkpoints(log_dir: Path) -> None:
    with StartPlan([str(log_dir / "orders-0")], clean=False) as start:
        ((_, log),) = start.logs()
        assert (log.folder, log.recovery_point, log.log_end) == ("orders-0", 1000, 1000)


@pytest.mark.parametrize(
    "name", ["lost+found", "orders", "-5", "a-", "a-b", "a-0-delete", "x-9999999999"]
)
def test_a_folder_that_is_no_partitions_keeps_a_broker_from_starting(
    log_dir: Path, name: str
) -> None:
    (log_dir / name).mkdir()
    outcome, reason, logs = outcomes(log_dir)
    assert outcome is Outcome.BROKER_STOPS
    assert name in reason
    assert logs == []
    with StartPlan([str(log_dir)]) as start:
        assert any("marker of a clean stop is removed" in note for note in start.log_dirs[0].notes)


def test_names_as_java_takes_them() -> None:
    assert parse_log_folder("a-+1").partition == TopicPartition("a", 1)
    assert parse_log_folder("a--1").partition == TopicPartition("a-", 1)
    assert parse_log_folder("a-007").partition == TopicPartition("a", 7)
    assert parse_log_folder("t-1.0ab-stray").partition == TopicPartition("t", 1)
    with pytest.raises(BrokerFailure):
        parse_log_folder("t 1.0ab-stray")


def test_a_malformed_checkpoint_takes_the_only_log_dir_and_so_the_broker(log_dir: Path) -> None:
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n5\norders 0 3\n")
    outcome, reason, logs = outcomes(log_dir)
    assert outcome is Outcome.BROKER_STOPS
    assert "states 5 entries" in reason
    assert logs == ["orders-0 loads", "txn-0 loads"]


def test_a_number_that_is_none_in_a_checkpoint_only_costs_the_checkpoint(log_dir: Path) -> None:
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\norders x 3\n")
    assert outcomes(log_dir, clean=False)[0] is Outcome.LOADS
    with StartPlan([str(log_dir)]) as start:
        assert "is not used" in start.log_dirs[0].notes[0]
        assert start.log_dirs[0].recovery_points == {}


def test_one_of_two_log_dirs_goes_offline(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.move(log_dir / "txn-0", other / "txn-0")
    (log_dir / "meta.properties").write_text(META.format(FIRST_ID))
    (other / "meta.properties").write_text(META.format(SECOND_ID))
    (other / "txn-0" / "leader-epoch-checkpoint").write_text("7\n")
    outcome, _, logs = outcomes(log_dir, other)
    assert outcome is Outcome.LOG_DIR_OFFLINE
    assert logs == ["orders-0 loads", "txn-0 log-dir-offline"]


def test_a_log_in_two_log_dirs_keeps_a_broker_from_starting(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(log_dir, other)
    (log_dir / "meta.properties").write_text(META.format(FIRST_ID))
    (other / "meta.properties").write_text(META.format(SECOND_ID))
    outcome, reason, _ = outcomes(log_dir, other)
    assert outcome is Outcome.BROKER_STOPS
    assert "is also in" in reason


def test_log_dirs_of_two_nodes_are_no_brokers(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (log_dir / "meta.properties").write_text(META.format(FIRST_ID))
    text = META.format(SECOND_ID).replace("node.id=1", "node.id=2")
    (other / "meta.properties").write_text(text)
    outcome, reason, _ = outcomes(log_dir, other)
    assert outcome is Outcome.BROKER_STOPS
    assert "node.id" in reason


def test_logs_that_the_cluster_does_not_know_are_set_aside(log_dir: Path) -> None:
    shutil.copytree(
        data.log_dir("current") / "__cluster_metadata-0", log_dir / "__cluster_metadata-0"
    )
    unknown = log_dir / "orders-0" / "partition.metadata"
    unknown.write_text("version: 0\ntopic_id: cmVjb3JkcyBvZiBsb2dzIQ\n")
    with StartPlan([str(log_dir)]) as start:
        logs = {log.folder: log for _, log in start.logs()}
        assert logs["txn-0"].renamed_to is None
        assert (logs["orders-0"].renamed_to or "").endswith("-stray")
        assert not logs["orders-0"].is_harmless
        assert not logs["__cluster_metadata-0"].clean  # it always is recovered
    (log_dir / "txn-0" / "partition.metadata").unlink()
    with StartPlan([str(log_dir)]) as start:
        assert all(log.renamed_to for _, log in start.logs() if log.folder == "txn-0")
    with StartPlan([str(log_dir)], broker_version("3.3.2")) as start:
        assert not any(log.renamed_to for _, log in start.logs())


def test_versions_that_are_none_and_folders_that_are_none(tmp_path: Path) -> None:
    for name in ("", "four", "2.7.1", "4", "4.x"):
        with pytest.raises(ValueError, match=r"version|before"):
            broker_version(name)
    with pytest.raises(SourceError):
        StartPlan([str(tmp_path / "nowhere")])


def test_many_logs_take_the_memory_of_one(log_dir: Path) -> None:
    for number in range(1, 60):
        shutil.copytree(log_dir / "orders-0", log_dir / f"orders-{number}")
    with StartPlan([str(log_dir)], clean=False) as start:
        assert sum(1 for _ in start.logs()) == 61
        assert start.bytes_in_use == 0


def test_a_release_that_is_not_known_is_refused_with_the_range_of_those_that_are() -> None:
    for name in ("9.9.9", "4.5.0", "2.9.0", "3.10.0", "2.7.1"):
        with pytest.raises(ValueError, match=r"2\.8 to 4\.4 are known"):
            broker_version(name)
    for name in ("2.8.2", "3.0.0", "3.9.1", "4.0.1", "4.3.9", "4.4", "4.4.0"):
        assert broker_version(name).name == name


# What real combined nodes of 4.3.1 and 4.4.0 logged as they ended, or None where they started.
RANGE_43, RANGE_44 = "7 to 31.", "7 to 34."
FEATURES = [
    ("4.3.1", "metadata.version", 30, None),
    ("4.3.1", "metadata.version", 31, "metadata.version', featureLevel=31), but this controller only supports versions 7-30"),
    ("4.3.1", "metadata.version", 33, f"No MetadataVersion with feature level 33. Valid feature levels are from {RANGE_43}"),
    ("4.3.1", "share.version", 2, "share.version', featureLevel=2), but this controller only supports versions 0-1"),
    ("4.3.1", "share.version", 1, None),
    ("4.4.0", "metadata.version", 7, None),
    ("4.4.0", "metadata.version", 6, f"No MetadataVersion with feature level 6. Valid feature levels are from {RANGE_44}"),
    ("4.4.0", "metadata.version", 33, None),
    ("4.4.0", "metadata.version", 34, "metadata.version', featureLevel=34), but this controller only supports versions 7-33"),
    ("4.4.0", "metadata.version", 35, f"No MetadataVersion with feature level 35. Valid feature levels are from {RANGE_44}"),
    ("4.4.0", "share.version", 2, None),
    ("4.4.0", "new.version", 1, "new.version', featureLevel=1), but this controller only supports versions 0-0"),
    ("3.9.1", "metadata.version", 6, None),
    ("3.9.1", "metadata.version", 33, "No MetadataVersion with feature level 33"),
    ("3.2.3", "metadata.version", 33, None),
]  # fmt: skip


@pytest.mark.parametrize(("version", "feature", "level", "says"), FEATURES)
def test_a_broker_ends_at_a_feature_level_that_it_does_not_know(
    tmp_path: Path, version: str, feature: str, level: int, says: str | None
) -> None:
    record = metadata_record("FEATURE_LEVEL_RECORD", name=feature, featureLevel=level)
    write_partition(tmp_path, "__cluster_metadata-0", [batch([record])])
    (tmp_path / "meta.properties").write_text(META.format(FIRST_ID))
    with StartPlan([str(tmp_path)], broker_version(version)) as start:
        list(start.logs())
        outcome, reason = start.verdict()
    if says is None:
        assert outcome is Outcome.LOADS
    else:
        assert outcome is Outcome.BROKER_STOPS
        assert reason.endswith(says)


def test_a_folder_that_is_no_log_dir_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    with pytest.raises(SourceError, match="is not a log dir"):
        StartPlan([str(tmp_path)])
    with pytest.raises(SourceError, match="is empty"):
        StartPlan([str(tmp_path / "bin")])


def open_transaction(folder: Path, topic_id: str) -> None:
    """A log with an open transaction in it, and a text for partition.metadata."""
    made = batch(values("open"), producer=Producer(id=5), transactional=True)
    write_partition(folder.parent, folder.name, [made])
    (folder / "partition.metadata").write_text(topic_id)


def javas(log_dir: Path, other: Path) -> tuple[Outcome, set[str]]:
    with StartPlan([str(log_dir), str(other)], clean=False) as start:
        list(start.logs())
        return start.verdict()[0], {each.java for each in start.failures}


def test_a_log_that_is_read_before_it_fails_may_end_the_start_for_its_offline_log_dir(
    log_dir: Path, tmp_path: Path
) -> None:
    """Kafka reads at the first open transaction, which an offline log dir refuses, before it reads the topic id."""
    other = tmp_path / "other"
    other.mkdir()
    (log_dir / "meta.properties").write_text(META.format(FIRST_ID))
    (other / "meta.properties").write_text(META.format(SECOND_ID))
    open_transaction(log_dir / "open-0", "")  # Kafka does not expect that
    assert javas(other, log_dir) == (Outcome.BROKER_STOPS, {"NullPointerException"})
    open_transaction(log_dir / "open-0", "version: x\n")  # an I/O error, but after the read
    assert javas(other, log_dir) == (Outcome.LOG_DIR_OFFLINE, {"IOException"})
    (log_dir / "orders-0" / "leader-epoch-checkpoint").write_text("1\n0\n")
    stops = {"IOException", "KafkaStorageException"}
    assert javas(other, log_dir) == (Outcome.BROKER_STOPS, stops)
    open_transaction(log_dir / "open-0", "")
    assert javas(other, log_dir) == (Outcome.BROKER_STOPS, {*stops, "NullPointerException"})
