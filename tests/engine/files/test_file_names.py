"""engine.files.file_names: every name is built and parsed, what only looks like one is refused."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import example, given, strategies as st

from engine.errors import InvalidNameError
from engine.files import file_names
from engine.files.file_names import (
    FileKind,
    FileName,
    FileState,
    FolderName,
    FolderState,
    folder_name,
    kraft_checkpoint_name,
    log_file_name,
    offset_index_name,
    parse_file_name,
    parse_folder_name,
    producer_snapshot_name,
    time_index_name,
    transaction_index_name,
    validate_topic,
)
from engine.units import TopicPartition
from tests import fixtures_data

SEGMENT_STATES = (FileState.LIVE, FileState.DELETED, FileState.CLEANED, FileState.SWAP)
BUILDERS = {
    FileKind.LOG: (log_file_name, SEGMENT_STATES),
    FileKind.OFFSET_INDEX: (offset_index_name, SEGMENT_STATES),
    FileKind.TIME_INDEX: (time_index_name, SEGMENT_STATES),
    FileKind.TRANSACTION_INDEX: (transaction_index_name, SEGMENT_STATES),
    FileKind.PRODUCER_SNAPSHOT: (producer_snapshot_name, SEGMENT_STATES[:2]),
}
OFFSETS = (0, 35, 2**31, 2**63 - 1)


@pytest.mark.parametrize("kind", BUILDERS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("offset", OFFSETS)
def test_what_is_built_is_parsed(kind: FileKind, offset: int) -> None:
    build, states = BUILDERS[kind]
    for state in states:
        assert parse_file_name(build(offset, state)) == FileName(kind, offset, state)


def test_names_are_those_on_disk() -> None:
    assert log_file_name(395) == "00000000000000000395.log"
    assert time_index_name(0, FileState.DELETED) == "00000000000000000000.timeindex.deleted"
    assert kraft_checkpoint_name(12, 3) == "00000000000000000012-0000000003.checkpoint"
    assert log_file_name(2**63 - 1) == "09223372036854775807.log"
    assert log_file_name(-(2**63)) == "-09223372036854775808.log"


@pytest.mark.parametrize("offset", [-(2**63) - 1, 2**63])
def test_no_name_is_built_for_what_is_no_offset(offset: int) -> None:
    with pytest.raises(ValueError, match="no offset"):
        log_file_name(offset)


@pytest.mark.parametrize(
    "name",
    [
        "0.log", "+5.log", "-1.log", "٥.log", "1_0.log", " 5.log", "foo.log", ".log", "",
        "0000000000000000000٥.log", "0000000000000000035.log", "000000000000000000035.log",
        "09223372036854775808.log", "99999999999999999999.log", "00000000000000000035.LOG",
        "00000000000000000035.log\n", "\n00000000000000000035.log", "00000000000000000035.log ",
        "00000000000000000035", "00000000000000000035.", "00000000000000000035.txt",
        "00000000000000000035.log.tmp", "00000000000000000035.log.deleted.deleted",
        "00000000000000000035.snapshot.swap", "00000000000000000035.deleted",
        "+0000000000000000035.log", "foo.swap", "foo.index", "foo.snapshot", "foo.cleaned",
        "00000000000000000035-0000000001.log", "00000000000000000035-1.checkpoint",
        "00000000000000000035-9999999999.checkpoint", "00000000000000000035-0000000001.part",
        "99999999999999999999-0000000001.checkpoint", "leader-epoch-checkpoint.bak", ".lock.tmp",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_name_is_none(name: str) -> None:
    assert parse_file_name(name) is None


@given(st.text(max_size=40))
@example("00000000000000000035.log")
def test_any_text_parses_to_what_would_be_built(name: str) -> None:
    parsed = parse_file_name(name)
    if parsed is not None and parsed.kind in BUILDERS:
        assert BUILDERS[parsed.kind][0](parsed.base_offset, parsed.state) == name


def test_fixed_names_have_no_offset() -> None:
    expected = {
        "leader-epoch-checkpoint": FileKind.LEADER_EPOCH_CHECKPOINT,
        "partition.metadata": FileKind.PARTITION_METADATA,
        "meta.properties": FileKind.META_PROPERTIES,
        "recovery-point-offset-checkpoint": FileKind.OFFSET_CHECKPOINT,
        "log-start-offset-checkpoint": FileKind.OFFSET_CHECKPOINT,
        "replication-offset-checkpoint": FileKind.OFFSET_CHECKPOINT,
        "cleaner-offset-checkpoint": FileKind.OFFSET_CHECKPOINT,
        ".kafka_cleanshutdown": FileKind.CLEAN_SHUTDOWN,
        ".lock": FileKind.LOCK,
        "quorum-state": FileKind.QUORUM_STATE,
        "bootstrap.checkpoint": FileKind.BOOTSTRAP_CHECKPOINT,
    }
    for name, kind in expected.items():
        assert parse_file_name(name) == FileName(kind)
        if name != ".lock":
            assert parse_file_name(name + ".tmp") == FileName(kind, state=FileState.TEMPORARY)


def test_every_file_of_a_broker_has_a_kind() -> None:
    seen = set()
    for kind in fixtures_data.KINDS:
        for _, _, names in os.walk(fixtures_data.log_dir(kind)):
            for name in names:
                parsed = parse_file_name(name)
                assert parsed is not None, name
                seen.add(parsed.kind)
    assert {FileKind.LOG, FileKind.PRODUCER_SNAPSHOT, FileKind.META_PROPERTIES} <= seen


def test_every_folder_of_a_broker_has_a_partition() -> None:
    for kind in fixtures_data.KINDS:
        for name in fixtures_data.partitions(kind):
            parsed = parse_folder_name(name)
            assert folder_name(*parsed) == name


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("orders-0", "orders", 0),
        ("mixed.codecs_in-one-7-0", "mixed.codecs_in-one-7", 0),
        ("t--1", "t-", 1),
        ("..-0", "..", 0),
        ("a b-0", "a b", 0),
        ("é-0", "é", 0),
        ("line\nend-3", "line\nend", 3),
        ("\udcff-2147483647", "\udcff", 2**31 - 1),
        ("x" * 300 + "-5", "x" * 300, 5),
        ("topic-delete-4", "topic-delete", 4),
    ],
)
def test_the_last_dash_splits(name: str, topic: str, partition: int) -> None:
    assert parse_folder_name(name) == FolderName(TopicPartition(topic, partition))
    assert str(TopicPartition(topic, partition)) == name


@pytest.mark.parametrize("state", [FolderState.DELETE, FolderState.FUTURE, FolderState.STRAY])
def test_folders_that_are_not_the_log_stand_apart(state: FolderState) -> None:
    name = folder_name(
        TopicPartition("foo.bar-test", 42), state, "79a2729b977549e09c3e7eb8181070e2"
    )
    assert parse_folder_name(name) == FolderName(
        TopicPartition("foo.bar-test", 42), state, "79a2729b977549e09c3e7eb8181070e2"
    )


@pytest.mark.parametrize(
    "name",
    [
        "", "orders", "lost+found", "remote-log-index-cache", "-0", "orders-", "orders-x", "orders-٥",
        "orders-+1", "orders-1_0", "orders- 1", "orders-00", "orders-01", "orders-2147483648",
        "orders-99999999999", "orders-0.x-deleted", "orders-0-delete", "orders-0.-delete",
        "orders.x-delete", "or ders-0.x-delete", "orders-0\n", "orders-0.x-delete\n",
    ],
)  # fmt: skip
def test_other_folders_are_refused(name: str) -> None:
    with pytest.raises(InvalidNameError) as caught:
        parse_folder_name(name)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


@given(
    st.text(min_size=1, max_size=20).filter(lambda text: "\n" not in text),
    st.integers(0, 2**31 - 1),
)
def test_any_topic_comes_back(topic: str, partition: int) -> None:
    name = folder_name(TopicPartition(topic, partition))
    assert parse_folder_name(name).topic_partition == (topic, partition)


def test_a_long_topic_is_cut_for_a_folder_to_be_deleted() -> None:
    partition = TopicPartition("n" + "o" * 248, 5)
    assert len(folder_name(partition, FolderState.DELETE, "0" * 32)) == 255
    assert len(folder_name(partition, FolderState.STRAY, "0" * 32)) == 255
    assert len(folder_name(partition, FolderState.FUTURE, "0" * 32)) == 249 + 42


def test_a_folder_that_is_not_the_log_needs_an_id() -> None:
    with pytest.raises(ValueError, match="id"):
        folder_name(TopicPartition("a", 0), FolderState.DELETE)


def test_topics_are_ascii_of_bounded_length() -> None:
    for topic in ("a", "...", "_0-9_.", "x" * 249):
        validate_topic(topic)
    for topic in ("", ".", "..", "x" * 250, "a b", "é", "a/b", "a\n", "a\n-b"):
        with pytest.raises(InvalidNameError):
            validate_topic(topic)


def test_the_builders_and_kinds_agree() -> None:
    names = [build(7, state) for build, states in BUILDERS.values() for state in states]
    assert len(set(names)) == len(names)
    for first, second in itertools.combinations(file_names.FileKind, 2):
        assert first.value != second.value
