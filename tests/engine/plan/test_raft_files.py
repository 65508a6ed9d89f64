"""What keeps a KRaft node from starting beside its logs, and what it takes in its stride: as real nodes did."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.plan.loading.broker_failure import Outcome
from engine.plan.start_plan import StartPlan
from tests.fixtures_data import copy_of
from tests.replayed_bytes import metadata_record, snapshot_bytes, write_metadata_log

METADATA = "__cluster_metadata-0"
VERSION = metadata_record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=30)
QUORUM = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":9,"votedId":-1,"appliedOffset":0,"currentVoters":[]'
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    made = copy_of("sample", tmp_path / "data")
    write_metadata_log(made)
    return made


def verdict(*log_dirs: Path) -> tuple[Outcome, str]:
    with StartPlan([str(each) for each in log_dirs]) as start:
        list(start.logs())
        return start.verdict()


@pytest.mark.parametrize(
    ("data", "starts"),
    [
        (snapshot_bytes([VERSION]), True),
        (snapshot_bytes([VERSION], footer=False), True),  # nobody asks for the footer
        (snapshot_bytes([VERSION])[:-3], True),
        (snapshot_bytes([VERSION])[:90], False),
        (snapshot_bytes([]), False),
        (bytes(400), False),
        (b"", False),
    ],
)
def test_bootstrap_checkpoint(log_dir: Path, data: bytes, starts: bool) -> None:
    (log_dir / "bootstrap.checkpoint").write_bytes(data)
    assert (verdict(log_dir)[0] is Outcome.LOADS) == starts


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        (QUORUM + ',"data_version":0}', True),
        (QUORUM + ',"data_version":0,"more":1} and more', True),
        (QUORUM + ',"data_version":2}', False),
        (QUORUM.replace("9", "9.5") + ',"data_version":0}', False),
        (QUORUM.replace("9", '"9"') + ',"data_version":0}', False),
        ('{"data_version":0}', False),
        (QUORUM[:30], False),
        ("\0" * 90, False),
        ("", False),
    ],
)
def test_quorum_state(log_dir: Path, text: str, starts: bool) -> None:
    (log_dir / METADATA / "quorum-state").write_text(text)
    assert (verdict(log_dir)[0] is Outcome.LOADS) == starts


@pytest.mark.parametrize(
    ("change", "starts"),
    [
        (lambda data: data, True),
        (lambda data: data[:-3], True),  # taken for whole: the log fits it
        (lambda data: data[:100], True),
        (lambda data: data[:10], False),
        (lambda data: b"", True),  # the format's own: a node does without its records
        (lambda data: bytes(len(data)), False),
        (lambda data: data[:80] + bytes([data[80] ^ 1]) + data[81:], False),
    ],
)
def test_the_newest_snapshot(log_dir: Path, change, starts: bool) -> None:  # type: ignore[no-untyped-def]
    name = f"{0:020}-{0:010}.checkpoint"
    (log_dir / METADATA / name).write_bytes(change(snapshot_bytes([VERSION])))
    outcome, reason = verdict(log_dir)
    assert (outcome is Outcome.LOADS) == starts
    assert starts or name in reason


@pytest.mark.parametrize("past", [False, True])
def test_a_snapshot_past_the_end_replaces_the_log_before_a_record_of_it_is_read(
    log_dir: Path, past: bool
) -> None:
    log = log_dir / METADATA / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[16] = (
        7  # the magic, which no checksum covers: loading keeps the batch, and no node reads it
    )
    log.write_bytes(data)
    if past:
        name = f"{999:020}-{0:010}.checkpoint"
        (log_dir / METADATA / name).write_bytes(snapshot_bytes([VERSION]))
    with StartPlan([str(log_dir)]) as start:
        (metadata,) = [log for _, log in start.logs() if log.folder == METADATA]
        outcome, reason = start.verdict()
    if past:
        assert (outcome, metadata.log_start, metadata.log_end) == (Outcome.LOADS, 999, 999)
    else:
        assert outcome is Outcome.BROKER_STOPS
        assert "has magic 7" in reason


def test_what_recovery_cuts_off_the_metadata_log_is_forgotten(log_dir: Path) -> None:
    log = log_dir / METADATA / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    second = 12 + int.from_bytes(
        data[8:12], "big"
    )  # the first batch has a topic without partitions
    data[second + 70] ^= 1
    log.write_bytes(data)
    with StartPlan([str(log_dir)]) as start:
        renamed = [log.folder for _, log in start.logs() if log.renamed_to is not None]
    assert len(renamed) == 3


def test_a_partition_folder_without_its_topic_id_is_stray_and_made_anew(log_dir: Path) -> None:
    (log_dir / "orders-0" / "partition.metadata").unlink()
    with StartPlan([str(log_dir)]) as start:
        (lost,) = start.lost_folders
        missing = lost.missing
        assert (missing.name, lost.stray, missing.end, missing.lost_offsets) == (
            "orders-0", "orders-0", 1000, 1000,
        )  # fmt: skip
        assert not missing.is_harmless


def test_another_empty_metadata_folder_makes_no_log_stray(log_dir: Path) -> None:
    (log_dir / "__cluster_metadata-1").mkdir()
    with StartPlan([str(log_dir)]) as start:
        assert all(log.renamed_to is None for _, log in start.logs())
        assert not start.forgets_topics
    shutil.rmtree(log_dir / METADATA)
    with StartPlan([str(log_dir)]) as start:
        assert all(log.renamed_to is None for _, log in start.logs())
        assert start.forgets_topics


@pytest.mark.parametrize(
    ("voters", "leader", "version", "others"),
    [
        ("[]", 1, 0, None),
        ('[{"voterId":1}]', 1, 0, set()),
        ('[{"voterId":1},{"voterId":2},{"voterId":3}]', 1, 0, {2, 3}),
        ('[{"voterId":9}]', 9, 0, {9}),
        ("", 1, 1, None),
        ("", 9, 1, {9}),
    ],
)
@pytest.mark.parametrize("has_snapshot", [False, True])
def test_quorum_state_tells_what_becomes_of_an_emptied_metadata_log(
    log_dir: Path, voters: str, leader: int, version: int, others: set[int] | None,
    has_snapshot: bool,
) -> None:  # fmt: skip
    folder = log_dir / METADATA
    for path in folder.iterdir():
        path.unlink()
    more = f'"clusterId":"","appliedOffset":0,"currentVoters":{voters}'
    if version:
        more = '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"'
    (folder / "quorum-state").write_text(
        f'{{"leaderId":{leader},"leaderEpoch":4,"votedId":-1,{more},"data_version":{version}}}'
    )
    if has_snapshot:
        (folder / f"{0:020}-{0:010}.checkpoint").write_bytes(snapshot_bytes([VERSION]))
    with StartPlan([str(log_dir)]) as start:
        strays = sum("-stray" in (log.renamed_to or "") for _, log in start.logs())
        assert start.starts
        assert start.forgets_topics
        assert start.metadata.other_controllers(start.node_id) == others
    # With the format's snapshot, the only controller knows that there is no topic.
    assert strays == (3 if others == set() and has_snapshot else 0)
