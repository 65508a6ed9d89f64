"""The commands of the README's «Your broker died», run on a log dir with a bad sector, a flipped bit and a lost segment.

A real broker serves the result: all that the manifest does not list as missing; with another replica, everything.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import doc_sessions
from tests.doc_sessions import ROOT, Session, sessions_of
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED, Written
from tests.kafka.test_rebuilt_logs import damage, missing_of, promised
from tests.kafka.truth import PartitionTruth, truth_of
from tests.unreadable import SECTOR, FailingDisk

FLIPPED, UNREADABLE = "txn-0", "orders-0"


class Rescue(NamedTuple):
    """The outputs of the README's commands, and what a broker served of each rebuilt log dir."""

    shown: dict[str, str]
    lost: str
    reports: dict[str, dict[str, Any]]
    rebuilt: dict[str, PartitionTruth]
    merged: dict[str, PartitionTruth]


def sessions() -> list[Session]:
    found = [each for each in sessions_of(ROOT / "README.md") if each.preparation == "died"]
    return [each for each in found if not each.mounts]  # the mount shows offsets of the sample


def no_gaps(truth: PartitionTruth) -> bool:
    offsets = [record.offset for record in truth.records]
    return offsets == list(range(truth.earliest, truth.latest))


def served(made: Path, home: Path) -> dict[str, PartitionTruth]:
    """What a broker serves of a log dir in its own place."""
    made.rename(home / "data")
    with Broker(home) as broker:
        return truth_of(broker.bootstrap)


@pytest.fixture(scope="module")
def rescue(current: Written, tmp_path_factory: pytest.TempPathFactory) -> Rescue:
    folder = tmp_path_factory.mktemp("died")
    disk = FailingDisk(tmp_path_factory.mktemp("disk"))
    # In a compacted topic a gap is no proof of a loss.
    whole = [name for name, truth in current.truth.items() if no_gaps(truth)]
    lost = max(whole, key=lambda name: len(list((current.log_dir / name).glob("*.log"))))

    def died(_: Path) -> None:
        for name in ("mnt", "srv"):
            (folder / name).mkdir(exist_ok=True)
        data = folder / "var/lib/kafka/data"
        if data.exists():
            return  # the commands follow each other on the same log dir
        shutil.copytree(current.log_dir, data)
        shutil.copytree(current.log_dir, folder / "backup/broker-2")
        (data / ".kafka_cleanshutdown").unlink()
        damage(data / FLIPPED, SEED)
        segments = sorted((data / lost).glob("*.log"))
        segments[len(segments) // 2].unlink()
        largest = max((data / UNREADABLE).glob("*.log"), key=lambda path: path.stat().st_size)
        assert largest.stat().st_size > 3 * SECTOR
        disk.set({largest: [(SECTOR, 2 * SECTOR)]})

    shown: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(doc_sessions.PREPARATIONS, "died", died)
        died(folder)
        for name, value in disk.environment.items():
            patch.setenv(name, value)
        for session in sessions():
            outputs = doc_sessions.run(session, folder)
            for step, lines in zip(session.steps, outputs, strict=True):
                shown[step.command] = "\n".join(lines)
    manifest = json.loads((folder / "srv/rebuilt/kafkafs-rebuild.json").read_bytes())
    homes = [tmp_path_factory.mktemp(name) for name in ("rebuilt", "merged")]
    return Rescue(
        shown,
        lost,
        {each["partition"]: each for each in manifest["partitions"]},
        served(folder / "srv/rebuilt", homes[0]),
        served(folder / "srv/merged", homes[1]),
    )


def output(rescue: Rescue, *words: str) -> str:
    (found,) = [
        text for command, text in rescue.shown.items() if all(word in command for word in words)
    ]
    return found


def test_check_names_each_of_the_three_faults(rescue: Rescue) -> None:
    text = output(rescue, "kafkafs check")
    assert "batch-checksum" in text
    assert "unreadable" in text
    assert f"/{rescue.lost}/" in text


def test_rebuild_lists_what_is_missing_and_verify_agrees(rescue: Rescue) -> None:
    for name in (FLIPPED, UNREADABLE, rescue.lost):
        assert missing_of(rescue.reports[name]), name
    assert output(rescue, "rebuild --verify") == "/srv/merged matches its manifest"


def test_a_broker_serves_all_that_the_manifest_does_not_list_as_missing(
    current: Written, rescue: Rescue
) -> None:
    for name, truth in current.truth.items():
        if not truth.internal:
            got, report = rescue.rebuilt[name], rescue.reports[name]
            assert got.records == promised(truth.records, report, committed=False), name


def test_with_another_replica_a_broker_serves_everything(current: Written, rescue: Rescue) -> None:
    for name, truth in current.truth.items():
        if not truth.internal:
            got = rescue.merged[name]
            assert (got.earliest, got.latest) == (truth.earliest, truth.latest), name
            assert got.records == truth.records, name
            assert got.committed == truth.committed, name
