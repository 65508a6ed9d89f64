"""Folders and files of other owners: told, with a way out; the rest of the result is there, and the status is 3."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.log.log_directory import open_source
from kafkafs.cli import cli, main
from tests.fixtures_data import copy_of
from tests.permissions import modes_count

ONLY = ["orders-0", "codec-gzip-0", "txn-0", "__consumer_offsets-0"]
DENIED = "Permission denied (run as the owner of the files, or as root)"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    """A log dir in which the folder orders-0 may not be read, and nothing else is wrong."""
    found = copy_of("current", tmp_path, ONLY)
    (found / "orders-0").chmod(0)
    with modes_count():
        yield found
    (found / "orders-0").chmod(0o755)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def status_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    return int(left.value.code or 0), capsys.readouterr().err


def test_a_file_of_mode_0_cannot_be_read_here(source: Path) -> None:
    with pytest.raises(PermissionError):
        list((source / "orders-0").iterdir())


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["offsets"], "codec-gzip:0:900\n"),
        (["grep", "-c", "e"], ""),
        (["groups"], "billing-0"),
        (["transactions", "--open"], "TOPIC"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_folder_of_another_owner_is_told_and_the_rest_goes_on(
    source: Path, arguments: list[str], shown: str
) -> None:
    command, *more = arguments
    result = run(command, *more[:-1], *(more[-1:]), source)
    assert shown in result.stdout
    assert result.exit_code == 3
    assert f"kafkafs: {source}/orders-0: {DENIED}\n" in result.stderr
    assert result.stderr.endswith(
        "kafkafs: 1 place could not be read; the result goes without it\n"
    )


def test_grep_counts_what_can_be_searched(source: Path) -> None:
    everything = run("grep", "-c", "id", source, "codec-gzip-0").stdout
    assert run("grep", "-c", "id", source, "codec-gzip-0").exit_code == 0
    here = run("grep", "-c", "id", source, "orders-0")
    assert (here.stdout, here.exit_code) == ("0\n", 3)
    assert int(run("grep", "-c", "id", source).stdout) > int(everything) > 0


def test_cat_goes_on_with_the_next_path(
    source: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(
            [
                "cat",
                str(source),
                "orders-0/offset/35",
                "codec-gzip-0/offset/3",
                "codec-gzip-0/offset/9999",
            ]
        )
    captured = capfdbinary.readouterr()
    assert left.value.code == 3
    assert json.loads(captured.out)["offset"] == 3
    told = captured.err.decode().splitlines()
    assert told == [
        f"kafkafs: {source}/orders-0: {DENIED}",
        "kafkafs: codec-gzip-0/offset/9999: no record with this offset; log start 0, end 900",
    ]


def test_cp_copies_all_files_but_those_that_cannot_be_read(source: Path, tmp_path: Path) -> None:
    hidden = source / "txn-0" / "00000000000000000009.log"
    hidden.chmod(0)
    result = run("cp", source, "txn-0/segments", tmp_path / "copy")
    assert result.exit_code == 3
    assert result.stderr == f"kafkafs: {hidden}: {DENIED}\n"
    copied = {path.name for path in (tmp_path / "copy").iterdir()}
    assert copied == {path.name for path in hidden.parent.iterdir()} - {hidden.name}


def test_ls_lists_the_rest(source: Path) -> None:
    result = run("ls", source)
    assert result.exit_code == 0
    assert "orders-0/\n" in result.stdout
    result = run("ls", "-l", source, "orders-0/offset")
    assert result.exit_code == 3


def test_a_link_in_the_place_of_a_folder_is_told(source: Path, tmp_path: Path) -> None:
    (source / "orders-0").chmod(0o755)
    (source / "orders-0").rename(tmp_path / "elsewhere")
    (source / "orders-0").symlink_to(tmp_path / "elsewhere")
    result = run("offsets", source)
    assert result.exit_code == 3
    assert (
        f"kafkafs: {source}/orders-0: a symbolic link, not followed"
        " (use its target as the source)\n"
    ) in result.stderr
    assert "codec-gzip:0:900\n" in result.stdout
    (source / "orders-0").unlink()
    (tmp_path / "elsewhere").rename(source / "orders-0")


@pytest.mark.parametrize("mode", ["salvage", "broker"])
def test_rebuild_makes_the_other_partitions_and_does_not_call_the_result_whole(
    source: Path, tmp_path: Path, mode: str
) -> None:
    (source / "txn-0" / "00000000000000000009.index").chmod(0)
    target = tmp_path / "target"
    result = run("rebuild", source, target, "--mode", mode, "-q")
    assert result.exit_code == 3
    assert result.stdout.splitlines()[-1].endswith("; left out: orders-0; synced and verified")
    assert f"kafkafs: {source}/orders-0: {DENIED}\n" in result.stderr
    assert {path.name for path in target.iterdir() if path.is_dir()} == set(ONLY) - {"orders-0"}
    manifest = json.loads((target / "kafkafs-rebuild.json").read_text())
    assert manifest["unreadPartitions"] == ["orders-0"]
    assert {"path": f"{source}/orders-0", "reason": "Permission denied", "errno": "EACCES"} in (
        manifest["unread"]
    )


def test_rebuild_without_the_checkpoints_says_so(source: Path, tmp_path: Path) -> None:
    (source / "log-start-offset-checkpoint").chmod(0)
    result = run("rebuild", source, tmp_path / "target", "--topic", "txn", "-q")
    assert result.exit_code == 3
    assert f"kafkafs: {source}/log-start-offset-checkpoint: {DENIED}\n" in result.stderr


def test_plan_tells_what_becomes_of_the_others(source: Path) -> None:
    result = run("plan", source, "--changed-files")
    assert result.exit_code == 3
    assert (
        f"orders-0: the outcome is unknown: it cannot be read here: {source}/orders-0: {DENIED}\n"
        in (result.stdout)
    )
    assert "codec-gzip-0: log start 0, log end 900\n" in result.stdout
    assert "is unknown" in result.stdout.splitlines()[-2]


def test_check_goes_on_and_ends_with_the_status_of_what_cannot_be_read(source: Path) -> None:
    result = run("check", source)
    assert result.exit_code == 3
    assert "file-unreadable: cannot be read: Permission denied" in result.stdout
    assert f"kafkafs: {source}/orders-0: {DENIED}\n" in result.stderr


def test_a_source_that_may_not_be_searched_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    source = copy_of("current", tmp_path, ["codec-gzip-0"])
    source.chmod(0)
    with modes_count():
        status, error = status_of(capsys, "offsets", source)
    source.chmod(0o755)
    assert status == 3
    assert error.count("\n") == 1
    assert "may not be read by this user" in error
    assert not recwarn.list  # a traceback of SourceRoot.__del__ would be a warning here


@pytest.fixture
def one_file(tmp_path: Path) -> Iterator[Path]:
    """A log dir in which one records file in the middle of txn-0, and the last one, may not be read."""
    found = copy_of("current", tmp_path, ONLY)
    hidden = [found / "txn-0" / f"{base:020}.log" for base in (9, 525)]
    for path in hidden:
        path.chmod(0)
    with modes_count():
        yield found
    for path in hidden:
        path.chmod(0o644)


def test_a_records_file_of_another_owner_costs_its_own_records_only(
    one_file: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["cat", str(one_file), "txn-0/offset/3", "txn-0/offset/20", "txn-0/offset/500"])
    captured = capfdbinary.readouterr()
    assert [json.loads(line)["offset"] for line in captured.out.splitlines()] == [3, 500]
    assert b"cannot be read (Permission denied)" in captured.err
    assert left.value.code == 3


def test_its_stream_is_one_line_that_says_so(one_file: Path) -> None:
    result = run("cat", one_file, "txn-0/records/00000000000000000009.jsonl")
    (line,) = result.stdout.splitlines()
    error = json.loads(line)["error"]
    assert (error["kind"], error["firstOffset"]) == ("unreadable", 9)
    assert result.exit_code == 3


def test_grep_searches_the_other_files_of_the_partition(one_file: Path) -> None:
    result = run("grep", "--values", "none", "", one_file, "txn-0")
    offsets = {json.loads(line)["offset"] for line in result.stdout.splitlines()}
    assert offsets
    assert not offsets & {*range(9, 489), *range(525, 661)}
    assert result.exit_code == 3
    assert "run as the owner of the files" in result.stderr
    assert "ddrescue" not in result.stderr


def test_offsets_gives_no_log_end_that_it_does_not_know(one_file: Path) -> None:
    result = run("offsets", one_file)
    assert not [line for line in result.stdout.splitlines() if line.startswith("txn:")]
    assert (
        "kafkafs: txn-0: the log end cannot be read; no record is known from offset 525 on\n"
        in result.stderr
    )
    assert "txn:0:0\n" in run("offsets", one_file, "--time", "earliest").stdout


def test_rebuild_keeps_the_other_files_of_the_partition(one_file: Path, tmp_path: Path) -> None:
    result = run("rebuild", one_file, tmp_path / "target", "--topic", "txn", "--json", "-q")
    (report,) = json.loads(result.stdout)["partitions"]
    assert report["records"] > 0
    assert (9, 489) in [(each["firstOffset"], each["nextOffset"]) for each in report["losses"]]
    assert report["logEndOffset"] == 661
    assert result.exit_code == 3


def test_check_finds_what_may_not_be_read_and_does_not_blame_the_disk(one_file: Path) -> None:
    result = run("check", one_file, "--topic", "txn")
    assert result.stdout.count("error   unreadable: ") == 2
    assert "→ Run as the owner of the files, or as root." in result.stdout
    assert "ddrescue" not in result.stdout


def test_a_file_that_may_be_read_again_is_read_without_a_new_start(
    one_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.log.segment.open_segments._TRY_AGAIN_AFTER", 0.0)
    source = open_source(str(one_file))
    log = source.partitions()["txn-0"]
    assert log.view(0).log_end_offset == 525
    assert log.view(0).unread_end is not None
    (one_file / "txn-0" / f"{525:020}.log").chmod(0o644)
    assert log.view(0).log_end_offset == 661
    source.close()


def test_dump_names_each_file_that_may_not_be_read_once_with_a_way_out(source: Path) -> None:
    log = source / "codec-gzip-0" / f"{0:020}.log"
    log.chmod(0)
    result = run("dump", source)
    log.chmod(0o644)
    lines = result.stderr.splitlines()
    assert lines.count(f"{log}: {DENIED}") == 1
    assert lines.count(f"{source}/orders-0: {DENIED}") == 1
    assert "Errno" not in result.stderr
    assert result.exit_code == 3


def test_dump_names_the_index_that_cannot_be_compared_with_its_log(source: Path) -> None:
    log = source / "codec-gzip-0" / f"{0:020}.log"
    log.chmod(0)
    text = run("dump", source / "codec-gzip-0")
    lines = [json.loads(line) for line in run("dump", log, "--json").stdout.splitlines()]
    log.chmod(0o644)
    told = f"its entries are not compared with {log.name}: Permission denied"
    assert text.stderr.splitlines() == [
        f"{log.with_suffix('.index')}: {told}",
        f"{log}: {DENIED}",
        f"{log.with_suffix('.timeindex')}: {told}",
    ]
    assert [line["error"]["reason"] for line in lines] == [DENIED]


def test_dump_of_a_range_does_not_call_a_log_empty_that_may_not_be_read(source: Path) -> None:
    log = source / "codec-gzip-0" / f"{0:020}.log"
    log.chmod(0)
    result = run("dump", source / "codec-gzip-0", "--from", "5")
    log.chmod(0o644)
    assert "its log is empty" not in result.stderr
    assert f"{log}: {DENIED}\n" in result.stderr
    assert result.exit_code == 3
