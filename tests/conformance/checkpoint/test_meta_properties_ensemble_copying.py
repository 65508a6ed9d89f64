"""What Kafka's MetaPropertiesEnsembleTest asks of changing and writing."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker.checkpoint.meta_properties_copier import (
    MetaPropertiesCopier,
    write_meta_properties,
)
from engine.checkpoint.meta_properties import (
    MetaProperties,
    MetaPropertiesVersion,
    parse_meta_properties,
)
from engine.checkpoint.meta_properties_ensemble import MetaPropertiesEnsemble
from engine.errors import InconsistentBrokerMetadataError
from engine.files.source_files import SourceRoot

V1 = MetaPropertiesVersion.V1
EMPTY = MetaPropertiesEnsemble()
SAMPLES = [
    MetaProperties(
        version=V1, cluster_id="AtgGav8yQjiaJ3rTXE7VCA", node_id=1, directory_id=directory_id
    )
    for directory_id in (
        "s33AdXtkR8Gf_xRO-R_dpA",
        "oTM53yT_SbSfzlvkh_PfVA",
        "FcUhIv2mTzmLqGkVEabyag",
    )
]
FOO_PROPERTIES = MetaProperties(version=V1, cluster_id="fooClusterId", node_id=2)
FOO = MetaPropertiesEnsemble(
    empty_log_dirs=frozenset({"/tmp/empty1", "/tmp/empty2"}),
    error_log_dirs={"/tmp/error3": "unreadable"},
    properties={"/tmp/dir4": FOO_PROPERTIES, "/tmp/dir5": FOO_PROPERTIES},
    metadata_log_dir="/tmp/dir4",
)


def log_dir(path: Path, meta: MetaProperties | None = None) -> str:
    path.mkdir()
    if meta is not None:
        write_meta_properties(path, meta)
    return str(path)


def load(*log_dirs: str) -> MetaPropertiesEnsemble:
    return MetaPropertiesEnsemble.load({each: SourceRoot(each) for each in log_dirs})


def written(log_dir: str) -> MetaProperties:
    return parse_meta_properties((Path(log_dir) / "meta.properties").read_bytes())


def uuid(*longs: int) -> str:
    return base64.urlsafe_b64encode(struct.pack(">qq", *longs)).decode().rstrip("=")


def longs_in_turn(*longs: int) -> Callable[[int], bytes]:
    data = struct.pack(f">{len(longs)}q", *longs)
    pieces = iter([data[at : at + 16] for at in range(0, len(data), 16)])

    def take(size: int) -> bytes:
        piece = next(pieces)
        assert len(piece) == size
        return piece

    return take


def test_a_copy_without_changes_is_equal():
    copier = MetaPropertiesCopier(FOO)
    copier.verify()
    assert copier.copy() == FOO


def test_a_copy_can_be_made_item_by_item():
    copier = MetaPropertiesCopier(EMPTY)
    copier.metadata_log_dir = FOO.metadata_log_dir
    copier.empty_log_dirs |= FOO.empty_log_dirs
    copier.properties.update(FOO.properties)
    copier.error_log_dirs.update(FOO.error_log_dirs)
    copier.verify()
    assert copier.copy() == FOO


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testCopierGenerateValidDirectoryId")
def test_copier_generate_valid_directory_id():
    first = (2336837413447398698, 1758400403264101670)
    second = (4341931186263415792, 6389410885970711333)
    third = (7265008559332826740, 3478747443029687715)
    dash = (-(2**59), 0)
    assert uuid(*dash).startswith("-")
    copier = MetaPropertiesCopier(
        EMPTY, random_bytes=longs_in_turn(0, 0, *dash, *first, *second, *third)
    )
    for name, taken in (("/tmp/dir1", first), ("/tmp/dir2", second)):
        copier.properties[name] = MetaProperties(
            version=V1,
            cluster_id="PpYMbsoRQV-589isZzNzEw",
            node_id=0,
            directory_id=uuid(*taken),
        )
    assert copier.generate_directory_id() == uuid(*third)


@pytest.mark.conformance(
    "MetaPropertiesEnsembleTest.testCopierVerificationFailsOnEmptyAndErrorOverlap"
)
def test_copier_verification_fails_on_empty_and_error_overlap():
    copier = MetaPropertiesCopier(EMPTY)
    copier.empty_log_dirs.add("/tmp/foo")
    copier.error_log_dirs["/tmp/foo"] = "unreadable"
    with pytest.raises(InconsistentBrokerMetadataError, match="/tmp/foo is both empty and failed"):
        copier.verify()


@pytest.mark.conformance(
    "MetaPropertiesEnsembleTest.testCopierVerificationFailsOnEmptyAndLogDirsOverlap"
)
def test_copier_verification_fails_on_empty_and_log_dirs_overlap():
    copier = MetaPropertiesCopier(EMPTY)
    copier.empty_log_dirs.add("/tmp/foo")
    copier.properties["/tmp/foo"] = MetaProperties()
    with pytest.raises(InconsistentBrokerMetadataError, match="foo is both empty and readable"):
        copier.verify()


@pytest.mark.conformance(
    "MetaPropertiesEnsembleTest.testCopierVerificationFailsOnErrorAndLogDirsOverlap"
)
def test_copier_verification_fails_on_error_and_log_dirs_overlap():
    copier = MetaPropertiesCopier(EMPTY)
    copier.error_log_dirs["/tmp/foo"] = "unreadable"
    copier.properties["/tmp/foo"] = MetaProperties()
    with pytest.raises(InconsistentBrokerMetadataError, match="foo is both failed and readable"):
        copier.verify()


def test_the_metadata_log_dir_must_be_one_of_the_log_dirs():
    copier = MetaPropertiesCopier(FOO)
    copier.metadata_log_dir = "/tmp/other"
    with pytest.raises(
        InconsistentBrokerMetadataError, match="/tmp/other is not one of the log dirs"
    ):
        copier.verify()


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testCopierWriteLogDirChanges")
def test_copier_write_log_dir_changes(tmp_path):
    old = log_dir(tmp_path / "old", SAMPLES[0])
    copier = MetaPropertiesCopier(load(old))
    new1, new2 = log_dir(tmp_path / "new1"), log_dir(tmp_path / "new2")
    copier.properties[new1] = SAMPLES[1]
    copier.properties[new2] = SAMPLES[2]
    told = []
    copier.write_changes(before_write=lambda *what: told.append(what))
    assert told == [(new1, True, SAMPLES[1]), (new2, True, SAMPLES[2])]
    assert written(new1) == SAMPLES[1]
    assert written(new2) == SAMPLES[2]
    assert load(old, new1, new2).properties == copier.copy().properties


@pytest.mark.conformance("MetaPropertiesEnsembleTest.testCopierWriteChanged")
def test_copier_write_changed(tmp_path):
    dir0 = log_dir(tmp_path / "dir0", SAMPLES[0])
    dir1 = log_dir(tmp_path / "dir1", SAMPLES[1])
    unchanged = (tmp_path / "dir1" / "meta.properties").stat()
    copier = MetaPropertiesCopier(load(dir0, dir1))
    copier.set_properties(dir0, SAMPLES[2])
    told = []
    copier.write_changes(before_write=lambda *what: told.append(what))
    assert told == [(dir0, False, SAMPLES[2])]
    assert written(dir0) == SAMPLES[2]
    assert written(dir1) == SAMPLES[1]
    after = (tmp_path / "dir1" / "meta.properties").stat()
    assert (after.st_ino, after.st_mtime_ns) == (unchanged.st_ino, unchanged.st_mtime_ns)


def test_a_log_dir_that_cannot_be_written_is_a_failed_one(tmp_path):
    gone, new = str(tmp_path / "gone"), log_dir(tmp_path / "new")
    copier = MetaPropertiesCopier(MetaPropertiesEnsemble(empty_log_dirs=frozenset({gone, new})))
    copier.set_properties(gone, SAMPLES[0])
    copier.set_properties(new, SAMPLES[1])
    failed = []
    copier.write_changes(on_error=lambda log_dir, error: failed.append((log_dir, type(error))))
    assert failed == [(gone, FileNotFoundError)]
    assert set(copier.error_log_dirs) == {gone}
    assert copier.properties == {new: SAMPLES[1]}
    assert written(new) == SAMPLES[1]
    copier.verify()
    copier.set_properties(gone, SAMPLES[0])
    with pytest.raises(FileNotFoundError):
        copier.write_changes()
