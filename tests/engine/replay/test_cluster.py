"""The cluster as the records of __cluster_metadata and its snapshots leave it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.log.log_directory import open_source
from engine.record.control_records import ControlRecordType
from engine.record.encoding.quorum_records import encode_quorum_record
from engine.replay import cluster
from engine.replay.cluster import ClusterImage, ClusterReplay
from engine.replay.cluster_tables import _CHANGES, _WITHOUT_EFFECT
from engine.topics.internal_topics import METADATA_RECORDS
from tests.builders import Rec, batch, control_batch
from tests.fixtures_data import log_dir
from tests.replayed_bytes import (
    TOPIC_ID,
    in_batches,
    metadata_record,
    snapshot_bytes,
    topic_records,
    write_partition,
)

LOG = "__cluster_metadata-0"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def image_of(folder: Path, records: Sequence[Rec]) -> ClusterImage:
    write_partition(folder, LOG, in_batches(records))
    return ClusterReplay(open_source(str(folder))).image()


def facts_of(image: ClusterImage, table: str) -> list[dict[str, Any]]:
    return [item.facts for item in image.table(table).values()]


def test_a_brokers_topics_have_the_ids_of_their_folders() -> None:
    source = open_source(str(log_dir("current")))
    image = ClusterReplay(source).image()
    checked = 0
    for log in source.partitions().values():
        topic, number = log.topic_partition
        if log.name == f"{topic}-{number}" and topic != "__cluster_metadata":
            facts = image.topic_facts(topic)
            assert facts is not None, topic
            assert facts["topicId"] == log.view().topic_id
            assert number in {row["partition"] for row in facts["partitions"]}
            checked += 1
    assert checked > 10
    assert (image.notes, image.unreadable, image.missing) == ((), (), None)


def test_every_type_of_record_is_applied_or_known_to_change_nothing() -> None:
    kinds = {kind.name for kind in METADATA_RECORDS.values()}
    applied = {kind for kind in _CHANGES if kind.endswith("_RECORD")}
    nothing = {kind for kind in _WITHOUT_EFFECT if kind.endswith("_RECORD")}
    assert applied | nothing == kinds - {"ACCESS_CONTROL_RECORD"}


def test_a_change_of_a_partition_changes_what_it_names(tmp_path: Path) -> None:
    change = {"partitionId": 1, "topicId": TOPIC_ID}
    records = [
        *topic_records("t", TOPIC_ID, 2),
        metadata_record("PARTITION_CHANGE_RECORD", **change, isr=[2], leader=2),
        metadata_record("PARTITION_CHANGE_RECORD", **change, isr=[2, 1]),
        metadata_record("PARTITION_CHANGE_RECORD", **change, leader=-1, version=2,
                        eligibleLeaderReplicas=[1]),
    ]  # fmt: skip
    facts = image_of(tmp_path, records).topic_facts("t")
    assert facts is not None
    first, second = facts["partitions"]
    assert (first["leader"], first["leaderEpoch"], first["partitionEpoch"]) == (1, 0, 0)
    assert (second["leader"], second["leaderEpoch"], second["partitionEpoch"]) == (-1, 2, 3)
    assert (second["isr"], second["replicas"]) == ([2, 1], [1, 2])
    assert second["eligibleLeaderReplicas"] == [1]


def test_eligible_leaders_are_cleared_for_one_topic_or_all(tmp_path: Path) -> None:
    records = topic_records("t", TOPIC_ID) + topic_records("u", OTHER_ID)
    for topic_id in (TOPIC_ID, OTHER_ID):
        records.append(
            metadata_record("PARTITION_CHANGE_RECORD", version=2, partitionId=0, topicId=topic_id,
                            eligibleLeaderReplicas=[2])
        )  # fmt: skip
    one = [*records, metadata_record("CLEAR_ELR_RECORD", topicName="t")]
    every = [*records, metadata_record("CLEAR_ELR_RECORD", topicName="")]
    found = []
    for folder, chosen in ((tmp_path / "one", one), (tmp_path / "all", every)):
        image = image_of(folder, chosen)
        rows = [image.partitions_of(topic_id)[0].facts for topic_id in (TOPIC_ID, OTHER_ID)]
        found.append([row["eligibleLeaderReplicas"] for row in rows])
    assert found == [[[], [2]], [[], []]]


def config(kind: int, resource: str, name: str, value: str | None) -> Rec:
    return metadata_record(
        "CONFIG_RECORD", resourceType=kind, resourceName=resource, name=name, value=value
    )


def test_a_topic_that_is_removed_takes_its_configuration_along(tmp_path: Path) -> None:
    records = [
        *topic_records("t", TOPIC_ID), *topic_records("u", OTHER_ID), config(2, "t", "a", "1"),
        config(2, "u", "a", "1"), metadata_record("REMOVE_TOPIC_RECORD", topicId=TOPIC_ID),
    ]  # fmt: skip
    image = image_of(tmp_path, records)
    assert list(image.topics) == ["u"]
    assert image.topic_facts("t") is None
    assert list(image.table("configs")) == [("topic", "u")]
    assert TOPIC_ID not in image.partitions


def test_a_configuration_is_what_was_set_and_not_taken_back(tmp_path: Path) -> None:
    records = [config(4, "", "x", "1"), config(4, "", "y", "2"), config(4, "", "x", None),
               config(32, "g", "z", "3"), config(32, "g", "z", None)]  # fmt: skip
    [found] = facts_of(image_of(tmp_path, records), "configs")
    assert found == {"type": "broker", "name": "", "configs": {"y": "2"}}


def broker(number: int, epoch: int) -> Rec:
    return metadata_record(
        "REGISTER_BROKER_RECORD", version=3, brokerId=number, brokerEpoch=epoch,
        incarnationId=TOPIC_ID, endPoints=[], features=[], rack="r",
    )  # fmt: skip


def test_a_broker_is_fenced_and_changed_in_its_epoch_only(tmp_path: Path) -> None:
    records = [
        broker(1, 5), broker(2, 6), broker(3, 7),
        metadata_record("UNFENCE_BROKER_RECORD", id=1, epoch=5),
        metadata_record("UNFENCE_BROKER_RECORD", id=2, epoch=99),
        metadata_record("BROKER_REGISTRATION_CHANGE_RECORD", version=1, brokerId=1, brokerEpoch=5,
                        inControlledShutdown=1),
        metadata_record("UNREGISTER_BROKER_RECORD", brokerId=3, brokerEpoch=7),
    ]  # fmt: skip
    image = image_of(tmp_path, records)
    found = {facts["brokerId"]: facts for facts in facts_of(image, "brokers")}
    assert found.keys() == {1, 2}
    assert (found[1]["fenced"], found[1]["inControlledShutdown"]) == (False, True)
    assert found[2]["fenced"] is True
    [note] = image.notes
    assert note == "offset 4: there is no broker 2 of epoch 99 to change"


def test_a_controller_is_there_until_it_is_unregistered(tmp_path: Path) -> None:
    facts = {"incarnationId": TOPIC_ID, "zkMigrationReady": False, "endPoints": [], "features": []}
    records = [
        *(
            metadata_record("REGISTER_CONTROLLER_RECORD", controllerId=each, **facts)
            for each in (1, 2)
        ),
        *(metadata_record("UNREGISTER_CONTROLLER_RECORD", controllerId=each) for each in (2, 3)),
    ]
    image = image_of(tmp_path, records)
    assert [facts["controllerId"] for facts in facts_of(image, "controllers")] == [1]
    assert image.notes == ("offset 3: there is no controller 3 to remove",)


def test_acls_quotas_users_tokens_and_features_come_and_go(tmp_path: Path) -> None:
    acl = {
        "resourceType": 2, "resourceName": "t", "patternType": 3, "principal": "User:a",
        "host": "*", "operation": 3, "permissionType": 3,
    }  # fmt: skip
    entity = [
        {"entityType": "user", "entityName": None},
        {"entityType": "client-id", "entityName": "c"},
    ]
    quota = {"entity": entity, "value": 5.5, "remove": False}
    user = {"salt": b"s", "storedKey": b"k", "serverKey": b"v", "iterations": 4096}
    token = {"owner": "o", "requester": "r", "renewers": []}
    records = [
        metadata_record("ACCESS_CONTROL_ENTRY_RECORD", id=TOPIC_ID, **acl),
        metadata_record("ACCESS_CONTROL_ENTRY_RECORD", id=OTHER_ID, **acl),
        metadata_record("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", id=OTHER_ID),
        metadata_record("CLIENT_QUOTA_RECORD", key="rate", **quota),
        metadata_record("CLIENT_QUOTA_RECORD", key="other", **quota),
        metadata_record("CLIENT_QUOTA_RECORD", key="other", **(quota | {"remove": True})),
        metadata_record("USER_SCRAM_CREDENTIAL_RECORD", name="bob", mechanism=1, **user),
        metadata_record("USER_SCRAM_CREDENTIAL_RECORD", name="bob", mechanism=2, **user),
        metadata_record("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", name="bob", mechanism=2),
        metadata_record("DELEGATION_TOKEN_RECORD", tokenId="a", **token),
        metadata_record("DELEGATION_TOKEN_RECORD", tokenId="b", **token),
        metadata_record("REMOVE_DELEGATION_TOKEN_RECORD", tokenId="a"),
        metadata_record("FEATURE_LEVEL_RECORD", name="f", featureLevel=3),
        metadata_record("FEATURE_LEVEL_RECORD", name="g", featureLevel=3),
        metadata_record("FEATURE_LEVEL_RECORD", name="g", featureLevel=0),
        metadata_record("PRODUCER_IDS_RECORD", brokerId=1, brokerEpoch=1, nextProducerId=2000),
        metadata_record("REGISTER_CONTROLLER_RECORD", controllerId=9, incarnationId=TOPIC_ID),
        metadata_record("NO_OP_RECORD"),
    ]  # fmt: skip
    image = image_of(tmp_path, records)
    [shown] = facts_of(image, "acls")
    assert (shown["operation"], shown["permissionType"], shown["patternType"]) == ("READ", "ALLOW", "LITERAL")  # fmt: skip
    assert facts_of(image, "quotas") == [
        {"entity": {"user": None, "client-id": "c"}, "quotas": {"rate": 5.5}}
    ]
    assert facts_of(image, "users") == [
        {"name": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096}
    ]
    assert [facts["tokenId"] for facts in facts_of(image, "tokens")] == ["b"]
    assert facts_of(image, "features") == [{"name": "f", "level": 3}]
    assert image.table("quorum")["producerIds"].facts["nextProducerId"] == 2000
    assert list(image.table("controllers")) == [9]
    assert (image.notes, image.newest_offset) == ((), len(records) - 1)


@pytest.mark.parametrize(
    ("end", "names"), [("END", ["a", "b", "c"]), ("ABORT", ["a", "c"]), (None, ["a"])]
)
def test_a_metadata_transaction_counts_once_it_ends(
    tmp_path: Path, end: str | None, names: list[str]
) -> None:
    def feature(name: str) -> Rec:
        return metadata_record("FEATURE_LEVEL_RECORD", name=name, featureLevel=1)

    records = [feature("a"), metadata_record("BEGIN_TRANSACTION_RECORD"), feature("b")]
    if end is not None:
        records += [metadata_record(f"{end}_TRANSACTION_RECORD"), feature("c")]
    image = image_of(tmp_path, records)
    assert sorted(image.table("features")) == names
    assert (image.waiting is not None) == (end is None)


def test_records_that_do_not_fit_or_cannot_be_read_are_noted(tmp_path: Path) -> None:
    records = [
        metadata_record("REMOVE_TOPIC_RECORD", topicId=TOPIC_ID),
        metadata_record("PARTITION_CHANGE_RECORD", partitionId=0, topicId=TOPIC_ID, leader=1),
        Rec(b"\x01\x7f\x00"), Rec(b""), Rec(None), Rec(b"\x02\x00\x00"),
        metadata_record("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", id=TOPIC_ID),
        *topic_records("t", OTHER_ID),
    ]  # fmt: skip
    image = image_of(tmp_path, records)
    assert sorted(int(note.split()[1].rstrip(":")) for note in image.notes) == [*range(7)]
    assert list(image.topics) == ["t"]


# Snapshots


def with_snapshot(folder: Path, end_offset: int, data: bytes) -> None:
    (folder / LOG / f"{end_offset:020}-{1:010}.checkpoint").write_bytes(data)


def test_a_snapshot_and_the_log_after_it_make_the_cluster(tmp_path: Path) -> None:
    write_partition(tmp_path, LOG, in_batches(topic_records("new", OTHER_ID), 100), 100)
    with_snapshot(tmp_path, 100, snapshot_bytes(topic_records("old", TOPIC_ID)))
    image = ClusterReplay(open_source(str(tmp_path))).image()
    assert list(image.topics) == ["new", "old"]
    assert image.snapshot is not None
    assert (image.snapshot.end_offset, image.missing) == (100, None)


@pytest.mark.parametrize("kind", ["cut", "flipped", "no footer", "empty"])
def test_a_snapshot_that_is_not_whole_gives_way_to_the_one_before(
    tmp_path: Path, kind: str
) -> None:
    newer = in_batches(topic_records("new", OTHER_ID), 100)
    newer += in_batches([metadata_record("NO_OP_RECORD")], 102)
    write_partition(tmp_path, LOG, newer, 100)
    with_snapshot(tmp_path, 100, snapshot_bytes(topic_records("old", TOPIC_ID)))
    data = bytearray(snapshot_bytes(topic_records("lie", TOPIC_ID), footer=kind != "no footer"))
    if kind == "cut":
        data = data[:-20]
    elif kind == "flipped":
        data[-100] ^= 1  # in the last record before the footer
    elif kind == "empty":
        data = bytearray()
    with_snapshot(tmp_path, 102, bytes(data))
    image = ClusterReplay(open_source(str(tmp_path))).image()
    assert list(image.topics) == ["new", "old"]
    assert any("is not complete" in note for note in image.notes)


def test_without_any_whole_snapshot_the_rest_is_shown_and_the_gap_named(tmp_path: Path) -> None:
    write_partition(tmp_path, LOG, in_batches(topic_records("new", OTHER_ID), 100), 100)
    image = ClusterReplay(open_source(str(tmp_path))).image()
    assert (list(image.topics), image.missing) == (["new"], 100)


def test_the_quorum_says_who_leads_and_who_votes(tmp_path: Path) -> None:
    leader = encode_quorum_record(
        ControlRecordType.LEADER_CHANGE,
        {"version": 0, "leaderId": 3, "voters": [{"voterId": 3}], "grantingVoters": []},
    )
    version = encode_quorum_record(
        ControlRecordType.KRAFT_VERSION, {"version": 0, "kRaftVersion": 1}
    )
    batches = [
        control_batch(ControlRecordType.LEADER_CHANGE, leader, 0, leader_epoch=6),
        control_batch(ControlRecordType.KRAFT_VERSION, version, 1, leader_epoch=6),
    ]
    write_partition(tmp_path, LOG, batches)
    image = ClusterReplay(open_source(str(tmp_path))).image()
    found = image.table("quorum")["leader"].facts
    assert (found["leaderId"], found["epoch"]) == (3, 6)
    assert image.table("features")["kraft.version"].facts["level"] == 1


def test_new_records_are_applied_without_replaying_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_partition(tmp_path, LOG, in_batches(topic_records("t", TOPIC_ID)))
    replay = ClusterReplay(open_source(str(tmp_path)))
    before = replay.image()
    starts = []
    real = cluster.replayed_records

    def spied(view: Any, start: int, *rest: Any) -> Any:
        starts.append(start)
        return real(view, start, *rest)

    monkeypatch.setattr(cluster, "replayed_records", spied)
    change = metadata_record("PARTITION_CHANGE_RECORD", partitionId=0, topicId=TOPIC_ID, leader=2)
    with open(path, "ab") as log:
        log.write(batch([change, *topic_records("u", OTHER_ID)], 2))
    time.sleep(0.3)
    after = replay.image()
    assert starts == [2]
    assert list(after.topics) == ["t", "u"]
    assert list(before.topics) == ["t"]
    rows = [image.partitions_of(TOPIC_ID)[0].facts["leader"] for image in (before, after)]
    assert rows == [1, 2]
