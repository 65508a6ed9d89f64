"""Logs that our engine wrote, served by a real broker; directories of real brokers, loaded by our engine."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import pytest

from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint, render_offset_checkpoint
from engine.files.file_names import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from engine.units import TopicPartition
from tests.fixtures_data import TruthRecord
from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED, Written
from tests.kafka.judge import Judge
from tests.kafka.truth import PartitionTruth, truth_of
from tests.log_scripts import load
from tests.random_scripts import RandomScript

LOGS = 12
STEPS = 80
HOW_LEFT = ("current", "live", "crashed", "legacy")
# A broker decides by its own clock which old segments and producers go: here none of them may.
KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "CreateTime"}


# Ours, in a broker


class WrittenLog(NamedTuple):
    """A log after its script, as our engine loads and serves it."""

    folder: Path
    start: int
    end: int
    records: list[list[Any]]
    committed: list[list[Any]]


def write_log(folder: Path, seed: int) -> WrittenLog | None:
    """A random script's log; None where the last stable offset lies below the log start, as Kafka has it when
    the log starts within a batch and a transaction is open: its own consumers cannot read that.
    """
    # With an index of very few entries not even Kafka can recover what it wrote.
    config = KEPT | {"cleanup.policy": "delete", "segment.index.bytes": "10485760"}
    # The broker's leader epoch begins at 0, and its consumers wait for ever in a gap at the last stable offset.
    script = RandomScript(seed, folder, STEPS, config, one_leader=True)
    state = script.finish()["state"]
    start, end = state["log_start_offset"], state["log_end_offset"]
    head = script.script | {"log_start": start, "clean": False}
    copy = folder.parent / "copies" / folder.name
    shutil.copytree(folder, copy)
    loaded = load(copy, head, [(start, "LOG_END"), (start, "TXN_COMMITTED")])
    if loaded["state"]["last_stable_offset"] < start:
        return None
    return WrittenLog(folder, start, end, *loaded["reads"])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, WrittenLog]:
    folder = tmp_path_factory.mktemp("ours")
    found: dict[str, WrittenLog] = {}
    for number in itertools.count():
        log = write_log(folder / f"random-{number}-0", SEED + number)
        if log is not None:
            found[log.folder.name] = log
        if len(found) == LOGS:
            return found
    raise AssertionError("unreachable")


@pytest.fixture(scope="module")
def served(
    written: dict[str, WrittenLog], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, PartitionTruth]]:
    """What a broker serves that found our logs in its log dir, and no word about a clean stop."""
    broker = Broker(tmp_path_factory.mktemp("broker"))
    with broker:
        for name in written:
            clients.create_topic(broker.bootstrap, name.rpartition("-")[0], 1, KEPT)
    for name, log in written.items():
        target = broker.log_dir / name
        for file in target.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for file in log.folder.iterdir():
            if file.name != "partition.metadata" and not file.name.endswith(".deleted"):
                shutil.copyfile(file, target / file.name)
    broker.forget_checkpoints()
    starts = {TopicPartition(name[:-2], 0): log.start for name, log in written.items()}
    (broker.log_dir / LOG_START_OFFSET_CHECKPOINT).write_bytes(render_offset_checkpoint(starts))
    with broker:
        yield truth_of(broker.bootstrap)


def shape(records: list[TruthRecord]) -> list[list[Any]]:
    """As our engine's loading gives them."""
    return [
        [
            record.offset,
            record.timestamp,
            None if record.key is None else crc32(record.key),
            None if record.value is None else crc32(record.value),
        ]
        for record in records
    ]


def test_a_broker_serves_every_record_of_our_logs(
    written: dict[str, WrittenLog], served: dict[str, PartitionTruth]
) -> None:
    for name, log in written.items():
        truth = served[name]
        assert (truth.earliest, truth.latest) == (log.start, log.end), name
        assert shape(truth.records) == log.records, name
    assert sum(len(log.records) for log in written.values()) > LOGS


def test_a_broker_serves_what_is_committed_in_our_logs(
    written: dict[str, WrittenLog], served: dict[str, PartitionTruth]
) -> None:
    for name, log in written.items():
        assert shape(served[name].committed) == log.committed, name


# Brokers', in our engine


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as running:
        yield running


def offsets(log_dir: Path, name: str) -> dict[TopicPartition, int]:
    """A checkpoint of a log dir; nothing where it was never written."""
    file = log_dir / name
    return dict(parse_offset_checkpoint(file.read_bytes())) if file.exists() else {}


@pytest.mark.parametrize("kind", HOW_LEFT)
@pytest.mark.parametrize("clean", [True, False], ids=["as clean", "as unclean"])
def test_our_engine_makes_of_a_brokers_directory_what_kafka_makes(
    request: pytest.FixtureRequest, judge: Judge, tmp_path: Path, kind: str, clean: bool
) -> None:
    if clean and kind in ("live", "crashed"):
        pytest.skip("a broker that did not stop leaves no word of a clean stop")
    left: Written = request.getfixturevalue(kind)
    starts = offsets(left.log_dir, LOG_START_OFFSET_CHECKPOINT)
    points = offsets(left.log_dir, RECOVERY_POINT_CHECKPOINT)
    for truth in left.truth.values():
        folder = left.log_dir / truth.folder
        partition = TopicPartition(truth.topic, truth.partition)
        start, point = starts.get(partition, 0), points.get(partition, 0)
        head = {"config": KEPT, "clean": clean, "log_start": start, "recovery_point": point}
        copies = [tmp_path / side / truth.folder for side in ("kafka", "ours")]
        for copy in copies:
            shutil.copytree(folder, copy)
        theirs, ours = judge.load(copies[0], head), load(copies[1], head)
        assert json.loads(json.dumps(ours["state"])) == theirs["state"], truth.folder
        assert ours["state"]["log_end_offset"] == truth.latest or kind == "live", truth.folder
        assert json.loads(json.dumps(ours["files"])) == theirs["files"], truth.folder
