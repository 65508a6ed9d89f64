"""The files of the new nodes: a snapshot above all old ones, meta.properties, settings and instructions."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from random import Random

import pytest

from engine.checkpoint.meta_properties import parse_meta_properties
from engine.checkpoint.properties_file import parse_properties
from engine.disk.disk import Disk
from engine.log.log_directory import open_source
from engine.plan.loading.broker_failure import Outcome
from engine.plan.loading.broker_versions import broker_version
from engine.plan.start_plan import StartPlan
from engine.recover.errors import RecoverRefusedError
from engine.recover.metadata.cluster_metadata import (
    ClusterMetadata,
    metadata_from_folders,
    newest_metadata,
)
from engine.recover.metadata.snapshot import ClusterOptions, check_cluster, write_cluster
from engine.recover.nodes import ClusterNode
from engine.replay.cluster import ClusterReplay
from tests.builders import Rec
from tests.engine.recover.metadata.clusters import (
    CLUSTER,
    LOG,
    config,
    each_in_a_batch,
    feature,
    node_of,
    placements_of,
    random_cluster,
    topic,
    write_log_dir,
)
from tests.internal_records import damaged, random_record

RECORDS = [
    feature("metadata.version", 30),
    feature("eligible.leader.replicas.version", 1),
    *topic("a", 1, 2),
    *topic("__consumer_offsets", 2, 4),
]
SNAPSHOT = "00000000000000000011-0000000004.checkpoint"
NODES = [node_of(1), node_of(2, "broker"), node_of(3, "controller")]


@pytest.fixture
def metadata(tmp_path: Path) -> ClusterMetadata:
    path = write_log_dir(tmp_path / "old", each_in_a_batch(RECORDS, epoch=3))
    return newest_metadata([open_source(str(path))])


def write(
    target: Path,
    metadata: ClusterMetadata,
    options: ClusterOptions | None = None,
    nodes: list[ClusterNode] | None = None,
) -> None:
    nodes = nodes or NODES
    write_cluster(
        target, metadata, nodes, placements_of(metadata, nodes), 7000, options or ClusterOptions()
    )


def test_each_node_gets_its_files_and_each_controller_the_snapshot(
    tmp_path: Path, metadata: ClusterMetadata
) -> None:
    target = tmp_path / "new"
    write(target, metadata)
    files = {
        os.path.relpath(os.path.join(folder, name), target)
        for folder, _, names in os.walk(target)
        for name in names
    }
    assert files == {
        "START.txt",
        *(f"node-{number}/server.properties" for number in (1, 2, 3)),
        *(f"node-{number}/data/meta.properties" for number in (1, 2, 3)),
        *(f"node-{number}/data/{LOG}/{SNAPSHOT}" for number in (1, 3)),
    }
    for node in NODES:
        data = (target / f"node-{node.id}/data/meta.properties").read_bytes()
        found = parse_meta_properties(data)
        assert (found.cluster_id, found.node_id) == (CLUSTER, node.id)
        assert found.directory_id == node.directory_ids[0]


def test_a_snapshot_is_read_back_as_the_cluster(tmp_path: Path, metadata: ClusterMetadata) -> None:
    target = tmp_path / "new"
    write(target, metadata)
    image = ClusterReplay(open_source(str(target / "node-3/data"))).image()
    assert image.notes == image.unreadable == ()
    assert image.snapshot == (11, 4)
    assert list(image.topics) == ["__consumer_offsets", "a"]
    row = image.partitions_of(metadata.topics["a"].topic_id)[1].facts
    assert (row["leader"], row["isr"], row["replicas"]) == (1, [1], [1, 2])
    producer_ids = image.table("quorum")["producerIds"].facts
    assert producer_ids == {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": 7000}
    assert "voters" not in image.table("quorum")


def test_a_dynamic_quorum_has_the_voters_with_their_directories(
    tmp_path: Path, metadata: ClusterMetadata
) -> None:
    target = tmp_path / "new"
    write(target, metadata, ClusterOptions(quorum="dynamic"))
    image = ClusterReplay(open_source(str(target / "node-1/data"))).image()
    voters = image.table("quorum")["voters"].facts["voters"]
    assert [(each["voterId"], each["voterDirectoryId"]) for each in voters] == [
        (node.id, node.directory_ids[0]) for node in (NODES[0], NODES[2])
    ]
    assert voters[0]["endpoints"] == [{"name": "CONTROLLER", "host": "h1", "port": 9011}]
    assert image.table("features")["kraft.version"].facts["level"] == 1
    settings = parse_properties((target / "node-2/server.properties").read_bytes())
    assert settings["controller.quorum.bootstrap.servers"] == "h1:9011,h3:9031"
    assert "controller.quorum.voters" not in settings


def test_the_snapshot_is_readable_by_its_owner_alone_from_the_first_byte(
    tmp_path: Path, metadata: ClusterMetadata
) -> None:
    modes: list[tuple[str, int]] = []

    class Watching(Disk):
        def open(self, path, **how):  # type: ignore[no-untyped-def]
            file = super().open(path, **how)
            write_at = file.write_at

            def watched(position: int, data: bytes) -> None:
                modes.append((os.fspath(path), stat.S_IMODE(os.fstat(file.fileno()).st_mode)))
                write_at(position, data)

            file.write_at = watched
            return file

    write(tmp_path / "new", metadata, ClusterOptions(disk=Watching()))
    secret = {mode for path, mode in modes if path.endswith(".checkpoint")}
    assert secret == {0o600}
    assert len(modes) > 10


def test_a_planned_start_of_each_node_succeeds(tmp_path: Path, metadata: ClusterMetadata) -> None:
    target = tmp_path / "new"
    write(target, metadata)
    for node in NODES:
        for version in ("4.3.1", "4.4.0"):
            paths = [str(target / f"node-{node.id}/{name}") for name in node.log_dirs]
            with StartPlan(paths, broker_version(version)) as plan:
                list(plan.logs())
                assert plan.verdict()[0] is Outcome.LOADS, plan.verdict()


def test_settings_name_roles_listeners_quorum_and_counts(
    tmp_path: Path, metadata: ClusterMetadata
) -> None:
    target = tmp_path / "new"
    write(target, metadata, ClusterOptions(final_target=Path("/srv/kafka")))
    both, broker, controller = (
        parse_properties((target / f"node-{number}/server.properties").read_bytes())
        for number in (1, 2, 3)
    )
    assert both["process.roles"] == "broker,controller"
    assert both["log.dirs"] == both["metadata.log.dir"] == "/srv/kafka/node-1/data"
    assert both["listeners"] == "PLAINTEXT://h1:9010,CONTROLLER://h1:9011"
    assert both["controller.quorum.voters"] == "1@h1:9011,3@h3:9031"
    assert both["inter.broker.listener.name"] == "PLAINTEXT"
    assert both["offsets.topic.num.partitions"] == "4"
    assert "transaction.state.log.num.partitions" not in both
    assert broker["listeners"] == "PLAINTEXT://h2:9020"
    assert broker["controller.listener.names"] == "CONTROLLER"
    assert broker["listener.security.protocol.map"] == "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    assert controller["listeners"] == "CONTROLLER://h3:9031"
    assert "inter.broker.listener.name" not in controller
    assert "offsets.topic.num.partitions" not in controller


def test_what_is_held_and_unknown_is_told_with_how_to_lift_it(
    tmp_path: Path, metadata: ClusterMetadata
) -> None:
    write(tmp_path / "plain", metadata)
    text = (tmp_path / "plain/START.txt").read_text()
    assert "--delete-config" not in text
    assert "Not known" not in text
    (tmp_path / "old/a-0").mkdir()
    folders = metadata_from_folders([open_source(str(tmp_path / "old"))])
    write(tmp_path / "held", folders, ClusterOptions(hold=True))
    text = (tmp_path / "held/START.txt").read_text()
    assert "--delete-config retention.ms,retention.bytes" in text
    assert all(f"- {each}" in text for each in folders.unknown)
    settings = (tmp_path / "held/node-2/server.properties").read_text()
    assert "offsets.retention.minutes=2147483647" in settings
    assert "offsets.retention" not in (tmp_path / "held/node-3/server.properties").read_text()


def test_a_new_cluster_id_is_the_same_on_all_nodes(
    tmp_path: Path, metadata: ClusterMetadata
) -> None:
    target = tmp_path / "new"
    write(target, metadata, ClusterOptions(cluster_id="new"))
    ids = {
        parse_properties(path.read_bytes())["cluster.id"]
        for path in target.glob("node-*/*/meta.properties")
    }
    assert len(ids) == 1
    assert CLUSTER not in ids


def test_an_existing_file_is_not_replaced(tmp_path: Path, metadata: ClusterMetadata) -> None:
    write(tmp_path / "new", metadata)
    with pytest.raises(FileExistsError):
        write(tmp_path / "new", metadata)


@pytest.mark.parametrize(
    ("options", "nodes", "says"),
    [
        (ClusterOptions(kafka_version="4.2.0"), NODES, "No MetadataVersion|only supports"),
        (ClusterOptions(kafka_version="3.9.1"), NODES, "cannot read this cluster's metadata"),
        (ClusterOptions(kafka_version="2.8.2"), NODES, "has no metadata log"),
        (ClusterOptions(kafka_version="9.9"), NODES, "not a known version"),
        (ClusterOptions(), [node_of(1, "broker")], "no node is a controller"),
        (ClusterOptions(), [node_of(1, "controller")], "no node is a broker"),
        (ClusterOptions(), [ClusterNode(1)], "address of node 1 for"),
    ],
)
def test_what_cannot_start_is_refused_before_anything_is_written(
    tmp_path: Path,
    metadata: ClusterMetadata,
    options: ClusterOptions,
    nodes: list[ClusterNode],
    says: str,
) -> None:
    with pytest.raises(RecoverRefusedError, match=says) as caught:
        write_cluster(tmp_path / "new", metadata, nodes, [], 0, options)
    assert caught.value.hint
    assert not (tmp_path / "new").exists()


def test_a_metadata_version_without_dynamic_quorums_refuses_one(tmp_path: Path) -> None:
    path = write_log_dir(tmp_path / "old", each_in_a_batch([feature("metadata.version", 20)]))
    found = newest_metadata([open_source(str(path))])
    check_cluster(found, NODES, ClusterOptions())
    with pytest.raises(RecoverRefusedError, match="--quorum static"):
        check_cluster(found, NODES, ClusterOptions(quorum="dynamic"))


def test_settings_of_brokers_that_are_gone_are_told(tmp_path: Path) -> None:
    records = [*RECORDS, config(4, "2", "a", "1"), config(4, "8", "a", "1")]
    path = write_log_dir(tmp_path / "old", each_in_a_batch(records))
    write(tmp_path / "new", newest_metadata([open_source(str(path))]))
    text = (tmp_path / "new/START.txt").read_text()
    assert "settings of broker 8 are left out" in text
    assert "broker 2" not in text


@pytest.mark.parametrize("seed", range(30))
def test_records_of_any_content_are_written_or_refused(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    records = random_cluster(random)
    for _ in range(20):
        key, value = random_record("__cluster_metadata", random)
        if value is not None and random.random() < 0.2:
            value = damaged(value, random)
        records.insert(random.randint(1, len(records)), Rec(value, key))
    path = write_log_dir(tmp_path / "old", each_in_a_batch(records))
    found = newest_metadata([open_source(str(path))])
    with contextlib.suppress(RecoverRefusedError):
        write(tmp_path / "new", found, ClusterOptions(hold=True, renumbered={1: 2}))
        again = newest_metadata([open_source(str(tmp_path / "new/node-1/data"))])
        assert again.unknown == ()
        assert list(again.topics) == [
            each for each, known in found.topics.items() if known.partitions
        ]


def test_an_epoch_without_a_successor_is_refused(tmp_path: Path, metadata: ClusterMetadata) -> None:
    with pytest.raises(RecoverRefusedError, match="PARTITION_RECORD cannot be written"):
        write_cluster(
            tmp_path / "new",
            metadata,
            NODES,
            placements_of(metadata, NODES, epoch=1 << 31),
            0,
            ClusterOptions(),
        )
    assert not (tmp_path / "new").exists()


def test_how_to_lift_what_is_held_is_told_for_topics_with_values_of_their_own(
    tmp_path: Path,
) -> None:
    records = [
        *RECORDS, *topic("own", 5), config(2, "own", "retention.ms", "1000"),
        *topic("tiered", 6), config(2, "tiered", "remote.storage.enable", "true"),
        config(2, "tiered", "local.retention.ms", "5"),
    ]  # fmt: skip
    path = write_log_dir(tmp_path / "old", each_in_a_batch(records))
    found = newest_metadata([open_source(str(path))])
    write(tmp_path / "new", found, ClusterOptions(hold=True))
    lines = (tmp_path / "new/START.txt").read_text().splitlines()
    assert [line.split() for line in lines if line.startswith("    --entity-name")] == [
        [
            "--entity-name",
            "own",
            "--add-config",
            "retention.ms=1000",
            "--delete-config",
            "retention.bytes",
        ],
        [
            "--entity-name",
            "tiered",
            "--add-config",
            "local.retention.ms=5",
            "--delete-config",
            "retention.ms,retention.bytes,local.retention.bytes",
        ],
    ]
