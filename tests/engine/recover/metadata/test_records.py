"""The records of a recovered cluster: whatever the old metadata kept is in them, and nothing else."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from engine.log.log_directory import open_source
from engine.recover.metadata.cluster_metadata import ClusterMetadata, newest_metadata
from engine.recover.metadata.records import (
    MetadataRecord,
    RecordOptions,
    cluster_records,
    encode_record,
    topic_configs,
)
from engine.recover.metadata.snapshot import KRaftSnapshot, snapshot_batches
from engine.replay.cluster_tables import _CHANGES
from engine.topics.internal_topics import decoder_for
from tests.builders import Rec
from tests.engine.recover.metadata.clusters import (
    LOG,
    config,
    each_in_a_batch,
    feature,
    kept_of,
    node_of,
    placements_of,
    random_cluster,
    topic,
    write_log_dir,
)

NODES = [node_of(1), node_of(2)]
IDS = frozenset({1, 2})


def metadata_of(folder: Path, records: list[Rec]) -> ClusterMetadata:
    return newest_metadata([open_source(str(write_log_dir(folder, each_in_a_batch(records))))])


def records_of(
    metadata: ClusterMetadata, options: RecordOptions | None = None
) -> list[MetadataRecord]:
    options = options or RecordOptions(nodes=IDS)
    return list(cluster_records(metadata, placements_of(metadata, NODES), 5000, options))


@pytest.mark.parametrize("seed", range(60))
def test_a_cluster_is_the_same_after_its_records_were_written_and_read(
    tmp_path: Path, seed: int
) -> None:
    before = metadata_of(tmp_path / "before", random_cluster(Random(seed)))
    assert before.unknown == ()
    records = records_of(before)
    path = write_log_dir(tmp_path / "after", [])
    (path / LOG).mkdir(exist_ok=True)
    data = b"".join(snapshot_batches(KRaftSnapshot(1000, 5), records))
    (path / LOG / "00000000000000001000-0000000005.checkpoint").write_bytes(data)
    after = newest_metadata([open_source(str(path))])
    assert after.unknown == ()
    assert kept_of(after) == kept_of(before)
    assert after.end == (5, 1000)
    again = records_of(after)
    assert [encode_record(each) for each in again if each.kind != "PARTITION_RECORD"] == [
        encode_record(each) for each in records if each.kind != "PARTITION_RECORD"
    ]


def test_records_of_nodes_and_of_partitions_changes_are_left_out(tmp_path: Path) -> None:
    kinds = {each.kind for seed in range(40) for each in _random_records(tmp_path, seed)}
    left_out = {kind for kind in _CHANGES if kind.endswith("_RECORD")} - kinds
    assert left_out == {
        "REGISTER_BROKER_RECORD",
        "UNREGISTER_BROKER_RECORD",
        "PARTITION_CHANGE_RECORD",
        "FENCE_BROKER_RECORD",
        "UNFENCE_BROKER_RECORD",
        "REMOVE_TOPIC_RECORD",
        "REMOVE_FEATURE_LEVEL_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
        "ZK_MIGRATION_STATE_RECORD",
        "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
        "REMOVE_DELEGATION_TOKEN_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "UNREGISTER_CONTROLLER_RECORD",
        "CLEAR_ELR_RECORD",
    }


def _random_records(folder: Path, seed: int) -> list[MetadataRecord]:
    return records_of(metadata_of(folder / str(seed), random_cluster(Random(seed))))


def test_the_metadata_version_is_first_and_decides_the_version_of_partitions(
    tmp_path: Path,
) -> None:
    for level, version in ((7, 0), (16, 0), (17, 1), (22, 1), (23, 2), (33, 2)):
        records = [feature("aaa", 1), feature("metadata.version", level), *topic("a", 1)]
        made = records_of(metadata_of(tmp_path / str(level), records))
        assert made[0].fields == {"name": "metadata.version", "featureLevel": level}
        assert {each.version for each in made if each.kind == "PARTITION_RECORD"} == {version}


def test_a_partition_is_led_by_its_best_copy_which_alone_is_in_sync(tmp_path: Path) -> None:
    made = records_of(metadata_of(tmp_path, [feature("metadata.version", 30), *topic("a", 1)]))
    [row] = [each.fields for each in made if each.kind == "PARTITION_RECORD"]
    assert (row["replicas"], row["isr"], row["leader"]) == ([1, 2], [1], 1)
    assert (row["leaderEpoch"], row["partitionEpoch"]) == (9, 6)
    assert row["directories"] == [node.directory_ids[0] for node in NODES]
    decoder = decoder_for("__cluster_metadata")
    assert decoder is not None
    value = encode_record(next(each for each in made if each.kind == "PARTITION_RECORD"))
    decoded = decoder.decode(None, value).value
    assert decoded is not None
    assert "eligibleLeaderReplicas" not in decoded["data"]
    assert "leaderRecoveryState" not in decoded["data"]


def test_eligible_replicas_need_a_cluster_wide_min_isr(tmp_path: Path) -> None:
    version = feature("metadata.version", 30)
    elr = feature("eligible.leader.replicas.version", 1)
    kept = config(4, "", "min.insync.replicas", "2")
    for name, records, expected in (
        ("off", [version], []),
        ("on", [version, elr], ["1"]),
        ("kept", [version, elr, kept], ["2"]),
    ):
        made = records_of(metadata_of(tmp_path / name, [*records, *topic("a", 1)]))
        assert [
            each.fields["value"]
            for each in made
            if each.kind == "CONFIG_RECORD" and each.fields["name"] == "min.insync.replicas"
        ] == expected


def test_settings_of_brokers_follow_their_new_numbers(tmp_path: Path) -> None:
    throttle = "leader.replication.throttled.replicas"
    records = [
        feature("metadata.version", 30), *topic("a", 1), config(4, "1", "x", "1"),
        config(4, "3", "y", "3"), config(4, "", "z", "0"), config(2, "a", throttle, "0:1,1:3"),
    ]  # fmt: skip
    options = RecordOptions(renumbered={1: 11, 2: 12}, nodes=frozenset({11, 12}))
    made = records_of(metadata_of(tmp_path, records), options)
    found = {
        (each.fields["resourceName"], each.fields["name"]): each.fields["value"]
        for each in made
        if each.kind == "CONFIG_RECORD"
    }
    assert found == {("11", "x"): "1", ("", "z"): "0", ("a", throttle): "0:11,1:3"}


def test_holding_overrides_what_would_take_records() -> None:
    options = RecordOptions(hold=True)
    assert topic_configs({"retention.ms": "5", "a": "1"}, 2, options) == {
        "retention.ms": "-1", "retention.bytes": "-1", "a": "1",
    }  # fmt: skip
    tiered = topic_configs({"remote.storage.enable": "true"}, 2, options)
    assert tiered["local.retention.ms"] == tiered["local.retention.bytes"] == "-2"


def test_min_isr_is_lowered_to_the_replicas_on_request_only() -> None:
    for value, fitted in (("3", "2"), ("2", "2"), ("1", "1"), ("x", "x")):
        configs = {"min.insync.replicas": value}
        assert topic_configs(configs, 2, RecordOptions()) == configs
        found = topic_configs(configs, 2, RecordOptions(fits_min_isr=True))
        assert found == {"min.insync.replicas": fitted}


def test_topics_without_a_placement_are_left_out_with_their_settings(tmp_path: Path) -> None:
    records = [feature("metadata.version", 30), *topic("a", 1), *topic("b", 2)]
    records.append(config(2, "b", "x", "1"))
    metadata = metadata_of(tmp_path, records)
    chosen = [each for each in placements_of(metadata, NODES) if each.topic == "a"]
    made = list(cluster_records(metadata, chosen, 1, RecordOptions(nodes=IDS)))
    assert [each.fields["name"] for each in made if each.kind == "TOPIC_RECORD"] == ["a"]
    assert not [each for each in made if each.kind == "CONFIG_RECORD"]
