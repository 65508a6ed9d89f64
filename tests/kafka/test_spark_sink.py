"""What Spark wrote, or restored from an export, a real broker loads and serves: the records that there were."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

import pyarrow as pa

import kafkafs.spark
from engine.checkpoint.meta_properties import parse_meta_properties
from engine.checkpoint.partition_metadata import parse_partition_metadata
from kafkafs.cli import cli
from kafkafs.spark.jobs.restore import restore
from kafkafs.spark.sink.partitioner import partitions_by_key
from tests.fixtures_data import TruthRecord
from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED, Written
from tests.kafka.truth import PartitionTruth, truth_of
from tests.kafkafs.spark.sink.written_frames import findings_in
from tests.spark_session import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]

KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
OWN = "kafkafs-written"
PARTITIONS = 5
SPARSE = "kafkafs-sparse"
EVERY, REST = 7, 3


@dataclass
class Served:
    """What a broker served of the log dirs that were made.

    Attributes:
        source: the log dir that was exported, and what was served of that.
        exported: the files.
        truth: of all partitions now.
        keyed: the keys that a client sent, by the partition they went to.
    """

    source: Written
    exported: Path
    truth: dict[str, PartitionTruth]
    keyed: dict[int, list[bytes]]


def topics_of(source: Written) -> dict[str, int]:
    """The topics that are restored, also those without a record, and how many partitions they have."""
    found: dict[str, int] = {}
    for truth in source.truth.values():
        if not truth.internal:
            found[truth.topic] = max(found.get(truth.topic, 0), truth.partition + 1)
    return found


@pytest.fixture(scope="module")
def served(
    spark: SparkSession, current: Written, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("spark-sink")
    topics = topics_of(current)
    broker = Broker(home)
    restored, written, sparse = (home / name for name in ("restored", "written", "sparse"))
    with broker:
        for topic, count in topics.items():
            clients.create_topic(broker.bootstrap, topic, count, KEPT)
        clients.create_topic(broker.bootstrap, OWN, PARTITIONS, KEPT)
        clients.create_topic(broker.bootstrap, SPARSE, topics["orders"], KEPT)
        keyed = send_keys(broker.bootstrap)
    meta = parse_meta_properties((broker.log_dir / "meta.properties").read_bytes())
    ids = {
        folder.name.rpartition("-")[0]: parse_partition_metadata(
            (folder / "partition.metadata").read_bytes()
        ).topic_id
        for folder in broker.log_dir.iterdir()
        if (folder / "partition.metadata").exists()
    }
    broker_id: dict[str, Any] = {"clusterId": meta.cluster_id, "nodeId": meta.node_id}
    words = ["export", str(current.log_dir), str(home / "export"), "--spark", "local[2]"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    summary = restore(
        spark,
        str(home / "export"),
        str(restored),
        topicIds=json.dumps({topic: ids[topic] for topic in topics}),
        codec="lz4",
        segmentBytes="64k",
        tasks=4,
        **broker_id,
    )
    assert summary.findings == 0
    frame = kafkafs.spark.read(spark, str(current.log_dir), topics="orders", includeHeaders=True)
    kafkafs.spark.write(
        frame.drop("offset", "partition"),
        str(written),
        topic=OWN,
        partitions=PARTITIONS,
        topicIds=json.dumps({OWN: ids[OWN]}),
        codec="zstd",
        **broker_id,
    )
    kafkafs.spark.write(
        frame.where(f"offset % {EVERY} = {REST}").drop("topic"),
        str(sparse),
        topic=SPARSE,
        tasks=3,
        batchBytes="1k",
        topicIds=json.dumps({SPARSE: ids[SPARSE]}),
        **broker_id,
    )
    for log_dir in (restored, written, sparse):
        assert findings_in(log_dir) == [], log_dir
        for folder in log_dir.iterdir():
            if folder.is_dir():
                shutil.rmtree(broker.log_dir / folder.name)
    broker.forget_checkpoints()
    whole = Broker(home, settings={"log.dirs": f"{broker.log_dir},{restored},{written},{sparse}"})
    with whole:
        yield Served(current, home / "export", truth_of(whole.bootstrap), keyed)


def send_keys(bootstrap: str) -> dict[int, list[bytes]]:
    """Keys by the partition that a client with Kafka's partitioner sends them to."""
    found: dict[int, list[bytes]] = {}
    chance = random.Random(SEED)
    producer = clients.producer(bootstrap, partitioner="murmur2_random")

    def note(_: object, message: Any) -> None:
        found.setdefault(message.partition(), []).append(message.key())

    for _ in range(500):
        producer.produce(OWN, b"", chance.randbytes(chance.randrange(1, 20)), on_delivery=note)
    producer.flush()
    return found


