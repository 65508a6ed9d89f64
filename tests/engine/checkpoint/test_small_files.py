"""engine.checkpoint: partition.metadata, meta.properties, .kafka_cleanshutdown and quorum-state."""

from __future__ import annotations

import base64
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine.checkpoint.base64_uuid import (
    RESERVED_DIRECTORY_IDS,
    ZERO_UUID,
    canonical_uuid,
    random_uuid,
)
from engine.checkpoint.clean_shutdown import (
    CleanShutdown,
    parse_clean_shutdown,
    read_clean_shutdown,
)
from engine.checkpoint.meta_properties import (
    MetaProperties,
    MetaPropertiesVersion,
    parse_meta_properties,
)
from engine.checkpoint.meta_properties_ensemble import MetaPropertiesEnsemble
from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.checkpoint.quorum_state import QuorumState, parse_quorum_state
from engine.errors import CorruptCheckpointError
from engine.files.source_files import SourceRoot
from tests import fixtures_data

TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_is_written_in_one_way(number: bytes) -> None:
    text = base64.urlsafe_b64encode(number).decode()
    assert canonical_uuid(text) == canonical_uuid(text.rstrip("=")) == text.rstrip("=")


def test_a_random_uuid_is_not_reserved_and_no_option() -> None:
    numbers = iter([bytes(16), bytes([0xF8, *bytes(15)]), bytes([1] * 16)])
    assert canonical_uuid(random_uuid(lambda _: next(numbers))) == "AQEBAQEBAQEBAQEBAQEBAQ"
    assert random_uuid() != random_uuid()


def test_bits_that_a_uuid_does_not_have_are_dropped() -> None:
    assert canonical_uuid("AAAAAAAAAAAAAAAAAAAAAB") == ZERO_UUID
    assert ZERO_UUID in RESERVED_DIRECTORY_IDS
    assert len(RESERVED_DIRECTORY_IDS) == 100


@pytest.mark.parametrize(
    "text", ["", "A" * 21, "A" * 23, "A" * 24, "A" * 21 + "+", "A" * 22 + "=", "é" * 22]
)
def test_other_text_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="UUID"):
        canonical_uuid(text)


def test_a_topic_id_is_read_with_or_without_a_last_line_end() -> None:
    for end in (b"", b"\n", b"\r\n", b"\nmore\n"):
        data = b"version: 0\ntopic_id: " + TOPIC_ID.encode() + end
        assert parse_partition_metadata(data) == (0, TOPIC_ID)
    assert parse_partition_metadata(b"version: 7\ntopic_id:\t" + TOPIC_ID.encode()).version == 7


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b"version\n", 1),
        (b"version:0\ntopic_id: " + TOPIC_ID.encode(), 1),
        (b"version: x\n", 1),
        (b"version: -1\ntopic_id: " + TOPIC_ID.encode(), 1),
        (b"topic_id: " + TOPIC_ID.encode(), 1),
        (b"version: 0", 2),
        (b"version: 0\n" + TOPIC_ID.encode(), 2),
        (b"version: 0\ntopic_id: \n", 2),
        (b"version: 0\ntopic_id: AAAA", 2),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2),
        (b"version: 0\ntopic_id: " + TOPIC_ID.encode() + b" x", 2),
    ],
)
def test_other_metadata_is_corrupt_at_its_line(data: bytes, line: int) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_partition_metadata(data, path="p")
    assert (caught.value.line, caught.value.path) == (line, "p")


def test_meta_properties_of_both_versions_are_read() -> None:
    old = parse_meta_properties(
        b"#\n#date\nbroker.id=1\nversion=0\ncluster.id=gJVYEdzkSU-1d-afYc8hLA\n"
    )
    assert old == MetaProperties(cluster_id="gJVYEdzkSU-1d-afYc8hLA", node_id=1)
    new = parse_meta_properties(
        b"node.id=1\ndirectory.id=DBGajbclfR7I_Ts8t2jLNw\nversion=1\ncluster.id=c\n"
    )
    assert new == MetaProperties(
        version=MetaPropertiesVersion.V1,
        cluster_id="c",
        node_id=1,
        directory_id="DBGajbclfR7I_Ts8t2jLNw",
    )
    assert parse_meta_properties(b"") == MetaProperties()


@pytest.mark.parametrize(
    "data",
    [
        b"version=2",
        b"version=-1",
        b"version=x",
        b"version=1\ncluster.id=c",
        b"version=1\nnode.id=1",
        b"version=1\nbroker.id=1\ncluster.id=c",
        b"version=1\nnode.id=x\ncluster.id=c",
        b"broker.id=",
        b"directory.id=short",
    ],
)
def test_meta_properties_that_lack_something_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_meta_properties(data, path="meta.properties")
    assert caught.value.path == "meta.properties"


def test_two_log_dirs_with_the_same_id_are_refused() -> None:
    one = MetaProperties(node_id=1, directory_id=TOPIC_ID)
    with pytest.raises(CorruptCheckpointError, match="also that of /a") as caught:
        MetaPropertiesEnsemble(properties={"/b": one, "/a": one}).verify()
    said = f"directory.id is also that of /a: found {TOPIC_ID} in /b/meta.properties"
    assert str(caught.value) == said
    with pytest.raises(CorruptCheckpointError, match="reserved"):
        MetaPropertiesEnsemble(properties={"/a": MetaProperties(directory_id=ZERO_UUID)}).verify()


