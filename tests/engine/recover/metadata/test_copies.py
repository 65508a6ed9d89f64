"""The newest metadata of a cluster, out of copies of different moments and in any condition."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.checkpoint.partition_metadata import PartitionMetadata, render_partition_metadata
from engine.log.log_directory import LogSource, open_source
from engine.recover.errors import RecoverRefusedError
from engine.recover.metadata.cluster_metadata import newest_metadata
from tests.builders import Rec, batch, patched, write_segment
from tests.engine.recover.metadata.clusters import (
    LOG,
    config,
    each_in_a_batch,
    feature,
    topic,
    uuid_of,
    write_log_dir,
)
from tests.replayed_bytes import metadata_record, snapshot_bytes

RECORDS = [feature("metadata.version", 30), *topic("a", 1), *topic("b", 2), *topic("c", 3)]


def opened(*paths: Path) -> list[LogSource]:
    return [open_source(str(path)) for path in paths]


def test_the_longest_copy_of_the_newest_epoch_counts(tmp_path: Path) -> None:
    old = write_log_dir(tmp_path / "old", each_in_a_batch(RECORDS))
    newer = [*each_in_a_batch(RECORDS[:3]), *each_in_a_batch(topic("d", 4), 3, epoch=1)]
    new = write_log_dir(tmp_path / "new", newer, node=2)
    short = write_log_dir(tmp_path / "short", newer[:4], node=3)
    found = newest_metadata(opened(old, short, new))
    assert list(found.topics) == ["a", "d"]
    assert found.end == (1, 5)
    assert found.highest == (1, 7)
    assert found.origin == f"{new}/{LOG}, the newest of 3 copies"
    assert newest_metadata(opened(old, short, new), str(old)).end == (0, 7)


def test_a_hole_of_the_newest_copy_is_filled_from_another(tmp_path: Path) -> None:
    batches = each_in_a_batch(RECORDS)
    broken = [*batches[:2], patched(batches[2], 70, b"\xff"), *batches[3:]]
    newest = write_log_dir(tmp_path / "newest", broken)
    other = write_log_dir(tmp_path / "other", batches, node=2)
    alone = newest_metadata(opened(newest))
    assert any("no copy has the offsets 2 to 2" in each for each in alone.unknown)
    found = newest_metadata(opened(newest, other))
    assert list(found.topics) == ["a", "b", "c"]
    assert [sorted(each.partitions) for each in found.topics.values()] == [[0], [0], [0]]
    assert found.unknown == ()


def test_a_metadata_transaction_that_did_not_end_is_left_out(tmp_path: Path) -> None:
    begin = metadata_record("BEGIN_TRANSACTION_RECORD", name="x")
    scram = {"salt": b"s", "storedKey": b"k", "serverKey": b"v", "iterations": 4096}
    user = metadata_record("USER_SCRAM_CREDENTIAL_RECORD", name="u", mechanism=1, **scram)
    end = metadata_record("END_TRANSACTION_RECORD")
    abort = metadata_record("ABORT_TRANSACTION_RECORD")
    for name, tail, topics, users in (
        ("open", [], ["a", "b", "c"], 0),
        ("ended", [end], ["a", "b", "c", "d"], 1),
        ("aborted", [abort], ["a", "b", "c"], 0),
    ):
        batches = each_in_a_batch([*RECORDS, begin, *topic("d", 4), user, *tail])
        found = newest_metadata(opened(write_log_dir(tmp_path / name, batches)))
        assert list(found.topics) == topics
        assert len(found.credentials) == users
        said = [each for each in found.unknown if "did not end" in each]
        assert len(said) == (name == "open")


def test_the_newest_whole_snapshot_of_any_copy_goes_before_the_log(tmp_path: Path) -> None:
    tail = each_in_a_batch(topic("d", 4), 20, epoch=2)
    leading = write_log_dir(tmp_path / "leading", tail, base=20)
    (leading / LOG / "00000000000000000020-0000000001.checkpoint").write_bytes(
        snapshot_bytes(RECORDS[:3], footer=False)
    )
    other = write_log_dir(tmp_path / "other", each_in_a_batch([], 20), node=2, base=20)
    (other / LOG / "00000000000000000020-0000000001.checkpoint").write_bytes(
        snapshot_bytes(RECORDS)
    )
    found = newest_metadata(opened(leading, other))
    assert list(found.topics) == ["a", "b", "c", "d"]
    assert found.end == (2, 22)
    damaged, tail_of_one = found.unknown
    assert "is not whole" in damaged
    assert "no majority of the copies shows them; they count" in tail_of_one
    alone = newest_metadata(opened(leading))
    assert list(alone.topics) == ["d"]
    assert any("no copy has the offsets 0 to 19" in each for each in alone.unknown)


def test_a_snapshot_behind_the_log_is_the_end(tmp_path: Path) -> None:
    path = write_log_dir(tmp_path / "one", each_in_a_batch(RECORDS[:3]))
    (path / LOG / "00000000000000000050-0000000004.checkpoint").write_bytes(snapshot_bytes(RECORDS))
    found = newest_metadata(opened(path))
    assert list(found.topics) == ["a", "b", "c"]
    assert (found.end, found.highest) == ((4, 50), (4, 50))


def test_log_dirs_of_two_clusters_are_refused_with_their_names(tmp_path: Path) -> None:
    one = write_log_dir(tmp_path / "one", each_in_a_batch(RECORDS))
    other = write_log_dir(tmp_path / "other", each_in_a_batch(RECORDS), cluster=uuid_of(9))
    with pytest.raises(RecoverRefusedError) as caught:
        newest_metadata(opened(one, other))
    for name in (str(one), str(other), uuid_of(9)):
        assert name in str(caught.value)
    with pytest.raises(RecoverRefusedError):
        newest_metadata(opened(one), str(other))


def test_a_chosen_log_dir_without_metadata_is_refused(tmp_path: Path) -> None:
    one = write_log_dir(tmp_path / "one", each_in_a_batch(RECORDS))
    bare = write_log_dir(tmp_path / "bare")
    with pytest.raises(RecoverRefusedError, match="--metadata folders"):
        newest_metadata(opened(one, bare), str(bare))


def test_topics_that_only_folders_name_are_added_unless_they_were_deleted(tmp_path: Path) -> None:
    removed = metadata_record("REMOVE_TOPIC_RECORD", topicId=uuid_of(3))
    path = write_log_dir(tmp_path / "one", each_in_a_batch([*RECORDS, removed]))
    for name, number in (("a-0", 1), ("c-0", 3), ("lost-1", 7), ("b-0", 8)):
        (path / name).mkdir()
        (path / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_of(number)}")
        (path / name / "00000000000000000000.log").write_bytes(b"")
    found = newest_metadata(opened(path))
    assert list(found.topics) == ["a", "b", "lost"]
    assert found.topics["lost"].topic_id == uuid_of(7)
    assert found.topics["lost"].partitions[1].replicas == (1,)
    told = "\n".join(found.unknown)
    assert "c are of the topic id" in told
    assert "which was deleted" in told
    assert "lost is in no metadata" in told
    assert f"b are of the topic id {uuid_of(8)}" in told


def test_secrets_are_not_in_what_is_printed(tmp_path: Path) -> None:
    scram = {"salt": b"s" * 20, "storedKey": b"k", "serverKey": b"v", "iterations": 4096}
    user = metadata_record("USER_SCRAM_CREDENTIAL_RECORD", name="u", mechanism=2, **scram)
    gone = metadata_record("USER_SCRAM_CREDENTIAL_RECORD", name="w", mechanism=1, **scram)
    back = metadata_record("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", name="w", mechanism=1)
    path = write_log_dir(tmp_path / "one", each_in_a_batch([*RECORDS, user, gone, back]))
    found = newest_metadata(opened(path))
    assert list(found.credentials) == [("u", 2)]
    assert "c3Nzc3Nz" not in repr(found)


def test_a_damaged_record_is_told_and_the_others_count(tmp_path: Path) -> None:
    odd = metadata_record("PARTITION_CHANGE_RECORD", partitionId=9, topicId=uuid_of(1), isr=[1])
    path = write_log_dir(
        tmp_path / "one", each_in_a_batch([*RECORDS, odd, config(2, "a", "x", "1")])
    )
    found = newest_metadata(opened(path))
    assert found.topics["a"].configs == {"x": "1"}
    assert any("partition 9" in each for each in found.unknown)


def test_a_topic_that_no_client_can_have_made_is_left_out(tmp_path: Path) -> None:
    names = ("..", "../../x", "a b", "x" * 250, "", "a\x00b")
    made = [each for number, name in enumerate(names) for each in topic(name, 50 + number)]
    path = write_log_dir(tmp_path / "one", each_in_a_batch([*RECORDS, *made]))
    found = newest_metadata(opened(path))
    assert list(found.topics) == ["a", "b", "c"]
    assert len(found.unknown) == len(names)


def test_partitions_that_only_folders_have_are_added_to_their_topic(tmp_path: Path) -> None:
    batches = each_in_a_batch([feature("metadata.version", 30), *topic("a", 1, 2)])
    path = write_log_dir(tmp_path / "one", batches[:3])
    for number in (0, 1, 4):
        (path / f"a-{number}").mkdir()
        (path / f"a-{number}/partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_of(1)}")
        (path / f"a-{number}/00000000000000000000.log").write_bytes(b"")
    found = newest_metadata(opened(path))
    assert list(found.topics["a"].partitions) == [0, 1, 2, 3, 4]
    assert found.topics["a"].partitions[2].replicas == ()
    assert found.topics["a"].partitions[0].leader_epoch == 3
    assert found.topics["a"].partitions[4].replicas == (1,)
    assert any("2 of the partitions of a are in no metadata" in each for each in found.unknown)


def test_a_topic_without_partitions_is_told(tmp_path: Path) -> None:
    path = write_log_dir(tmp_path / "one", each_in_a_batch(RECORDS[:2]))
    assert newest_metadata(opened(path)).unknown == (
        "the metadata has no partition of the topic a",
    )


@pytest.fixture
def quorum(tmp_path: Path) -> Callable[..., list[LogSource]]:
    """Opens three voters' log dirs with so many of the records each; their clocks tick by `step` ms."""

    def make(
        records: Sequence[Rec], counts: Sequence[int | None], step: int = 1
    ) -> list[LogSource]:
        batches = [
            batch([record._replace(timestamp=1_000_000 + at * step)], at)
            for at, record in enumerate(records)
        ]
        paths = []
        for node, count in enumerate(counts, 1):
            if count is not None:
                path = write_log_dir(tmp_path / f"n{node}", batches[:count], node=node)
                state = {"leaderId": 1, "leaderEpoch": 0, "votedId": -1, "appliedOffset": 0}
                state |= {"clusterId": "", "data_version": 0}
                state |= {"currentVoters": [{"voterId": each} for each in (1, 2, 3)]}
                (path / LOG / "quorum-state").write_text(json.dumps(state))
                paths.append(path)
        return opened(*paths)

    return make


