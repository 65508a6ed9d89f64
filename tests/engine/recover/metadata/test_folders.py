"""A cluster whose metadata is lost: what its partitions' folders and their records prove."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.plan.loading.feature_levels import FEATURE_LEVELS
from engine.recover.metadata.cluster_metadata import ClusterMetadata, metadata_from_folders
from engine.recover.metadata.partition_counts import java_hash, partition_for
from engine.recover.metadata.records import MetadataRecord, features_of
from engine.recover.metadata.snapshot import KRaftSnapshot, snapshot_batches
from tests.builders import Rec, write_segment
from tests.engine.recover.metadata.clusters import uuid_of, write_log_dir
from tests.replayed_bytes import commit, in_batches, share_snapshot, transaction_record

OPEN = {
    "producerId": 1, "producerEpoch": 0, "transactionTimeoutMs": 1, "transactionStatus": 0,
    "transactionPartitions": None, "transactionLastUpdateTimestampMs": 1,
    "transactionStartTimestampMs": 1,
}  # fmt: skip


def add(
    log_dir: Path, name: str, number: int | None = None, records: list[Rec] | None = None
) -> None:
    folder = log_dir / name
    write_segment(folder, in_batches(records or []), 0)
    if number is not None:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_of(number)}")


def found_in(*paths: Path) -> ClusterMetadata:
    return metadata_from_folders([open_source(str(path)) for path in paths])


def test_topics_have_the_ids_counts_and_replicas_of_their_folders(tmp_path: Path) -> None:
    one, two = write_log_dir(tmp_path / "1"), write_log_dir(tmp_path / "2", node=2)
    add(one, "a-0", 1)
    add(one, "a-2", 1)
    add(two, "a-0", 1)
    add(two, "with-dash-1", 2)
    found = found_in(one, two)
    assert {name: each.topic_id for name, each in found.topics.items()} == {
        "a": uuid_of(1),
        "with-dash": uuid_of(2),
    }
    rows = {number: row.replicas for number, row in found.topics["a"].partitions.items()}
    assert rows == {0: (1, 2), 1: (), 2: (1,)}
    assert any("a has no folder for 1 of 3 partitions (1)" in each for each in found.unknown)
    assert any("ACLs, users, quotas" in each for each in found.unknown)


def test_folders_that_are_not_the_log_do_not_count(tmp_path: Path) -> None:
    one = write_log_dir(tmp_path / "1")
    add(one, "a-0", 1)
    for mark in ("delete", "stray", "future"):
        add(one, f"b-0.{'0' * 32}-{mark}", 2)
        add(one, f"a-5.{'1' * 32}-{mark}", 1)
    found = found_in(one)
    assert {name: list(each.partitions) for name, each in found.topics.items()} == {"a": [0]}


def test_most_folders_decide_the_topic_id_and_the_others_are_told(tmp_path: Path) -> None:
    one = write_log_dir(tmp_path / "1")
    for name, number in (("a-0", 1), ("a-1", 2), ("a-2", 2), ("b-0", None)):
        add(one, name, number)
    found = found_in(one)
    assert found.topics["a"].topic_id == uuid_of(2)
    assert any(f"a-0 has the topic id {uuid_of(1)}" in each for each in found.unknown)
    assert any("the id of b" in each for each in found.unknown)
    assert len(found.topics["b"].topic_id) == 22


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("Ω😀", 955541)],
)
def test_a_hash_is_that_of_a_java_string(text: str, code: int) -> None:
    units = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = value * 31 + int.from_bytes(units[at : at + 2], "big")
    value = (value + 2**31) % 2**32 - 2**31
    assert java_hash(text) == value
    if text != "Ω😀":
        assert value == code
    assert 0 <= partition_for(text, 50) < 50


GROUPS = [f"group-{number}" for number in range(60)]


def offsets_log(log_dir: Path, count: int, present: list[int]) -> None:
    for number in present:
        groups = [each for each in GROUPS if partition_for(each, count) == number]
        records = [commit(each, "t", 0, 5) for each in groups]
        add(log_dir, f"__consumer_offsets-{number}", 1, records)


@pytest.mark.parametrize("count", [1, 4, 50])
def test_group_ids_prove_the_number_of_partitions(tmp_path: Path, count: int) -> None:
    whole = write_log_dir(tmp_path / "whole")
    offsets_log(whole, count, list(range(count)))
    found = found_in(whole)
    assert len(found.topics["__consumer_offsets"].partitions) == count
    assert not [each for each in found.unknown if "guess" in each or "hashes" in each]


def test_lost_last_partitions_are_found_by_the_hashes_of_the_others(tmp_path: Path) -> None:
    part = write_log_dir(tmp_path / "part")
    offsets_log(part, 50, list(range(45)))
    found = found_in(part)
    assert len(found.topics["__consumer_offsets"].partitions) == 50
    assert found.topics["__consumer_offsets"].partitions[49].replicas == ()
    assert any("has 50 partitions by the hashes" in each for each in found.unknown)


def test_transactional_ids_and_share_keys_prove_it_too(tmp_path: Path) -> None:
    one = write_log_dir(tmp_path / "1")
    for number in range(3):
        names = [f"tx-{each}" for each in range(40) if partition_for(f"tx-{each}", 5) == number]
        add(
            one,
            f"__transaction_state-{number}",
            1,
            [transaction_record(each, **OPEN) for each in names],
        )
        keys = [each for each in range(40) if partition_for(f"g:{uuid_of(7)}:{each}", 5) == number]
        records = [share_snapshot("g", each, topic_id=uuid_of(7)) for each in keys]
        add(one, f"__share_group_state-{number}", 2, records)
    found = found_in(one)
    assert len(found.topics["__transaction_state"].partitions) == 5
    assert len(found.topics["__share_group_state"].partitions) == 5


def test_a_number_without_proof_is_called_a_guess(tmp_path: Path) -> None:
    one = write_log_dir(tmp_path / "1")
    add(one, "__consumer_offsets-1", 1)
    add(
        one,
        "__transaction_state-0",
        2,
        [transaction_record(f"x{each}", **OPEN) for each in range(9)],
    )
    told = "\n".join(found_in(one).unknown)
    assert "__consumer_offsets is a guess (2): it has no keys" in told
    assert "__transaction_state is taken as 1: its 9 keys also fit to" in told or "guess" in told


def test_kafkas_own_topics_keep_the_settings_without_which_they_would_be_lost(
    tmp_path: Path,
) -> None:
    one = write_log_dir(tmp_path / "1")
    for name in (
        "__consumer_offsets-0",
        "__transaction_state-0",
        "__share_group_state-0",
        "a-0",
        "b-0",
    ):
        add(one, name, 1)
    (one / "cleaner-offset-checkpoint").write_text("0\n1\nb 0 17\n")
    found = found_in(one)
    for name in ("__consumer_offsets", "__transaction_state", "__share_group_state", "b"):
        assert found.topics[name].configs["cleanup.policy"] == "compact"
    assert found.topics["a"].configs == {}


def test_levels_of_features_are_those_of_the_format_or_of_the_release(tmp_path: Path) -> None:
    one, two = write_log_dir(tmp_path / "1"), write_log_dir(tmp_path / "2", node=2)
    add(one, "a-0", 1)
    for release, level in (((4, 0), 25), ((4, 3), 30), ((4, 4), 33), ((3, 9), 21)):
        levels = features_of(found_in(one), FEATURE_LEVELS[release])
        assert levels["metadata.version"] == level
        assert FEATURE_LEVELS[release].refusal(levels) is None
    record = MetadataRecord(
        "FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 22}
    )
    data = b"".join(snapshot_batches(KRaftSnapshot(0, 0), [record]))
    (two / "bootstrap.checkpoint").write_bytes(data)
    found = found_in(one, two)
    assert features_of(found, FEATURE_LEVELS[4, 4]) == {"metadata.version": 22}
    assert any("those of the format" in each for each in found.unknown)