def test_a_metadata_log_dir_that_cannot_be_read_is_refused() -> None:
    ensemble = MetaPropertiesEnsemble(
        properties={"/a": MetaProperties(node_id=1)},
        error_log_dirs={"/meta": "unreadable"},
        metadata_log_dir="/meta",
    )
    with pytest.raises(CorruptCheckpointError, match="metadata log dir cannot be read"):
        ensemble.verify()
    without = MetaPropertiesEnsemble(properties={"/a": MetaProperties(node_id=1)})
    without.verify()
    with pytest.raises(CorruptCheckpointError, match="there is no metadata log dir"):
        without.verify(require_metadata_log_dir=True)


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (MetaProperties(cluster_id="d", node_id=1), "cluster.id"),
        (MetaProperties(node_id=2), "node.id"),
    ],
)
def test_log_dirs_of_other_clusters_or_nodes_are_refused(other: MetaProperties, match: str) -> None:
    first = MetaProperties(cluster_id="c", node_id=1)
    ensemble = MetaPropertiesEnsemble(properties={"/a": first, "/b": other})
    with pytest.raises(CorruptCheckpointError, match=match) as caught:
        ensemble.verify()
    assert caught.value.path == "/b/meta.properties"


def test_an_old_clean_shutdown_file_is_empty() -> None:
    assert parse_clean_shutdown(b"") == parse_clean_shutdown(b"\n") == CleanShutdown(None, None)
    assert parse_clean_shutdown(b'{"version":0,"brokerEpoch":13}') == (0, 13)


@pytest.mark.parametrize(
    "data",
    [b"rubbish", b"[]", b"1", b'{"brokerEpoch":"x"}', b'{"brokerEpoch":1.5}', b'{"version":true}',
     b'{"brokerEpoch":9223372036854775808}', b'{"brokerEpoch":' + b"9" * 5000 + b"}", b"[" * 100_000,
     b"\xff", b" " * 2_000_000 + b"1"],
)  # fmt: skip
def test_other_clean_shutdown_files_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        parse_clean_shutdown(data)


def test_a_broken_clean_shutdown_file_is_still_one(tmp_path: Path) -> None:
    with SourceRoot(str(tmp_path)) as root:
        assert read_clean_shutdown(root) is None
        for data in (b"rubbish", b" " * 100_000):
            (tmp_path / ".kafka_cleanshutdown").write_bytes(data)
            assert read_clean_shutdown(root) == CleanShutdown(None, None)


def test_quorum_states_of_both_versions_are_read() -> None:
    old = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert parse_quorum_state(old) == QuorumState(
        0, 1, 4, -1, cluster_id="", applied_offset=0, current_voters=(1, 2)
    )
    new = b'{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}\n'
    assert parse_quorum_state(new) == QuorumState(1, -1, 2, 1, "J8aAPcfLQt2bqs1JT_rMgQ")
    assert parse_quorum_state(b'{"data_version":0,"currentVoters":null}') == QuorumState(0)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b'{"data_version":2}', b'{"data_version":0,"leaderId":"1"}',
     b'{"data_version":0,"currentVoters":[1]}', b'{"data_version":0,"currentVoters":{}}',
     b'{"data_version":1,"votedDirectoryId":"x"}', b'{"data_version":1,"votedDirectoryId":1}', b"\xff"],
)  # fmt: skip
def test_other_quorum_states_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        parse_quorum_state(data)


@given(
    st.one_of(
        st.binary(max_size=80),
        st.text('{}[]":,0123456789 \ndata_versionbrokerEpochtopic_id', max_size=80).map(str.encode),
    )
)
def test_any_bytes_are_read_or_corrupt(data: bytes) -> None:
    for parse in (
        parse_partition_metadata,
        parse_meta_properties,
        parse_clean_shutdown,
        parse_quorum_state,
    ):
        with suppress(CorruptCheckpointError):
            parse(data)


def test_the_small_files_of_brokers_are_read() -> None:
    for kind in fixtures_data.KINDS:
        with SourceRoot(str(fixtures_data.log_dir(kind))) as root:
            ensemble = MetaPropertiesEnsemble.load({kind: root})
            assert (ensemble.node_id, dict(ensemble.error_log_dirs)) == (1, {})
            ensemble.verify(require_at_least_one_valid=True)
            for folder in fixtures_data.partitions(kind):
                with suppress(FileNotFoundError):
                    data = root.read(f"{folder}/partition.metadata", limit=1000)
                    assert parse_partition_metadata(data).version == 0
                with suppress(FileNotFoundError):
                    state = parse_quorum_state(root.read(f"{folder}/quorum-state", limit=10_000))
                    assert state.leader_id == 1
    with SourceRoot(str(fixtures_data.log_dir("current"))) as root:
        shutdown = read_clean_shutdown(root)
        assert shutdown is not None
        assert shutdown.version == 0