def test_what_a_minority_of_whole_voters_has_was_not_committed(
    quorum: Callable[..., list[LogSource]],
) -> None:
    found = newest_metadata(quorum([*RECORDS, *topic("d", 4)], (9, 7, 7)))
    assert list(found.topics) == ["a", "b", "c"]
    assert found.committed == 7
    assert found.highest == (0, 9), "the new log begins above it all the same"
    [sentence] = found.unknown
    assert "the last 2 records of the metadata log, from offset 7 on, are left out" in sentence


def test_what_a_missing_voter_may_have_had_is_doubtful_and_counts(
    quorum: Callable[..., list[LogSource]],
) -> None:
    found = newest_metadata(quorum([*RECORDS, *topic("d", 4)], (9, 7, None)))
    assert list(found.topics) == ["a", "b", "c", "d"]
    assert found.committed == 7
    [sentence] = found.unknown
    assert "no majority of the 3 voters shows them; they count" in sentence


def test_a_majority_proves_it(quorum: Callable[..., list[LogSource]]) -> None:
    found = newest_metadata(quorum([*RECORDS, *topic("d", 4)], (9, 9, 7)))
    assert list(found.topics) == ["a", "b", "c", "d"]
    assert (found.committed, found.unknown) == (9, ())


def test_a_minority_with_minutes_more_is_of_another_moment(
    quorum: Callable[..., list[LogSource]],
) -> None:
    found = newest_metadata(quorum([*RECORDS, *topic("d", 4)], (9, 6, 6), step=60_000))
    assert list(found.topics) == ["a", "b", "c", "d"]
    assert "they count" in " ".join(found.unknown)


