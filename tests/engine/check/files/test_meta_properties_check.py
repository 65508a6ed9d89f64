"""meta.properties: what keeps a broker from starting is an error, what the rest of the source contradicts a finding."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from engine.check.log_dir_check import SourceCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.log.log_directory import open_source
from tests import fixtures_data
from tests.engine.check.files.side_logs import log_dir
from tests.engine.check.logs import found

RULE = "meta-properties"
METADATA = "__cluster_metadata-0"
IDS = "cluster.id=AAAAAAAAAAAAAAAAAAAAAg\ndirectory.id=sgf5MsZgRTuEMv68ZXKJbg\n"
STOPS = {
    "": "the file is empty: a power failure can leave this in a file written shortly before",
    "\0"
    * 90: "the file is 90 zeros: a power failure can leave this in a file written shortly before",
    "\n\n": "the file is empty: a power failure can leave this in a file written shortly before",
    "q\x97\x03=\x18 what\n": "its 11 bytes have no property that a broker knows",
    "node.id=1\n" + IDS: "there is no version=1 and node.id",
    "version=1\n" + IDS: "there is no node.id",
    "version=0\nbroker.id=1\n": "there is no cluster.id",
    "version=0\n" + IDS: "there is no version=1 and node.id",
    "version=1\nnode.id=1\n": "there is no cluster.id",
    "version=2\nnode.id=1\n" + IDS: "there is no meta.properties version 2",
    "version=1\nnode.id=-1\n" + IDS: "the node.id -1 is negative",
    "version=1\nnode.id=1x\n" + IDS: "node.id is not a number",
    "version=1\nnode.id=1\ncluster.id=a\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n": (
        "the directory.id AAAAAAAAAAAAAAAAAAAAAQ is reserved"
    ),
}


def of_file(folder: Path) -> list[Finding]:
    return [each for each in found(folder) if each.rule == RULE]


def with_text(folder: Path, text: str) -> Path:
    made = log_dir(folder)
    (made / "meta.properties").write_text(text, "latin-1")
    return made


@pytest.mark.parametrize("text", STOPS)
def test_what_keeps_a_broker_from_starting_is_an_error(tmp_path: Path, text: str) -> None:
    findings = of_file(with_text(tmp_path / "dir", text))
    errors = [each.sentence for each in findings if each.severity is Severity.ERROR]
    assert STOPS[text] in errors


def test_a_file_that_a_broker_wrote_is_no_finding(tmp_path: Path) -> None:
    assert not of_file(log_dir(tmp_path / "dir"))
    for kind in fixtures_data.KINDS:
        assert not of_file(fixtures_data.log_dir(kind)), kind


@pytest.mark.parametrize("name", ["nodd.id", "directory.ie", "#version", "x"])
def test_a_property_that_no_broker_knows_is_a_warning(tmp_path: Path, name: str) -> None:
    text = f"version=1\nnode.id=1\n{IDS}{name}=1\n"
    findings = of_file(with_text(tmp_path / "dir", text))
    assert bool(findings) is not name.startswith("#")
    for finding in findings:
        assert finding.severity is Severity.WARNING
        assert finding.sentence == f"unknown property {name!r}: brokers ignore it"


def test_the_log_dir_of_a_broker_without_the_file_is_an_error_and_a_copy_of_partitions_is_not(
    tmp_path: Path,
) -> None:
    folder = log_dir(tmp_path / "dir")
    (folder / "meta.properties").unlink()
    (finding,) = of_file(folder)
    assert finding.severity is Severity.ERROR
    assert finding.sentence == "the file is missing: a KRaft broker does not start without it"
    (folder / "kafkafs-spark.json").write_text("{}")
    assert {each.severity for each in of_file(folder)} == {Severity.NOTE}, "kafkafs wrote it"
    copy = tmp_path / "copy"
    shutil.copytree(folder / "side-0", copy / "side-0")
    assert {each.severity for each in of_file(copy)} == {Severity.NOTE}


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b"node.id=1", b"node.id=3", "the cluster metadata has no broker 3"),
        (b"=DBGa", b"=DBGb", "broker 1 is not registered with a directory.id DBGb"),
        (
            b"directory.id=DBGajbclfR7I_Ts8t2jLNw\n",
            b"",
            "broker 1 is not registered with a missing directory.id",
        ),
    ],
)
def test_the_registration_in_the_cluster_metadata_proves_node_and_directory(
    tmp_path: Path, old: bytes, new: bytes, what: str
) -> None:
    folder = fixtures_data.copy_of("current", tmp_path, [METADATA])
    path = folder / "meta.properties"
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    warnings = [each for each in of_file(folder) if each.severity is Severity.WARNING]
    assert [each.sentence[: len(what)] for each in warnings] == [what]


def test_a_log_dir_without_a_directory_id_beside_one_that_has_it_is_a_warning(
    tmp_path: Path,
) -> None:
    first, second = log_dir(tmp_path / "1"), log_dir(tmp_path / "2")
    (second / "side-0").rename(second / "other-0")
    path = second / "meta.properties"
    path.write_text(path.read_text().partition("directory.id")[0])
    with closing(open_source([str(first), str(second)])) as source:
        findings = [each for each in SourceCheck(source).run() if isinstance(each, Finding)]
    (finding,) = [each for each in findings if each.rule == RULE]
    assert finding.severity is Severity.WARNING
    assert finding.file == str(path)
