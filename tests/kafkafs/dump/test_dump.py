"""Whole dumps: equality with what Kafka's own tool printed, for every truth in tests/data."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests import builders, fixtures_data
from tests.builders import Rec
from tests.kafkafs.dump.dumped import dump
from tests.kafkafs.dump.truth_text import DECODERS, apart, as_current, without_false_alarms

TRUTHS = [
    (kind, partition, indexes)
    for kind in fixtures_data.KINDS
    for partition in fixtures_data.partitions(kind)
    for indexes in (False, True)
    if kind != "live" and fixtures_data.dump_text(kind, partition, indexes=indexes) is not None
]
PREALLOCATED = ("doomed-0.79a2729b977549e09c3e7eb8181070e2-delete",)
"""Partitions whose indexes are zeros only; Kafka's tool takes the first of these for an entry."""


@pytest.mark.parametrize(
    ("kind", "partition", "indexes"),
    TRUTHS,
    ids=[f"{kind}-{name}{'-indexes' if indexes else ''}" for kind, name, indexes in TRUTHS],
)
def test_the_text_is_that_of_kafkas_own_tool(
    kind: str, partition: str, indexes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fixtures_data.log_dir(kind))
    truth = fixtures_data.dump_text(kind, partition, indexes=indexes)
    assert truth is not None
    named = [line[8:] for line in truth.split("\n") if line.startswith("Dumping ")]
    there = [name for name in named if Path(name).exists()]
    topic = partition.rsplit("-", 1)[0]
    option = DECODERS.get(topic, "--print-data-log")
    found = dump(there, *([] if indexes else [option]))
    text = found.out.decode() + found.err.replace(f"{os.getcwd()}/", "")
    truth = as_current(truth)
    if there != named:  # of this partition only the last segments are kept
        truth = truth[truth.index(f"Dumping {there[0]}\n") :]
        assert "is followed by" not in text
        truth = "\n".join(apart(truth)[0])
    out, complaints = apart(without_false_alarms(truth))
    if indexes and partition in PREALLOCATED:
        assert complaints
        complaints = []
    assert apart(text) == (out, complaints)


def test_every_file_of_every_log_dir_is_dumped_without_a_complaint(tmp_path: Path) -> None:
    source = fixtures_data.copy_of("current", tmp_path)
    found = dump(source, "--deep-iteration")
    assert found.status == 0
    assert "Ignoring" not in found.err
    dumped = {line[8:] for line in found.lines if line.startswith("Dumping ")}
    files = {str(path) for path in source.rglob("*") if path.is_file() and path.name != ".lock"}
    assert dumped == {path for path in files if "remote-log-index-cache" not in path}


def test_the_source_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    shutil.copytree(fixtures_data.log_dir("current") / "orders-0", folder)
    (folder / "00000000000000000395.index").unlink()
    odd = folder / "00000000000000000000.index"
    odd.write_bytes(odd.read_bytes() + b"\0\0\0")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    for options in ([], ["--index-sanity-check"], ["--verify-index-only"], ["--json"]):
        dump(folder, *options)
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert after == before


def test_a_file_that_is_missing_is_said_and_the_rest_is_dumped(tmp_path: Path) -> None:
    log = builders.write_segment(tmp_path, [builders.batch([Rec(b"v")])])
    found = dump([tmp_path / "gone.log", log], "--print-data-log")
    assert found.status == 3
    assert "gone.log: no such file or directory" in found.err
    assert found.lines[-1].endswith("payload: v")


def test_what_is_no_file_of_kafkas_is_ignored(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("x")
    found = dump(notes)
    assert (found.lines, found.err) == ([f"Dumping {notes}"], f"Ignoring unknown file {notes}\n")
    assert found.status == 0


@pytest.mark.parametrize("make", ["fifo", "link", "folder"])
def test_what_is_no_regular_file_is_never_opened(tmp_path: Path, make: str) -> None:
    folder = tmp_path / "orders-0"
    builders.write_segment(folder, [builders.batch([Rec(b"v")])])
    odd = folder / "00000000000000000007.log"
    if make == "fifo":
        os.mkfifo(odd)
    elif make == "link":
        odd.symlink_to("/etc/passwd")
    else:
        odd.mkdir()
    found = dump(folder, "--print-data-log")
    assert "root:" not in found.out.decode()
    assert any(line.endswith("payload: v") for line in found.lines)
    if make == "fifo":
        named = dump(odd)
        assert named.status == 3
        assert "FIFO" in named.err
