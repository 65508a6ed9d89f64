"""An export that stops anywhere goes on and has each file once."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine.disk.disk import Disk, WritableFile
from engine.units import TopicPartition
from kafkafs.export.ledger import (
    LOCK,
    MANIFEST,
    Done,
    Ledger,
    Manifest,
    Moved,
    offsets_done,
)
from kafkafs.export.target import LocalFiles
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.files.target_files import outside_of

AS = Manifest("json", "text", {})


class Stopped(OSError):
    """The disk went away."""


class UnsyncedDisk(Disk):
    """Waits for no device."""

    syncs = False


class FailingDisk(UnsyncedDisk):
    """Fails at a call that changes something, and at all after it."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def _count(self) -> None:
        if self.left <= 0:
            raise Stopped
        self.left -= 1

    def open(self, path: Any, **given: Any) -> WritableFile:
        if given.get("create") or given.get("exclusive"):
            self._count()
        return super().open(path, **given)

    def rename(self, old: Any, new: Any) -> None:
        self._count()
        super().rename(old, new)

    def rename_new(self, old: Any, new: Any) -> None:
        self._count()
        super().rename_new(old, new)

    def remove(self, path: Any, missing_ok: bool = False) -> bool:
        self._count()
        return super().remove(path, missing_ok)

    def remove_folder(self, path: Any) -> None:
        self._count()
        super().remove_folder(path)

    def make_folder(self, path: Any) -> None:
        self._count()
        super().make_folder(path)

    def sync_folder(self, path: Any) -> None:
        self._count()
        super().sync_folder(path)


def write_chunk(target: Path, ledger: Ledger, number: int) -> None:
    """What Spark does, and what follows it."""
    staged = target / ledger.staging(number) / "records" / f"topic=t{number}" / "date=2024-01-01"
    staged.mkdir(parents=True)
    for name in ("part-0.json", "part-1.json"):
        (staged / name).write_text(f"{number} {name}")
    (staged / ".part-0.json.crc").write_text("no data")
    files = tuple(ledger.moved(number, f"{ledger.staging(number)}/records", ""))
    ledger.record(Done(number, {"t-0": (number * 10, number * 10 + 10)}, {"t": 2}, files, 0, 5))


def run(target: Path, disk: Disk) -> None:
    """Three chunks, from wherever the last run stopped."""
    ledger = Ledger(LocalFiles(str(target), disk))
    ledger.check(AS, resume=True)
    done = ledger.begin(AS)
    for number in range(len(done) + 1, 4):
        write_chunk(target, ledger, number)
    ledger.end()


def data_of(target: Path) -> dict[str, str]:
    return {
        path.relative_to(target).as_posix(): path.read_text()
        for path in sorted(target.rglob("*"))
        if path.is_file() and not path.relative_to(target).as_posix().startswith("_")
    }


WHOLE = {
    f"topic=t{number}/date=2024-01-01/chunk-{number:06}-part-{part}.json": f"{number} part-{part}.json"
    for number in (1, 2, 3)
    for part in (0, 1)
}


def test_fault_145_stopped_at_any_call_it_goes_on_and_has_each_file_once(tmp_path: Path) -> None:
    stops = 0
    while True:
        target = tmp_path / str(stops)
        try:
            run(target, FailingDisk(stops))
        except Stopped:
            assert data_of(target).items() <= WHOLE.items()
            assert data_of(target) == WHOLE or not (target / "_SUCCESS").exists()
            with suppress(Stopped):
                run(target, FailingDisk(stops * 5 % 17))
            run(target, UnsyncedDisk())
        else:
            break
        assert data_of(target) == WHOLE
        assert (target / "_SUCCESS").exists()
        assert not list(target.rglob("staging-*"))
        stops += 1
    assert data_of(target) == WHOLE
    assert stops > 40


def test_a_chunk_that_was_not_recorded_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "out"
    ledger = Ledger(LocalFiles(str(target)))
    ledger.begin(AS)
    (target / ledger.staging(1) / "records").mkdir(parents=True)
    assert Ledger(LocalFiles(str(target))).begin(AS) == []
    assert sorted(path.name for path in target.rglob("*")) == ["_export", "manifest.json"]


