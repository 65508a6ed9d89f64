"""Files of record lines with lines {"error": ...}: `cat` and `cp` say so, and `.kafkafs/problems` has the place."""

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock, call

import pytest
from click.testing import CliRunner, Result

from engine.log.log_directory import open_source
from kafkafs.cli import cli
from kafkafs.cli.copying import ErrorLines
from kafkafs.tree.node import File
from kafkafs.tree.tree import Tree
from tests.builders import Rec, batch
from tests.fixtures_data import copy_of
from tests.unreadable import SECTOR, unreadable_bytes

SEGMENT = "orders-0/00000000000000000395.log"
RECORDS = "orders-0/records/00000000000000000395.jsonl"
RANGE = "orders-0/offset/400..600"
START = 8192


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A bit of a middle segment's batch is another."""
    source = copy_of("current", tmp_path, ["orders-0"])
    data = bytearray((source / SEGMENT).read_bytes())
    data[START] ^= 1
    (source / SEGMENT).write_bytes(data)
    return source


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Path]:
    """A sector of the same segment cannot be read."""
    source = copy_of("current", tmp_path, ["orders-0"])
    with unreadable_bytes({source / SEGMENT: [(START, START + SECTOR)]}):
        yield source


def damage_told(path: str) -> str:
    return f'kafkafs: {path}: some of it is damaged; its lines {{"error": ...}} say where and why\n'


def hole_told(path: str) -> str:
    return f'kafkafs: {path}: not all of it could be read; its lines {{"error": ...}} say where and why\n'


@pytest.mark.parametrize("path", [RECORDS, RANGE, "orders-0/time/2023-11-14T22/exact.jsonl"])
def test_cat_of_damaged_records_is_a_finding(damaged: Path, path: str) -> None:
    result = run("cat", damaged, path)
    assert b'\n{"error":{' in result.stdout_bytes
    assert (result.stderr, result.exit_code) == (damage_told(path), 1)


def test_cp_of_damaged_records_is_a_finding_and_keeps_the_copy(
    damaged: Path, tmp_path: Path
) -> None:
    result = run("cp", "-q", damaged, "orders-0/records", tmp_path / "copy")
    assert (result.stderr, result.exit_code) == (damage_told(RECORDS), 1)
    copy = tmp_path / "copy" / Path(RECORDS).name
    assert copy.read_bytes() == run("cat", damaged, RECORDS).stdout_bytes


@pytest.mark.parametrize("path", [RECORDS, RANGE])
def test_cp_of_records_that_cannot_be_read_says_so(
    failing: Path, tmp_path: Path, path: str
) -> None:
    result = run("cp", "-q", failing, path, tmp_path / "copy")
    assert result.stderr.startswith(hole_told(path))
    assert "image it first (ddrescue" in result.stderr
    assert result.exit_code == 3
    assert b'"kind":"unreadable"' in (tmp_path / "copy").read_bytes()


def test_an_undamaged_part_of_a_damaged_log_is_no_finding(damaged: Path, tmp_path: Path) -> None:
    path = "orders-0/records/00000000000000000000.jsonl"
    assert run("cat", damaged, path).exit_code == 0
    assert run("cp", "-q", damaged, path, tmp_path / "copy").exit_code == 0


def test_a_value_that_looks_like_an_error_line_is_somebodys_data(tmp_path: Path) -> None:
    value = b'{"error":{"kind":"unreadable"}}\n{"error":{"kind":"crc_mismatch"}}\n'
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch([Rec(value=value)]))
    for path in ("offset/0.value", f"segments/{0:020}.log"):
        result = run("cat", tmp_path, f"orders-0/{path}")
        assert value in result.stdout_bytes
        assert (result.stderr, result.exit_code) == ("", 0)


def problems_after(source: Path, path: str, way: str) -> list[dict[str, object]]:
    """What `.kafkafs/problems` holds after a file was read, once through or as a mount reads it."""
    logs = open_source(str(source))
    try:
        tree = Tree(logs)
        file = tree.resolve(path)
        assert isinstance(file, File)
        if way == "chunks":
            for _ in file.chunks():
                pass
        else:
            file.open().close()
        problems = tree.resolve(".kafkafs/problems")
        assert isinstance(problems, File)
        text = b"".join(problems.chunks())
        return [json.loads(line) for line in text.splitlines()]
    finally:
        logs.close()


@pytest.mark.parametrize("way", ["chunks", "open"])
@pytest.mark.parametrize("path", [RECORDS, RANGE])
def test_damage_that_a_reader_met_is_a_problem_of_the_source(
    damaged: Path, path: str, way: str
) -> None:
    (problem,) = problems_after(damaged, path, way)
    assert problem["kind"] == "crc_mismatch"
    assert problem["file"] == SEGMENT
    assert START - 16384 < int(str(problem["position"])) <= START


@pytest.mark.parametrize("way", ["chunks", "open"])
def test_a_sector_that_a_reader_met_is_a_problem_of_the_source(failing: Path, way: str) -> None:
    (problem,) = problems_after(failing, RECORDS, way)
    assert (problem["kind"], problem["errno"]) == ("unreadable", "EIO")
    assert problem["file"] == SEGMENT
    assert (problem["position"], problem["length"]) == (START, SECTOR)


@pytest.mark.parametrize("path", [RECORDS, RANGE, "orders-0/time/2023-11-14T22/exact.jsonl"])
def test_an_error_line_is_a_piece_of_its_own(damaged: Path, path: str) -> None:
    logs = open_source(str(damaged))
    try:
        file = Tree(logs).resolve(path)
        assert isinstance(file, File)
        pieces = list(file.chunks())
    finally:
        logs.close()
    (error,) = [piece for piece in pieces if b'{"error":' in piece]
    assert error.startswith(b'{"error":')
    assert error.count(b"\n") == 1
    assert error.endswith(b"\n")


@pytest.mark.parametrize(
    ("pieces", "is_found"),
    [
        ([b'{"error":{"position":1,"kind":"crc_mismatch"}}\n'], True),
        ([b'{"offset":1}\n', b'{"error":{"kind":"crc_mismatch"}}\n', b'{"offset":2}\n'], True),
        ([b'{"value":', b'{"error":{"kind":"crc_mismatch"}}}\n'], False),
        ([b'{"value":{"error":{"kind":"crc_mismatch"}}}\n'], False),
    ],
)
def test_an_error_line_begins_at_the_start_of_a_line(pieces: list[bytes], is_found: bool) -> None:
    file, failures = Mock(has_error_lines=True, path="p"), Mock()
    errors = ErrorLines(file)
    for piece in pieces:
        errors.look(piece)
    errors.report(failures)
    assert failures.report_damage.call_args_list == ([call("p")] if is_found else [])
