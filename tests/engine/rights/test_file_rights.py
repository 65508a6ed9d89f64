"""Each file of a log dir has the rights that a broker needs; what is missing is named, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.files.source_files import SourceRoot
from engine.rights.broker_user import BrokerUser, Right
from engine.rights.file_rights import Denied, FileRights, write_problem
from tests.fixtures_data import copy_of


class Owner(BrokerUser):
    """Whoever runs the tests, without the powers of root."""

    may_do_all = False


OWNER = Owner("kafka", os.getuid(), frozenset(os.getgroups()))
RW, R, NOTHING = Right.READ | Right.WRITE, Right.READ, Right(0)
NEEDED = {
    "": Right(7),
    "meta.properties": R,
    "recovery-point-offset-checkpoint": R,
    "log-start-offset-checkpoint": R,
    "replication-offset-checkpoint": R,
    "cleaner-offset-checkpoint": R,
    ".lock": RW,
    "notes.txt": NOTHING,
    "txn-0": Right(7),
    "txn-0/00000000000000000000.log": RW,
    "txn-0/00000000000000000000.index": RW,
    "txn-0/00000000000000000000.timeindex": RW,
    "txn-0/00000000000000000000.txnindex": RW,
    "txn-0/00000000000000000007.snapshot": R,
    "txn-0/leader-epoch-checkpoint": R,
    "txn-0/partition.metadata": R,
    "txn-0/00000000000000000000.log.deleted": R,
    "txn-0/notes.txt": R,
}
"""What a 4.4.0 broker needs; tests/kafka/test_broker_rights.py asks one."""


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = copy_of("current", tmp_path, ["txn-0"])
    for name in NEEDED:
        path = folder / name
        if not path.exists():
            path.write_bytes(b"")
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700)


def denied(folder: Path, user: BrokerUser | None = OWNER) -> list[Denied]:
    with closing(SourceRoot(str(folder))) as root:
        rights = FileRights(root, user)
        return [*rights.log_dir(), *rights.log("txn-0")]


@pytest.mark.skipif(
    os.geteuid() != 0, reason="others cannot look into a folder that they may not enter"
)
@pytest.mark.parametrize("right", [Right.READ, Right.WRITE, Right.EXECUTE])
@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_right_is_named_where_a_broker_needs_it(
    data: Path, name: str, right: Right
) -> None:
    path = data / name
    path.chmod(0o700 & ~(right << 6))
    found = [(each.path, each.missing) for each in denied(data)]
    assert found == ([(str(path), right)] if right & NEEDED[name] else [])


def test_a_folder_above_that_the_user_may_not_enter_is_named(data: Path) -> None:
    stranger = BrokerUser("stranger", 4711, frozenset({4711}))
    data.parent.chmod(0o700)
    assert str(data.parent) in {each.path for each in denied(data, stranger)}


def test_a_file_of_root_is_named_with_its_owner(data: Path) -> None:
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    stranger = BrokerUser("kafka", 4711, frozenset({4711}))
    owner = os.getuid()
    sentences = {
        Path(each.path).name: each.sentence
        for each in denied(data, stranger)
        if "txn-0/" in each.path
    }
    assert sentences["00000000000000000000.log"].startswith("kafka may not write it (")
    assert "-rw-r--r--)" in sentences["00000000000000000000.log"]
    assert "leader-epoch-checkpoint" not in sentences
    assert owner != 4711


def test_a_protected_log_dir_is_no_fault_of_its_owner_unless_the_user_was_named(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (*data.rglob("*"), data):
        path.chmod(0o555 if path.is_dir() else 0o444)
    monkeypatch.setattr("engine.rights.file_rights.user_of_log_dir", lambda root: OWNER)
    assert denied(data, None) == []
    assert len(denied(data, OWNER)) > 5
    with closing(SourceRoot(str(data))) as root:
        problem = write_problem(root)
    assert problem is not None
    assert problem.is_copy


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"f_flag": os.ST_RDONLY}, "mounted read-only"),
        ({"f_bavail": 0}, "the file system is full"),
        ({"f_favail": 0}, "no inode left"),
        ({"f_favail": 0, "f_files": 0}, None),
        ({}, None),
    ],
)
def test_a_file_system_that_takes_no_bytes_or_files_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, int], sentence: str | None
) -> None:
    known = {"f_blocks": 100, "f_bavail": 9, "f_files": 50, "f_favail": 5, "f_flag": 0} | facts
    told = SimpleNamespace(**known)
    monkeypatch.setattr(SourceRoot, "statvfs", lambda root: told)
    with closing(SourceRoot(str(data))) as root:
        problem = write_problem(root)
    assert (problem is None) == (sentence is None)
    assert problem is None or (sentence or "") in problem.sentence
