"""The file of `--commit-to` keeps what was committed, whatever happens to the process or to the file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from kafkafs.serve.coordinator.commits.commit_file import CommitFile, CommitFileError
from kafkafs.serve.coordinator.commits.commit_store import CommitStore
from kafkafs.serve.coordinator.commits.newest import Commit, Commits
from kafkafs.serve.coordinator.limits import ByteAccount
from kafkafs.serve.error_codes import ErrorCode

FIRST, SECOND = Commit(5, 3, "first"), Commit(9, -1, "ß\n")
PLACE, OTHER = ("orders", 0), ("audit", 7)


def opened(path: Path, cluster: str | None = "cluster", source: str = "/source") -> CommitFile:
    return CommitFile(str(path), cluster, [source])


def content(path: Path) -> dict[str, dict[tuple[str, int], Commit]]:
    """What a new process finds."""
    file = opened(path)
    file.close()
    return file.commits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "commits"


def test_the_newest_commit_of_a_partition_counts(path):
    file = opened(path)
    file.append([("billing", {PLACE: FIRST, OTHER: FIRST}), ("empty", {})])
    file.append([("billing", {PLACE: SECOND}), ("audit", {PLACE: FIRST})])
    file.close()
    assert content(path) == {"billing": {PLACE: SECOND, OTHER: FIRST}, "audit": {PLACE: FIRST}}
    assert path.stat().st_mode & 0o777 == 0o600


def test_lines_that_are_out_of_date_are_gone_at_the_next_start(path):
    file = opened(path)
    for number in range(100):
        file.append([("billing", {PLACE: Commit(number, 0, "")})])
    file.close()
    opened(path).close()
    assert len(path.read_bytes().splitlines()) == 2
    assert content(path) == {"billing": {PLACE: Commit(99, 0, "")}}
    assert not path.with_name("commits.new").exists()


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_that_a_crash_left_incomplete_is_told_and_passed_over(path, cut):
    file = opened(path)
    file.append([("billing", {PLACE: FIRST}), ("billing", {PLACE: SECOND})])
    file.close()
    path.write_bytes(path.read_bytes()[:-cut])
    again = opened(path)
    again.close()
    assert again.commits == {"billing": {PLACE: FIRST}}
    assert again.problems == [f"{path}: line 3 is passed over: it has no end"]
    assert opened(path).problems == []


def test_a_damaged_line_hides_no_other(path):
    file = opened(path)
    file.append([(name, {PLACE: FIRST}) for name in ("a", "b", "c")])
    file.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"offset":5', b'"offset":6')
    path.write_bytes(b"".join(lines))
    again = opened(path)
    assert again.commits == {"a": {PLACE: FIRST}, "c": {PLACE: FIRST}}
    assert again.problems == [f"{path}: line 3 is passed over: its checksum is wrong"]


def test_a_file_belongs_to_one_cluster(path):
    opened(path).close()
    opened(path, source="/moved").close()
    for cluster in ("other", None):
        with pytest.raises(CommitFileError, match="has the commits of cluster cluster"):
            opened(path, cluster)


def test_without_a_cluster_id_a_file_belongs_to_one_source(path):
    opened(path, None).close()
    opened(path, None).close()
    with pytest.raises(CommitFileError, match="has the commits of /source"):
        opened(path, None, "/other")


@pytest.mark.parametrize(
    "data", [b"notes of mine\n", b"\n", b"{}\n", b"\0" * 100, b"00000000 {}\n"]
)
def test_a_file_with_something_else_is_not_touched(path, data):
    path.write_bytes(data)
    with pytest.raises(CommitFileError, match="is no file of commits"):
        opened(path)
    assert path.read_bytes() == data


def test_a_file_is_used_by_one_server(path):
    first = opened(path)
    with pytest.raises(CommitFileError, match="in use by another"):
        opened(path)
    first.rewrite({})
    with pytest.raises(CommitFileError, match="in use by another"):
        opened(path)
    first.close()
    opened(path).close()


def test_a_file_in_the_source_is_refused(tmp_path):
    source = tmp_path / "data"
    source.mkdir()
    (tmp_path / "link").symlink_to(source)
    for place in (source / "commits", tmp_path / "link" / "commits"):
        with pytest.raises(CommitFileError, match="inside the source"):
            opened(place, source=str(source))
    assert list(source.iterdir()) == []


@pytest.mark.parametrize("place", ["missing/commits", "."])
def test_a_place_where_no_file_can_be_is_named(tmp_path, place):
    with pytest.raises(CommitFileError, match=r"missing/commits: No such file|directory"):
        opened(tmp_path / place)


def test_a_pipe_is_no_file_of_commits(path):
    os.mkfifo(path)
    with pytest.raises(CommitFileError, match="is no file"):
        opened(path)


def kept(file: CommitFile | None, commits: Commits, *found: tuple[str, dict]) -> list[ErrorCode]:
    """The errors of commits that come at the same time."""
    errors: list[ErrorCode] = []

    async def main() -> None:
        store = CommitStore(commits, file)

        async def keep(group: str, each: dict) -> None:
            errors.append(await store.keep(group, each))

        async with trio.open_nursery() as nursery:
            for group, each in found:
                nursery.start_soon(keep, group, each)

    trio.run(main)
    return errors


def test_commits_that_come_together_are_all_on_disk_before_they_are_told(path, monkeypatch):
    synced: list[int] = []
    sync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), sync(fd)))
    file, commits = opened(path), Commits(ByteAccount(10**6))
    found = [(f"group {number}", {PLACE: FIRST}) for number in range(50)]
    assert kept(file, commits, *found) == [ErrorCode.NONE] * 50
    file.close()
    assert content(path) == dict(found)
    assert commits.of("group 7") == {PLACE: FIRST}
    assert 1 <= len(synced) <= 3


def test_a_commit_that_cannot_be_written_is_refused_and_forgotten(path, monkeypatch):
    file, commits = opened(path), Commits(ByteAccount(10**6))
    write = os.pwrite

    def half(fd: int, data: bytes, position: int) -> int:
        write(fd, data[: len(data) // 2], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", half)
    assert kept(file, commits, ("billing", {PLACE: SECOND})) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    monkeypatch.setattr(os, "pwrite", write)
    assert commits.of("billing") == {}
    assert kept(file, commits, ("billing", {OTHER: FIRST})) == [ErrorCode.NONE]
    file.close()
    assert content(path) == {"billing": {OTHER: FIRST}}
    assert opened(path).problems == []


def test_a_file_that_grows_is_rewritten_while_it_is_used(path):
    file, commits = opened(path), Commits(ByteAccount(10**7))
    sizes: list[int] = []

    async def main() -> None:
        store = CommitStore(commits, file)
        for number in range(40):
            commit = Commit(number, 0, str(number) + "x" * 4000)
            places = {("orders", partition): commit for partition in range(25)}
            assert await store.keep("billing", places) == ErrorCode.NONE
            sizes.append(path.stat().st_size)

    trio.run(main)
    file.close()
    assert max(sizes) < 2 << 20
    assert {each.offset for each in content(path)["billing"].values()} == {39}


def test_commits_above_the_limit_are_refused(path):
    commits = Commits(ByteAccount(3000))
    errors = kept(None, commits, *((str(number), {PLACE: FIRST}) for number in range(4)))
    assert errors == [ErrorCode.NONE] * 2 + [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 2
    file = opened(path)
    file.append([(str(number), {PLACE: FIRST}) for number in range(4)])
    file.close()
    with pytest.raises(CommitFileError, match="more commits than the server may hold"):
        kept(opened(path), Commits(ByteAccount(3000)))
