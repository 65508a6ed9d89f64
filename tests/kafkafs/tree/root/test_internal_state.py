"""groups/, transactions/ and cluster/ in the tree: what is listed, what files say, what follows."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Kind, mtime_of
from kafkafs.tree.tree import Tree
from tests.builders import Rec, batch, values
from tests.fixtures_data import log_dir
from tests.kafkafs.built_logs import content_of, names_in, tree_over
from tests.replayed_bytes import (
    NOW,
    TOPIC_ID,
    commit,
    flights,
    in_batches,
    metadata_record,
    share_group,
    share_snapshot,
    share_update,
    topic_records,
    transaction_record,
    write_partition,
)

OFFSETS = "__consumer_offsets-0"
SHARE_STATE = "__share_group_state-0"
STATES = ["groups", "transactions", "cluster"]


def facts_of(tree: Tree, path: str) -> dict[str, Any]:
    node = tree.resolve(path)
    data = content_of(node)
    attrs = node.attrs()
    assert (attrs.size, attrs.exact) == (len(data), True)
    found: dict[str, Any] = json.loads(data)
    return found


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "__transaction_state", "__cluster_metadata"]
)
def test_a_folder_is_listed_when_the_source_holds_its_topic(tmp_path: Path, topic: str) -> None:
    write_partition(tmp_path, f"{topic}-0", [batch(values("a"))])
    name = dict(zip(["__consumer_offsets", "__transaction_state", "__cluster_metadata"], STATES,
                    strict=True))[topic]  # fmt: skip
    with tree_over(tmp_path) as tree:
        assert [each for each in names_in(tree.root()) if each in STATES] == [name]
        tree.resolve(name)
        for other in STATES:
            if other != name:
                with pytest.raises(NotFound):
                    tree.resolve(other)


def test_another_copy_or_a_folder_on_its_way_out_is_no_source_of_state(tmp_path: Path) -> None:
    records = in_batches([commit("g", "t", 0, 1)])
    write_partition(tmp_path, f"{OFFSETS}.0123456789abcdef0123456789abcdef-delete", records)
    with tree_over(tmp_path) as tree:
        assert not {*names_in(tree.root())} & {*STATES}


def test_an_offset_has_its_lag_and_the_time_of_its_record(tmp_path: Path) -> None:
    write_partition(tmp_path, OFFSETS, in_batches([commit("g", "t", 0, 2, NOW + 5)]))
    write_partition(tmp_path, "t-0", [batch(values("a", "b", "c"))])
    with tree_over(tmp_path) as tree:
        facts = facts_of(tree, "groups/g/t-0")
        assert tree.resolve("groups/g/t-0").attrs().mtime_ns == mtime_of(NOW + 5)
    assert (facts["offset"], facts["logEndOffset"], facts["lag"]) == (2, 3, 1)
    assert (facts["group"], facts["topic"], facts["partition"]) == ("g", "t", 0)
    assert facts["commitTime"] == "2023-11-14T22:13:20.005Z"


def test_a_partition_that_is_not_here_has_no_lag(tmp_path: Path) -> None:
    write_partition(tmp_path, OFFSETS, in_batches([commit("g", "elsewhere", 7, 2)]))
    with tree_over(tmp_path) as tree:
        facts = facts_of(tree, "groups/g/elsewhere-7")
    assert (facts["logEndOffset"], facts["lag"]) == (None, None)


def test_a_group_lists_itself_and_its_offsets(tmp_path: Path) -> None:
    records = [commit("g", "t", 10, 1), commit("g", "t", 9, 1), commit("g", "group.json", 0, 1)]
    write_partition(tmp_path, OFFSETS, in_batches(records))
    with tree_over(tmp_path) as tree:
        folder = tree.resolve("groups/g")
        assert names_in(folder) == ["group.json", "group.json-0", "t-9", "t-10"]
        assert facts_of(tree, "groups/g/group.json")["committedPartitions"] == 3
        for name in ("t-8", "t", "t-09", "t--1", "", "..", "orders-0/x"):
            with pytest.raises((NotFound, LookupError)):
                tree.resolve(f"groups/g/{name}")


ODD = ["a/b", "..", "", "%", "x" * 300, "\n\x1b[31m", "ä"]


def test_odd_names_are_listed_and_found(tmp_path: Path) -> None:
    records = [commit(name, "t", 0, place) for place, name in enumerate(ODD)]
    write_partition(tmp_path, OFFSETS, in_batches(records))
    with tree_over(tmp_path) as tree:
        found = {}
        for name in names_in(tree.resolve("groups")):
            assert "/" not in name
            assert len(name.encode()) <= 255
            facts = facts_of(tree, f"groups/{name}/t-0")
            found[facts["group"]] = facts["offset"]
    assert found == {name: place for place, name in enumerate(ODD)}


def test_a_new_commit_shows_within_a_second_and_cookies_stay(tmp_path: Path) -> None:
    path = write_partition(tmp_path, OFFSETS, in_batches([commit("b", "t", 0, 1)]))
    with tree_over(tmp_path) as tree:
        folder = tree.resolve("groups")
        first = {entry.name: entry.cookie for entry in folder.entries()}
        inode = tree.resolve("groups/b/t-0").inode
        with open(path, "ab") as log:
            log.write(batch([commit("a", "t", 0, 1), commit("b", "t", 0, 8)], 1))
        time.sleep(0.5)
        second = {entry.name: entry.cookie for entry in tree.resolve("groups").entries()}
        assert facts_of(tree, "groups/b/t-0")["offset"] == 8
        assert tree.resolve("groups/b/t-0").inode == inode
    assert (first.keys(), second.keys()) == ({"b"}, {"a", "b"})
    assert second["b"] == first["b"]
    assert second["a"] > second["b"]


def test_a_period_has_the_state_of_its_end_by_look_up_alone(tmp_path: Path) -> None:
    records = [commit("g", "t", 0, 1, NOW), commit("g", "t", 0, 2, NOW + 60_000)]
    write_partition(tmp_path, OFFSETS, in_batches(records))
    write_partition(
        tmp_path, "t-0",
        [batch(values("a", "b", timestamp=NOW)), batch(values("c", timestamp=NOW + 60_000), 2)],
    )  # fmt: skip
    with tree_over(tmp_path) as tree:
        period = tree.resolve("time/2023-11-14T22:13")
        assert names_in(period) == [OFFSETS, "t-0"]
        early = facts_of(tree, "time/2023-11-14T22:13/groups/g/t-0")
        assert (early["offset"], early["logEndOffset"], early["lag"]) == (1, 2, 1)
        late = facts_of(tree, "time/2023-11-14T22:13..2023-11-14T22:15/groups/g/t-0")
        assert (late["offset"], late["lag"]) == (2, 1)
        assert facts_of(tree, "time/2023-11-14T22:13../groups/g/t-0")["offset"] == 2
        assert names_in(tree.resolve("time/2020/groups")) == []
        with pytest.raises(NotFound):
            tree.resolve("time/2020/transactions")


def test_damage_is_named_where_its_records_would_be(tmp_path: Path) -> None:
    batches = in_batches([commit("g", "t", number, number) for number in range(3)])
    broken = bytearray(batches[1])
    broken[70] ^= 1
    write_partition(tmp_path, OFFSETS, [batches[0], bytes(broken), batches[2]])
    with tree_over(tmp_path) as tree:
        assert names_in(tree.resolve("groups/g")) == ["group.json", "t-0", "t-2"]
        [damage] = facts_of(tree, "groups/g/group.json")["damage"]
        assert (damage["position"], damage["firstOffset"]) == (len(batches[0]), 1)
        error = json.loads(tree.resolve("groups").xattrs()["user.kafka.error"])
    assert error["damagedPlaces"] == 1


def test_transactional_ids_are_files(tmp_path: Path) -> None:
    record = transaction_record(
        "tx/1", NOW + 3, producerId=7, producerEpoch=0, transactionTimeoutMs=1,
        transactionStatus=1, transactionLastUpdateTimestampMs=NOW, transactionPartitions=[],
        transactionStartTimestampMs=NOW,
    )  # fmt: skip
    write_partition(tmp_path, "__transaction_state-0", in_batches([record]))
    with tree_over(tmp_path) as tree:
        assert names_in(tree.resolve("transactions")) == ["tx%2F1"]
        facts = facts_of(tree, "transactions/tx%2F1")
        assert tree.resolve("transactions/tx%2F1").attrs().mtime_ns == mtime_of(NOW + 3)
    assert (facts["transactionalId"], facts["state"]) == ("tx/1", "Ongoing")


def test_the_cluster_has_a_folder_for_each_kind_of_thing(tmp_path: Path) -> None:
    records: list[Rec] = [
        *topic_records("t", TOPIC_ID, 2, NOW + 1),
        metadata_record("CONFIG_RECORD", NOW + 9, resourceType=2, resourceName="t", name="a", value="1"),
        metadata_record("CONFIG_RECORD", resourceType=4, resourceName="", name="b", value="2"),
        metadata_record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=30),
    ]  # fmt: skip
    write_partition(tmp_path, "__cluster_metadata-0", in_batches(records))
    with tree_over(tmp_path) as tree:
        assert names_in(tree.resolve("cluster")) == [
            "cluster.json", "topics", "configs", "brokers", "acls", "features",
        ]  # fmt: skip
        topic = facts_of(tree, "cluster/topics/t")
        assert (topic["topicId"], topic["configs"]) == (TOPIC_ID, {"a": "1"})
        assert [row["partition"] for row in topic["partitions"]] == [0, 1]
        assert tree.resolve("cluster/topics/t").attrs().mtime_ns == mtime_of(NOW + 9)
        assert facts_of(tree, "cluster/configs/broker/%")["configs"] == {"b": "2"}
        assert facts_of(tree, "cluster/features/metadata.version")["level"] == 30
        about = facts_of(tree, "cluster/cluster.json")
        assert (about["topics"], about["partitions"], about["metadataOffset"]) == (1, 2, 5)
        assert about["clusterId"] == "EjRWeJCrze8SNFZ4kKvN7w"


def test_every_folder_below_can_be_walked_and_every_file_read() -> None:
    with tree_over(log_dir("current")) as tree:
        count = 0
        todo = [*STATES]
        while todo:
            path = todo.pop()
            folder = tree.resolve(path)
            for entry in folder.entries():  # type: ignore[attr-defined]
                child = f"{path}/{entry.name}"
                node = tree.resolve(child)
                assert (node.attrs().kind, node.inode) == (entry.kind, entry.inode)
                if entry.kind is Kind.DIRECTORY:
                    todo.append(child)
                else:
                    facts_of(tree, child)
                    count += 1
    assert count > 30


def test_a_source_that_loses_its_topic_loses_the_folder(tmp_path: Path) -> None:
    path = write_partition(tmp_path, OFFSETS, in_batches([commit("g", "t", 0, 1)]))
    with tree_over(tmp_path) as tree:
        assert "groups" in names_in(tree.root())
        for file in path.parent.iterdir():
            file.unlink()
        os.rmdir(path.parent)
        time.sleep(0.5)
        assert "groups" not in names_in(tree.root())


def share_group_in(folder: Path) -> None:
    """A share group of topic t, of which partition 0 is here and has two records in flight."""
    state = share_snapshot(
        "g", 0, startOffset=1, deliveryCompleteCount=1, leaderEpoch=4, timestamp=NOW + 5,
        stateBatches=flights((2, 2, 2, 1), (4, 4, 0, 3)),
    )  # fmt: skip
    group = share_group("g", {TOPIC_ID: ("t", [0, 1])})
    write_partition(folder, OFFSETS, in_batches([group]))
    update = share_update(
        "g", 0, startOffset=2, deliveryCompleteCount=2, leaderEpoch=4, timestamp=NOW + 90_000
    )
    write_partition(folder, SHARE_STATE, in_batches([state, share_snapshot("g", 1), update]))
    write_partition(folder, "t-0", [batch(values("a", "b", "c", "d", "e", "f"))])


def test_a_share_group_has_a_file_for_each_partition(tmp_path: Path) -> None:
    share_group_in(tmp_path)
    with tree_over(tmp_path) as tree:
        assert names_in(tree.resolve("groups/g")) == ["group.json", "t-0", "t-1"]
        facts = facts_of(tree, "groups/g/t-0")
        assert tree.resolve("groups/g/t-0").attrs().mtime_ns == mtime_of(NOW + 90_000)
        assert facts_of(tree, "groups/g/group.json")["sharedPartitions"] == 2
        assert facts_of(tree, "groups/g/t-1")["lag"] is None
    assert (facts["group"], facts["topic"], facts["startOffset"]) == ("g", "t", 2)
    assert (facts["logEndOffset"], facts["lag"]) == (6, 2)
    assert [each["deliveryCount"] for each in facts["stateBatches"]] == [1, 3]
    assert facts["recordTime"] == "2023-11-14T22:14:50Z"


def test_a_share_group_as_of_a_period_has_the_start_offset_of_then(tmp_path: Path) -> None:
    share_group_in(tmp_path)
    with tree_over(tmp_path) as tree:
        facts = facts_of(tree, "time/2023-11-14T22:13/groups/g/t-0")
        assert (facts["startOffset"], facts["deliveryCompleteCount"]) == (1, 1)
        later = facts_of(tree, "time/2023-11-14T22:14/groups/g/t-0")
        assert later["startOffset"] == 2


def test_share_groups_are_there_without_consumer_offsets_too(tmp_path: Path) -> None:
    write_partition(tmp_path, SHARE_STATE, in_batches([share_snapshot("g", 0, startOffset=1)]))
    with tree_over(tmp_path) as tree:
        assert "groups" in names_in(tree.root())
        assert facts_of(tree, "groups/g/group.json")["state"] == "Unknown"
        assert facts_of(tree, f"groups/g/{TOPIC_ID}-0")["startOffset"] == 1


def test_damage_of_share_states_is_told_beside_them(tmp_path: Path) -> None:
    share_group_in(tmp_path)
    path = tmp_path / SHARE_STATE / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[80] ^= 0xFF
    path.write_bytes(data)
    with tree_over(tmp_path) as tree:
        [place] = facts_of(tree, "groups/g/group.json")["damage"]
        assert place["partition"] == SHARE_STATE
        facts = facts_of(tree, "groups/g/t-0")
        assert facts["notes"] == ["offset 2: an update without a snapshot"]
        assert b"damagedPlaces" in tree.resolve("groups").xattrs()["user.kafka.error"]


def test_a_share_partition_follows_the_coordinator(tmp_path: Path) -> None:
    share_group_in(tmp_path)
    with tree_over(tmp_path) as tree:
        assert facts_of(tree, "groups/g/t-0")["startOffset"] == 2
        with open(tmp_path / SHARE_STATE / f"{0:020}.log", "ab") as log:
            log.write(batch([share_update("g", 0, startOffset=5)], 3))
        end = time.monotonic() + 1
        while facts_of(tree, "groups/g/t-0")["startOffset"] != 5:
            assert time.monotonic() < end
            time.sleep(0.02)