def test_a_topic_whose_folder_a_broker_made_was_committed(
    quorum: Callable[..., list[LogSource]], tmp_path: Path
) -> None:
    write_segment(tmp_path / "n3/d-0", [])
    text = render_partition_metadata(PartitionMetadata(0, uuid_of(4)))
    (tmp_path / "n3/d-0/partition.metadata").write_bytes(text)
    found = newest_metadata(quorum([*RECORDS, *topic("d", 4)], (9, 7, 7)))
    assert list(found.topics) == ["a", "b", "c", "d"]
    assert found.committed == 8


def test_a_doubtful_deletion_takes_no_topic_whose_folders_are_there(
    quorum: Callable[..., list[LogSource]], tmp_path: Path
) -> None:
    remove = metadata_record("REMOVE_TOPIC_RECORD", topicId=uuid_of(3))
    write_segment(tmp_path / "n2/c-0", [])
    text = render_partition_metadata(PartitionMetadata(0, uuid_of(3)))
    (tmp_path / "n2/c-0/partition.metadata").write_bytes(text)
    found = newest_metadata(quorum([*RECORDS, remove], (8, 7, None)))
    assert list(found.topics) == ["a", "b", "c"]
    assert "whether c was deleted: its folders are there, and it stays" in found.unknown
    assert list(newest_metadata(quorum([*RECORDS, remove], (8, 8, None))).topics) == ["a", "b"]