def without_epochs(records: list[TruthRecord]) -> list[TruthRecord]:
    return [dataclasses.replace(record, leader_epoch=0) for record in records]


def test_a_broker_serves_a_restored_export_as_it_was(served: Served) -> None:
    topics = topics_of(served.source)
    for name, truth in served.source.truth.items():
        if truth.topic not in topics or not truth.latest:
            continue
        got = served.truth[name]
        assert (got.earliest, got.latest) == (truth.earliest, truth.latest), name
        assert got.records == without_epochs(truth.records), name
        for timestamp, answer in got.for_times.items():
            # Markers of transactions have times too, and are not restored.
            late = (each.offset for each in truth.records if each.timestamp >= timestamp)
            assert answer == next(late, clients.NO_OFFSET), (name, timestamp)


def test_a_broker_serves_records_that_got_new_offsets(served: Served) -> None:
    orders = [
        record
        for truth in served.source.truth.values()
        if truth.topic == "orders"
        for record in truth.records
    ]
    found = []
    for number in range(PARTITIONS):
        got = served.truth[f"{OWN}-{number}"]
        assert [record.offset for record in got.records] == list(range(got.latest))
        assert got.earliest == 0
        assert [r.timestamp for r in got.records] == sorted(r.timestamp for r in got.records)
        found += got.records
    assert sorted(map(content, found)) == sorted(map(content, orders))


def test_a_broker_serves_kept_offsets_with_others_missing_between_them(served: Served) -> None:
    for number in range(topics_of(served.source)["orders"]):
        before = served.source.truth[f"orders-{number}"]
        kept = [each for each in before.records if each.offset % EVERY == REST]
        got = served.truth[f"{SPARSE}-{number}"]
        assert got.records == without_epochs(kept)
        assert (got.earliest, got.latest) == (kept[0].offset, kept[-1].offset + 1)
        for timestamp, answer in got.for_times.items():
            late = (each.offset for each in kept if each.timestamp >= timestamp)
            assert answer == next(late, clients.NO_OFFSET), (number, timestamp)


def content(record: TruthRecord) -> str:
    """What a record is wherever it stands."""
    return repr((record.timestamp, record.key, record.value, record.headers))


def test_keys_go_where_a_client_sends_them(served: Served) -> None:
    assert sum(map(len, served.keyed.values())) == 500
    for partition, keys in served.keyed.items():
        column = pa.array(keys, pa.binary())
        assert set(partitions_by_key(column, column, PARTITIONS).tolist()) == {partition}
    for number in range(PARTITIONS):
        for record in served.truth[f"{OWN}-{number}"].records:
            key = pa.array([record.key], pa.binary())
            value = pa.array([record.value], pa.binary())
            assert partitions_by_key(key, value, PARTITIONS).tolist() == [number]


def test_a_restore_that_is_killed_leaves_nothing_half_done(
    spark: SparkSession, served: Served, tmp_path: Path
) -> None:
    target = tmp_path / "restored"
    rounds = int(os.environ.get("KAFKAFS_SPARK_KILLS", "1"))
    killed = 0
    for turn in range(rounds):
        killed += kill_a_restore(served.exported, target, random.Random(SEED + turn))
        if target.exists():
            assert (target / "kafkafs-spark.json").exists()
            shutil.rmtree(target)
        leftovers = os.listdir(tmp_path)
        assert all(name.startswith(".restored.kafkafs-spark-") for name in leftovers)
    assert killed
    summary = restore(spark, str(served.exported), str(target))
    assert summary.records == sum(
        len(truth.records) for truth in served.source.truth.values() if not truth.internal
    )
    assert os.listdir(tmp_path) == ["restored"]


def kill_a_restore(source: Path, target: Path, chance: random.Random) -> bool:
    """Kill the driver of a restore, Python and JVM, once it has begun; whether it was not done yet."""
    command = [sys.executable, "-m", "kafkafs", "spark", "restore", str(source), str(target)]
    process = subprocess.Popen(
        [*command, "--master", "local[2]", "--quiet"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 240
        while not any(target.parent.glob(".*/tasks")) and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 3))
        return process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for path in target.parent.glob(".*/owner.json"):
            wait_for_end(json.loads(path.read_bytes())["owner"][3])


def wait_for_end(pid: int) -> None:
    """Of the JVM, which nobody waits for."""
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