def test_a_run_that_lives_on_writes_elsewhere(tmp_path: Path) -> None:
    target = tmp_path / "out"
    killed, again = (Ledger(LocalFiles(str(target), UnsyncedDisk())) for _ in range(2))
    killed.begin(AS)
    again.begin(AS)
    late = target / killed.staging(1) / "records" / "topic=t1" / "date=2024-01-01"
    late.mkdir(parents=True)
    (late / "part-9.json").write_text("late")
    write_chunk(target, again, 1)
    assert data_of(target) == {name: text for name, text in WHOLE.items() if "t1/" in name}
    Ledger(LocalFiles(str(target), UnsyncedDisk())).begin(AS)
    assert not list(target.rglob("staging-*"))


def test_what_is_done_is_read_back_and_says_where_to_go_on(tmp_path: Path) -> None:
    run(tmp_path / "out", UnsyncedDisk())
    done = Ledger(LocalFiles(str(tmp_path / "out"))).done()
    assert [chunk.number for chunk in done] == [1, 2, 3]
    staged = done[0].files[0].staged
    assert staged.endswith("/records/topic=t1/date=2024-01-01/part-0.json")
    assert done[0].files[0] == Moved(
        staged, "topic=t1/date=2024-01-01/chunk-000001-part-0.json", 13
    )
    assert offsets_done(done) == {TopicPartition("t", 0): 40}


def test_a_target_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(OptionError, match="is not empty"):
        Ledger(LocalFiles(str(tmp_path))).check(AS, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_export_goes_on_only_when_asked_and_only_as_it_was(tmp_path: Path) -> None:
    run(tmp_path / "out", UnsyncedDisk())
    ledger = Ledger(LocalFiles(str(tmp_path / "out")))
    with pytest.raises(OptionError, match="has an export already: resume it"):
        ledger.check(AS, resume=False)
    with pytest.raises(OptionError, match="begun with form 'json', not 'csv'"):
        ledger.check(Manifest("csv", "text", {}), resume=True)
    with pytest.raises(OptionError, match=r"filters \{\}, not \{'where': 'x'\}"):
        ledger.check(Manifest("json", "text", {"where": "x"}), resume=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "is damaged"),
        ("{}", "is damaged"),
        (json.dumps({"kind": "kafkafs export", "version": 2}), "has version 2, not 1"),
    ],
)
def test_a_manifest_of_something_else_is_one_error(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "_export").mkdir()
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(OptionError, match=said):
        Ledger(LocalFiles(str(tmp_path))).manifest()


def test_a_record_of_something_else_is_one_error(tmp_path: Path) -> None:
    run(tmp_path / "out", UnsyncedDisk())
    (tmp_path / "out" / "_export" / "chunk-000002.json").write_text("{}")
    with pytest.raises(OptionError, match=r"chunk-000002\.json is damaged"):
        Ledger(LocalFiles(str(tmp_path / "out"))).done()


def test_no_other_job_writes_there_meanwhile(tmp_path: Path) -> None:
    with (
        LocalFiles(str(tmp_path)).lock(LOCK),
        pytest.raises(OptionError, match="is being written"),
        LocalFiles(str(tmp_path)).lock(LOCK),
    ):
        pytest.fail("two at once")
    with LocalFiles(str(tmp_path)).lock(LOCK):
        pass


@pytest.mark.parametrize(("source", "target"), [("a", "a/b"), ("a/b", "a"), ("a", "a"), ("a", "c")])
def test_a_target_and_a_source_do_not_hold_each_other(
    tmp_path: Path, source: str, target: str
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").symlink_to(tmp_path / "a")
    with pytest.raises(OptionError, match="are inside each other"):
        outside_of(LocalFiles(str(tmp_path / target)), [str(tmp_path / source)])
    outside_of(LocalFiles(str(tmp_path / "ab")), [str(tmp_path / source)])
