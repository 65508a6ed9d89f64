"""What a dump can be asked for, and which part of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import builders
from tests.builders import values
from tests.kafkafs.built_logs import START_MS, BuiltLog
from tests.kafkafs.dump.dumped import Dumped, dump
from tests.tiered_folders import TieredWriter


def names(found: Dumped) -> list[str]:
    return [line.rpartition("/")[2] for line in found.lines if line.startswith("Dumping ")]


def offsets(found: Dumped) -> list[int]:
    return [int(line.split()[2]) for line in found.lines if line.startswith("| ")]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Three segments of ten records, a second apart."""
    built = BuiltLog(tmp_path / "data")
    for base in (0, 10, 20):
        parts = [
            builders.batch(values(*"abcde", timestamp=START_MS + 1000 * at), at)
            for at in (base, base + 5)
        ]
        built.segment(parts, base, index_interval=0)
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    (tmp_path / "data" / ".lock").write_bytes(b"")
    (tmp_path / "data" / "orders-0" / "notes.txt").write_bytes(b"")
    return tmp_path / "data"


def test_a_partitions_folder_is_its_files_by_name(log_dir: Path) -> None:
    found = names(dump(log_dir / "orders-0"))
    assert found == sorted(found)
    assert len(found) == 9


def test_a_log_dir_is_its_own_files_and_all_its_partitions(log_dir: Path) -> None:
    apart = BuiltLog(log_dir, "orders-1.0123456789abcdef0123456789abcdef-delete")
    apart.segment([builders.batch(values("a"))], 0)
    found = dump(log_dir)
    assert names(found)[0] == "recovery-point-offset-checkpoint"
    assert len(names(found)) == 1 + 9 + 3
    assert ".lock" not in names(found)


def test_patterns_are_expanded_here_too(log_dir: Path) -> None:
    found = dump(f"{log_dir}/*/*.timeindex", "--verify-index-only")
    assert names(found) == [f"{base:020}.timeindex" for base in (0, 10, 20)]


def test_files_can_be_a_list_with_commas_as_in_kafkas_tool(log_dir: Path) -> None:
    paths = [log_dir / "orders-0" / f"{base:020}.log" for base in (20, 0)]
    found = dump([], "--files", ",".join(map(str, paths)))
    assert names(found) == [path.name for path in paths]


def test_paths_are_shown_as_java_shows_them(log_dir: Path) -> None:
    found = dump(f"{log_dir}//orders-0/./00000000000000000000.log")
    assert found.lines[0] == f"Dumping {log_dir}/orders-0/./00000000000000000000.log"


def test_a_folder_of_something_else_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"")
    found = dump(tmp_path)
    assert "contains no file of a log directory" in found.err
    assert found.status == 3


def test_a_link_that_was_named_is_followed(log_dir: Path, tmp_path: Path) -> None:
    link = tmp_path / "00000000000000000010.log"
    link.symlink_to(log_dir / "orders-0" / link.name)
    assert offsets(dump(link, "--deep-iteration")) == list(range(10, 20))


def test_what_bears_a_name_of_kafkas_and_is_no_file_is_told_and_not_read(log_dir: Path) -> None:
    folder = log_dir / "orders-0"
    os.mkfifo(folder / f"{30:020}.log")
    (folder / f"{40:020}.log").symlink_to(folder / f"{10:020}.log")
    (folder / f"{50:020}.log").mkdir()
    (log_dir / "linked-0").symlink_to(folder)
    os.mkfifo(log_dir / "replication-offset-checkpoint")
    found = dump(log_dir)
    assert [line.rpartition("/")[2] for line in found.err.splitlines()] == [
        "linked-0: a symbolic link, not followed",
        "replication-offset-checkpoint: neither a file nor a folder, not read",
        f"{30:020}.log: neither a file nor a folder, not read",
        f"{40:020}.log: a symbolic link, not followed",
        f"{50:020}.log: a folder in place of a file",
    ]
    assert sum(line.startswith("baseOffset") for line in found.lines) == 6
    assert found.status == 3


def test_a_range_of_offsets_shows_only_what_holds_some_of_it(log_dir: Path) -> None:
    found = dump(log_dir / "orders-0", "--deep-iteration", "--from", "8", "--to", "12")
    assert offsets(found) == [8, 9, 10, 11]
    assert {name.split(".")[0] for name in names(found)} == {f"{base:020}" for base in (0, 10)}
    assert sum(line.startswith("baseOffset") for line in found.lines) == 2
    assert found.err == ""


def test_a_range_of_times_is_looked_up_in_the_log(log_dir: Path) -> None:
    start = f"@{START_MS + 5000}"
    found = dump(log_dir / "orders-0", "--deep-iteration", "--from", start, "--to", "12")
    assert offsets(found) == list(range(5, 12))
    day = dump(log_dir, "--deep-iteration", "--from", "2023-11-14", "--to", "2023-11-14T22:13:30Z")
    assert offsets(day) == list(range(10))


def test_a_range_of_a_named_file_shows_its_part(log_dir: Path) -> None:
    path = log_dir / "orders-0" / "00000000000000000010.log"
    found = dump(path, "--json", "--from", "13", "--to", "15")
    assert [line["offset"] for line in found.json if line["type"] == "record"] == [13, 14]


def test_index_entries_outside_a_range_are_left_out(log_dir: Path) -> None:
    index = log_dir / "orders-0" / "00000000000000000010.timeindex"
    all_lines = dump(index).lines[1:]
    assert len(all_lines) == 2
    assert dump(index, "--from", "15").lines[1:] == all_lines[1:]


def test_a_bound_that_is_neither_offset_nor_instant_is_refused(log_dir: Path) -> None:
    found = dump(log_dir, "--from", "someday")
    assert found.status == 2
    assert "neither an offset (digits) nor a time such as" in found.err


def test_tiered_copies_are_dumped_by_their_real_names(log_dir: Path, tmp_path: Path) -> None:
    copy = TieredWriter(tmp_path / "tiered")
    logs = copy.copy_all(log_dir / "orders-0")
    found = dump(copy.root)
    assert names(found) == sorted(path.name for path in copy.folder.iterdir())
    assert "epoch: 0 startOffset: 0" in found.lines
    shown = dump(copy.folder, "--print-data-log", "--from", "12", "--to", "14")
    assert offsets(shown) == [12, 13]
    assert logs[1].name in names(shown)
