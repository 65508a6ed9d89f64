"""A real broker starts on what a rebuild makes of log dirs whose side files are damaged, and serves every record."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.rebuild.rebuilding import rebuild
from tests.kafka import clients
from tests.kafka.broker import Broker, BrokerError
from tests.kafka.truth import PartitionTruth, truth_of

TOPICS = ("one", "two", "three")
KINDS = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "garbage": lambda data: bytes(range(7, 7 + min(len(data), 200))),
    "cut": lambda data: data[: len(data) // 2],
}
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": 1000,
    "metadata.log.max.snapshot.interval.ms": 1000,
}


@dataclass
class Sound:
    """The log dir of a broker that was killed, and what it served."""

    home: Path
    truth: dict[str, PartitionTruth]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    home = tmp_path_factory.mktemp("side-files")
    broker = Broker(home, settings=SETTINGS)
    broker.start()
    try:
        producer = clients.producer(broker.bootstrap)
        for topic in TOPICS:
            clients.create_topic(broker.bootstrap, topic, 1, {"retention.ms": "-1"})
            for number in range(100):
                producer.produce(topic, f"{topic} {number}".encode(), key=b"k", partition=0)
        assert producer.flush(60) == 0
        truth = truth_of(broker.bootstrap, set(TOPICS))
    finally:
        broker.stop()
    metadata = broker.log_dir / "__cluster_metadata-0"
    assert list(metadata.glob("*.checkpoint")), "the controller wrote no snapshot"
    return Sound(home, truth)


def side_files(log_dir: Path) -> list[Path]:
    """All files that a rebuild reads beside the records, but the one without which no broker starts."""
    metadata = log_dir / "__cluster_metadata-0"
    return [
        metadata / "quorum-state",
        metadata / "partition.metadata",
        metadata / "leader-epoch-checkpoint",
        *metadata.glob("*.checkpoint"),
        log_dir / "bootstrap.checkpoint",
        *log_dir.glob("*-offset-checkpoint"),
        *(log_dir / f"{topic}-0" / "partition.metadata" for topic in TOPICS),
        *(log_dir / f"{topic}-0" / "leader-epoch-checkpoint" for topic in TOPICS),
        *(path for topic in TOPICS for path in (log_dir / f"{topic}-0").glob("*.snapshot")),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_starts_and_serves_all_whatever_all_side_files_are(
    sound: Sound, tmp_path: Path, kind: str
) -> None:
    home, source = tmp_path / "home", tmp_path / "source"
    home.mkdir()
    shutil.copytree(sound.home / "data", source)
    hurt = [path for path in side_files(source) if path.exists()]
    assert len(hurt) > 15
    for path in hurt:
        path.write_bytes(KINDS[kind](path.read_bytes()))
    result = rebuild(str(source), str(home / "data"))
    assert result.no_start is None
    assert not result.lost_something
    told = {each.path for each in (*result.left_out, *result.made_anew)}
    assert str(source / "__cluster_metadata-0" / "quorum-state") in told
    broker = Broker(home, settings=SETTINGS)
    with broker:
        assert truth_of(broker.bootstrap, set(TOPICS)) == sound.truth
    assert not list((home / "data").glob("*-stray"))


@pytest.mark.parametrize("name", ["__cluster_metadata-0/quorum-state", "bootstrap.checkpoint"])
def test_the_same_files_stop_a_broker_where_they_are(
    sound: Sound, tmp_path: Path, name: str
) -> None:
    shutil.copytree(sound.home / "data", tmp_path / "data")
    path = tmp_path / "data" / name
    path.write_bytes(
        bytes(path.stat().st_size if path.exists() else 400)
    )  # 4.4.0 writes no bootstrap.checkpoint
    with pytest.raises(BrokerError):
        Broker(tmp_path, settings=SETTINGS).start()
