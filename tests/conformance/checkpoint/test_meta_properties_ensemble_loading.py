"""What Kafka's MetaPropertiesEnsembleTest asks of reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.meta_properties import MetaProperties, MetaPropertiesVersion
from engine.checkpoint.meta_properties_ensemble import MetaPropertiesEnsemble
from engine.errors import CorruptCheckpointError
from engine.files.source_files import SourceRoot

V1 = MetaPropertiesVersion.V1
FOO_PROPERTIES = MetaProperties(version=V1, cluster_id="fooClusterId", node_id=2)
FOO = MetaPropertiesEnsemble(
    empty_log_dirs=frozenset({"/tmp/empty1", "/tmp/empty2"}),
    error_log_dirs={"/tmp/error3": "unreadable"},
    properties={"/tmp/dir4": FOO_PROPERTIES, "/tmp/dir5": FOO_PROPERTIES},
    metadata_log_dir="/tmp/dir4",
)
EMPTY = MetaPropertiesEnsemble()
ONE = MetaProperties(version=V1, cluster_id="AtgGav8yQjiaJ3rTXE7VCA", node_id=1)


def log_dir(path: Path, meta: MetaProperties | None) -> SourceRoot:
    path.mkdir()
    if meta is not None:
        text = "".join(f"{key}={value}\n" for key, value in meta.to_properties().items())
        (path / "meta.properties").write_text(text)
    return SourceRoot(str(path))


def error_log_dir(path: Path) -> SourceRoot:
    (path / "meta.properties").mkdir(parents=True)
    return SourceRoot(str(path))


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testEmptyLogDirsForFoo")
def test_empty_log_dirs_for_foo() -> None:
    assert FOO.empty_log_dirs == {"/tmp/empty1", "/tmp/empty2"}
    assert EMPTY.empty_log_dirs == set()


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testErrorLogDirsForFoo")
def test_error_log_dirs_for_foo() -> None:
    assert set(FOO.error_log_dirs) == {"/tmp/error3"}
    assert set(EMPTY.error_log_dirs) == set()


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testLogDirPropsForFoo")
def test_log_dir_props_for_foo() -> None:
    assert set(FOO.properties) == {"/tmp/dir4", "/tmp/dir5"}
    assert set(EMPTY.properties) == set()


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testNonFailedDirectoryPropsForFoo")
def test_non_failed_directory_props_for_foo() -> None:
    assert dict(FOO.non_failed()) == {
        "/tmp/empty1": None,
        "/tmp/empty2": None,
        "/tmp/dir4": FOO_PROPERTIES,
        "/tmp/dir5": FOO_PROPERTIES,
    }
    assert list(EMPTY.non_failed()) == []


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testNodeIdForFoo")
def test_node_id_for_foo() -> None:
    assert FOO.node_id == 2
    assert EMPTY.node_id is None


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testClusterIdForFoo")
def test_cluster_id_for_foo() -> None:
    assert FOO.cluster_id == "fooClusterId"
    assert EMPTY.cluster_id is None


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testSuccessfulVerification")
def test_successful_verification() -> None:
    FOO.verify(require_at_least_one_valid=True, require_metadata_log_dir=True)


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testSuccessfulVerificationWithClusterId")
def test_successful_verification_with_cluster_id() -> None:
    FOO.verify(
        cluster_id="fooClusterId", require_at_least_one_valid=True, require_metadata_log_dir=True
    )
    with pytest.raises(CorruptCheckpointError, match=r"cluster\.id"):
        FOO.verify(cluster_id="barClusterId")


@pytest.mark.conformance(
    "MetaPropertiesEnsembleTest.testSuccessfulVerificationWithClusterIdAndNodeId"
)
def test_successful_verification_with_cluster_id_and_node_id() -> None:
    FOO.verify(
        cluster_id="fooClusterId",
        node_id=2,
        require_at_least_one_valid=True,
        require_metadata_log_dir=True,
    )
    with pytest.raises(CorruptCheckpointError, match=r"node\.id"):
        FOO.verify(cluster_id="fooClusterId", node_id=3)


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testVerificationFailureOnRequireV0")
def test_verification_failure_on_require_v0() -> None:
    with pytest.raises(CorruptCheckpointError, match="version") as caught:
        FOO.verify(require_v0=True)
    assert caught.value.path == "/tmp/dir4/meta.properties"


@pytest.mark.conformance(
    "MetaPropertiesEnsembleTest.testVerificationFailureOnRequireAtLeastOneValid"
)
def test_verification_failure_on_require_at_least_one_valid() -> None:
    with pytest.raises(CorruptCheckpointError, match="readable"):
        EMPTY.verify(require_at_least_one_valid=True)


@pytest.mark.conformance(
    "MetaPropertiesEnsembleTest.testVerificationFailureOnMetadataLogDirWithError"
)
def test_verification_failure_on_metadata_log_dir_with_error() -> None:
    ensemble = MetaPropertiesEnsemble(
        error_log_dirs={"/tmp/foo1": "unreadable"}, metadata_log_dir="/tmp/foo1"
    )
    with pytest.raises(CorruptCheckpointError, match="metadata log dir") as caught:
        ensemble.verify(require_metadata_log_dir=True)
    assert caught.value.path == "/tmp/foo1"


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testMetaPropertiesEnsembleLoad")
def test_meta_properties_ensemble_load(tmp_path: Path) -> None:
    ensemble = MetaPropertiesEnsemble.load(
        {"a": log_dir(tmp_path / "a", ONE)}, metadata_log_dir="a"
    )
    ensemble.verify(
        cluster_id="AtgGav8yQjiaJ3rTXE7VCA",
        node_id=1,
        require_metadata_log_dir=True,
        require_at_least_one_valid=True,
    )
    assert ensemble.properties == {"a": ONE}


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testMetaPropertiesEnsembleLoadEmpty")
def test_meta_properties_ensemble_load_empty(tmp_path: Path) -> None:
    ensemble = MetaPropertiesEnsemble.load(
        {"a": log_dir(tmp_path / "a", None)}, metadata_log_dir="a"
    )
    ensemble.verify(cluster_id="AtgGav8yQjiaJ3rTXE7VCA", node_id=1, require_metadata_log_dir=True)
    assert ensemble.empty_log_dirs == {"a"}


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testMetaPropertiesEnsembleLoadError")
def test_meta_properties_ensemble_load_error(tmp_path: Path) -> None:
    roots = {
        "error": error_log_dir(tmp_path / "error"),
        "unopened": None,
        "good": log_dir(tmp_path / "good", ONE),
    }
    ensemble = MetaPropertiesEnsemble.load(roots, metadata_log_dir="error")
    assert set(ensemble.error_log_dirs) == {"error", "unopened"}
    assert ensemble.properties == {"good": ONE}
