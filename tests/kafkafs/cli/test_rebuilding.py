"""`kafkafs rebuild` on a terminal: what it prints, and how it exits."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from engine.record.record_batch import make_batch
from kafkafs.cli import cli, main
from kafkafs.loss_words import time_span
from tests import builders
from tests.builders import Rec
from tests.engine.rebuild.made_logs import START, MadeLog, facts_of, make_log, offsets_of
from tests.fixtures_data import copy_of


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["rebuild", *map(str, arguments)])


def damaged(tmp_path: Path) -> MadeLog:
    """A log whose first segment has one damaged batch."""
    made = make_log(tmp_path / "source", Random(4), transactions=False)
    _, position, batch = made.batches[2]
    data = bytearray(made.path(0).read_bytes())
    data[position + len(batch) - 1] ^= 1
    made.path(0).write_bytes(data)
    return made


def test_a_whole_log_dir_is_status_0_and_a_table(tmp_path):
    made = make_log(tmp_path / "source", Random(4), transactions=False)
    done = run(tmp_path / "source", tmp_path / "target")
    assert done.exit_code == 0, done.output
    line, forgets, sums, step = done.output.splitlines()
    assert forgets.startswith("no metadata log here")
    assert line.startswith(f"orders-0: offsets 0 to {made.next_offset}, {made.next_offset} records")
    assert sums == (
        f"{tmp_path / 'target'}: {made.next_offset} records in 1 partition;"
        " nothing is missing that was asked for; synced and verified"
    )
    place = f"give it the place of {tmp_path / 'source'} in log.dirs, and start the broker"
    assert step == f"next: {place}"


def test_logs_that_a_start_sets_aside_are_named_before_the_next_step(tmp_path):
    source = copy_of("current", tmp_path, ["orders-0", "txn-0", "__cluster_metadata-0"])
    properties = source / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=77"))
    done = run(source, tmp_path / "target")
    strays, step = done.output.splitlines()[-2:]
    assert strays.startswith("a start sets 2 logs aside (-stray)")
    assert strays.endswith("orders-0, txn-0")
    assert step.startswith("next: ")


def test_a_loss_is_status_1_and_named(tmp_path):
    made = damaged(tmp_path)
    done = run(tmp_path / "source", tmp_path / "target")
    assert done.exit_code == 1
    _, position, batch = made.batches[2]
    first = int.from_bytes(batch[:8], "big")
    assert f"  missing: offsets {first} to " in done.output
    assert f"at byte {position}, {len(batch)} bytes: crc_mismatch" in done.output
    assert (tmp_path / "target").exists()
    missing = len(offsets_of(batch))
    kept = made.next_offset - missing
    *_, sums, step = done.output.splitlines()
    at = {
        record.offset: record.timestamp
        for _, _, each in made.batches
        for record in make_batch(each, file_position=0, path=None).records()
    }
    times = time_span(at[first - 1], at[first + missing])
    assert sums == (
        f"{tmp_path / 'target'}: {kept} records in 1 partition;"
        f" missing: {missing} offsets in 1 partition, {times}; synced and verified"
    )
    assert step.startswith("next: --merge OTHER takes what another replica still has")
    assert "whole" not in done.output


def test_a_dry_run_prints_the_same_and_makes_nothing(tmp_path):
    damaged(tmp_path)
    dry = run(tmp_path / "source", "--dry-run")
    real = run(tmp_path / "source", tmp_path / "target")
    assert dry.exit_code == real.exit_code == 1
    assert dry.output.splitlines()[:-1] == real.output.splitlines()[:-2]
    sums = real.output.splitlines()[-2].removeprefix(f"{tmp_path / 'target'}: ")
    told = dry.output.splitlines()[-1].removeprefix(
        "nothing is written (--dry-run); there would be "
    )
    assert told == sums.removesuffix("; synced and verified")


def test_json_is_the_manifest(tmp_path):
    damaged(tmp_path)
    done = run(tmp_path / "source", tmp_path / "target", "--json")
    manifest = json.loads((tmp_path / "target/kafkafs-rebuild.json").read_text())
    assert json.loads(done.output) == manifest
    assert manifest["state"] == "complete"
    assert manifest["options"]["mode"] == "salvage"


def test_verify_is_status_0_until_something_changes(tmp_path):
    made = make_log(tmp_path / "source", Random(4))
    run(tmp_path / "source", tmp_path / "target")
    assert run("--verify", tmp_path / "target").exit_code == 0
    path = tmp_path / "target/orders-0" / made.path(0).name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = run("--verify", tmp_path / "target")
    assert (done.exit_code, done.output) == (
        1,
        f"orders-0/{path.name}: its bytes differ\n",
    )
    found = json.loads(run("--verify", tmp_path / "target", "--json").output)
    assert found["path"] == f"orders-0/{path.name}"


@pytest.mark.parametrize(
    ("bound", "first"),
    [("17", 17), (f"@{START}", 0), ("2023-11-14T22:13:30Z", 10), ("20231114T221330Z", 10)],
)
def test_bounds_are_offsets_instants_or_milliseconds(tmp_path, bound, first):
    make_log(tmp_path / "source", Random(4), transactions=False)
    done = run(tmp_path / "source", tmp_path / "target", "--from", bound)
    assert done.exit_code == 0, done.output
    assert min(facts_of(tmp_path / "target")) == first


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (
            ["--from", "1700000000000"],
            (
                "--from 1700000000000 is past the end of every log (the highest ends at END): for a time"
                " write 2023-11-14T22:13:20Z or @1700000000000, or pass --allow-empty"
            ),
        ),
        (["--from", "1700000000123"], "write 2023-11-14T22:13:20.123Z or @1700000000123"),
        (["--from", "700"], "write an offset up to END, or pass --allow-empty"),
        (["--to", "1700000000000"], "--to 1700000000000 is past the end of every log"),
        (["--from", "END"], "no record is at or after --from: to write it anyway"),
        (["--from", "2030-01-01"], "no record is at or after --from"),
        (["--to", "2001-01-01"], "no record is before --to"),
        (["--from", "20", "--to", "10"], "--from 20 is not before --to 10, and --to is exclusive"),
        (["--from", "2024-01-01", "--to", "2023-01-01"], "is not before --to"),
    ],
)
def test_bounds_that_leave_no_record_are_status_2_and_make_nothing(tmp_path, bounds, why):
    made = make_log(tmp_path / "source", Random(4), transactions=False)
    bounds = [each.replace("END", str(made.next_offset)) for each in bounds]
    for target in ([tmp_path / "target"], ["--dry-run"]):
        done = run(tmp_path / "source", *target, *bounds)
        assert done.exit_code == 2, done.output
        assert why.replace("END", str(made.next_offset)) in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    done = run(tmp_path / "source", tmp_path / "target", *bounds, "--allow-empty")
    assert done.exit_code == 0, done.output
    records = made.next_offset if bounds == ["--to", "1700000000000"] else 0
    assert f": {records} records in 1 partition; nothing is missing" in done.output


def test_a_source_without_records_is_status_2_unless_that_is_wanted(tmp_path):
    (tmp_path / "source/orders-0").mkdir(parents=True)
    (tmp_path / f"source/orders-0/{0:020}.log").touch()
    done = run(tmp_path / "source", tmp_path / "target")
    assert done.exit_code == 2
    assert "the result would have no records: to write it anyway, pass --allow-empty" in (
        done.stderr
    )
    assert not (tmp_path / "target").exists()
    assert run(tmp_path / "source", tmp_path / "target", "--allow-empty").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "name a SOURCE and a TARGET"),
        (["SOURCE"], "name a SOURCE and a TARGET"),
        (["SOURCE", "SOURCE/new"], "is inside the source"),
        (["SOURCE", "TARGET", "--from", "soon"], "a time such as"),
        (["SOURCE", "TARGET", "--rename", "orders"], "NAME=VALUE"),
        (["SOURCE", "TARGET", "--topic-id", "orders=xyz"], "--topic-id orders"),
        (["SOURCE", "TARGET", "--owner", "nobody-of-this-name"], "no such user"),
        (["SOURCE", "--dry-run", "--mode", "broker"], "kafkafs plan"),
        (["SOURCE", "--verify", "TARGET"], "--verify takes no SOURCE"),
    ],
)
def test_what_makes_no_sense_is_status_2(tmp_path, arguments, why):
    make_log(tmp_path / "source", Random(4))
    names = {"SOURCE": str(tmp_path / "source"), "TARGET": str(tmp_path / "target")}
    done = run(*(each.replace("SOURCE", names["SOURCE"]).replace("TARGET", names["TARGET"]) for each in arguments))  # fmt: skip
    assert done.exit_code == 2
    assert why in done.output.replace("\n", " ")
    assert not (tmp_path / "target").exists()


def test_what_cannot_be_read_is_one_line_and_status_3(tmp_path, capfd):
    for arguments in (["missing", "target"], ["--verify", "missing"]):
        with pytest.raises(SystemExit) as ended:
            main(["rebuild", *(str(tmp_path / each) if each[0] != "-" else each for each in arguments)])  # fmt: skip
        assert ended.value.code == 3
        error = capfd.readouterr().err
        assert error.startswith("kafkafs: ")
        assert error.count("\n") == 1


def test_where_a_broker_would_not_start_it_is_one_line_and_status_3(tmp_path, capfd):
    made = make_log(tmp_path / "source", Random(4))
    (made.folder / "abc.log").touch()
    with pytest.raises(SystemExit) as ended:
        main(["rebuild", str(made.log_dir), str(tmp_path / "target"), "--mode", "broker"])
    assert ended.value.code == 3
    assert capfd.readouterr().err.count("\n") == 1


def test_what_another_leader_wrote_is_named(tmp_path):
    shared = [builders.batch([Rec(b"x")] * 5, at) for at in range(0, 20, 5)]
    for name, epoch in (("source", 1), ("other", 0)):
        own = builders.batch([Rec(name.encode())] * 5, 20, leader_epoch=epoch)
        folder = tmp_path / name / "orders-0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(b"".join([*shared, own]))
        lines = "2\n0 0\n1 20\n" if epoch else "1\n0 0\n"
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{lines}")
    done = run(tmp_path / "source", tmp_path / "target", "--merge", tmp_path / "other")
    assert done.exit_code == 0
    assert f"  not taken: offsets 20 to 24 of {tmp_path / 'other'}" in done.output


def test_a_full_disk_is_named_by_the_file_and_not_as_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make_log(tmp_path / "source", Random(4))
    write = os.pwrite

    def pwrite(fd: int, data: bytes, position: int) -> int:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".log"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(SystemExit) as left:
        main(["rebuild", str(tmp_path / "source"), str(tmp_path / "target")])
    assert left.value.code == 3
    message = capfd.readouterr().err
    assert re.fullmatch(r"kafkafs: /.*/orders-0/\d{20}\.log: No space left on device\n", message)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
