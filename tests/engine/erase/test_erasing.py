"""What an erase leaves is all but the chosen records, in every copy, and it says what it cannot reach."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.disk.disk import Disk
from engine.erase import erasing
from engine.erase.erasing import NothingChosenError, erase
from engine.erase.verifying import verify
from engine.rebuild.errors import RebuildFailedError, RebuildRefusedError
from engine.rebuild.rebuilding import planned_start
from engine.rebuild.target.manifest import MANIFEST, read_manifest
from engine.record.record_batch import make_batch
from tests import builders
from tests.builders import Rec
from tests.engine.erase.random_erasures import (
    ChosenKeys,
    RandomCluster,
    batches_in,
    facts_of,
)
from tests.engine.recover.dead_clusters import hashes, unpacked

WHO, OTHER = b"anna-4711", b"someone-else"


@pytest.mark.parametrize("seed", range(16))
def test_only_the_chosen_records_are_gone_from_every_copy(seed: int, tmp_path: Path) -> None:
    made = RandomCluster(tmp_path, seed)
    before = hashes(made.log_dirs)
    report = made.erased(tmp_path / "target").report
    assert made.problems(tmp_path / "target") == []
    assert (report["traces"], report["unknown"]) == ([], [])
    assert hashes(made.log_dirs) == before
    for log_dir in made.log_dirs:
        assert planned_start(str(tmp_path / "target" / log_dir.name)).why_not is None


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log of two segments with records of two people, and a log of the other one."""
    folder = tmp_path / "data"
    for base in (0, 4):
        records = [Rec(b"value of %s %d" % (key, base), key) for key in (WHO, OTHER) * 2]
        builders.write_segment(folder / "clicks-0", [builders.batch(records, base)], base)
    builders.write_segment(folder / "views-0", [builders.batch([Rec(b"a view", OTHER)])])
    return folder


def erased(log_dir: Path, **options: Any) -> dict[str, Any]:
    target = str(log_dir.with_name("target"))
    return erase([str(log_dir)], target, ChosenKeys({WHO}), **options).report


def test_an_untouched_file_keeps_its_bytes_and_time(log_dir: Path) -> None:
    erased(log_dir)
    old = log_dir / "views-0/00000000000000000000.log"
    new = log_dir.with_name("target") / "data/views-0/00000000000000000000.log"
    assert new.read_bytes() == old.read_bytes()
    assert int(new.stat().st_mtime * 1000) == int(old.stat().st_mtime * 1000)


def test_the_manifest_has_hashes_before_and_after_and_no_content(log_dir: Path) -> None:
    erased(log_dir)
    manifest = read_manifest(str(log_dir.with_name("target")))
    for paths, folder in (("before", log_dir.parent), ("files", log_dir.with_name("target"))):
        assert manifest[paths]
        for each in manifest[paths]:
            data = (folder / each["path"]).read_bytes()
            assert each["sha256"] == hashlib.sha256(data).hexdigest()
    assert len(manifest["removed"]) == manifest["totals"]["records"] == 4
    assert not any(text in json.dumps(manifest) for text in ("anna", "4711", "value of"))


@pytest.mark.parametrize(
    "copy",
    [
        lambda data: data,
        lambda data: data.hex().upper().encode(),
        lambda data: __import__("base64").b64encode(b"x" + data),
        lambda data: data.decode().encode("utf-16-le"),
    ],
)
def test_a_copy_in_any_form_is_found_and_nothing_is_called_done(
    log_dir: Path, copy: Callable[[bytes], bytes]
) -> None:
    letter = builders.batch([Rec(b"dead letter: " + copy(WHO) + b"!", OTHER)], 1)
    builders.write_segment(log_dir / "dlq-0", [letter], 0)
    report = erased(log_dir)
    assert not report["done"]
    [trace] = report["traces"]
    assert (trace["path"], trace["place"], trace["firstOffset"]) == (
        "data/dlq-0/00000000000000000000.log",
        "value",
        1,
    )


def test_a_copy_behind_many_values_that_are_only_alike_is_found(log_dir: Path) -> None:
    """The same value under other keys does not count, and hides none that does."""
    value = b"value of %s 0" % WHO
    records = [Rec(value, b"other %d" % number) for number in range(1200)]
    builders.write_segment(log_dir / "mirror-0", [builders.batch([*records, Rec(value, None)])])
    report = erased(log_dir)
    found = {each["isCopy"]: each["records"] for each in report["traces"] if each["of"] == "value"}
    assert (found, report["done"]) == ({False: 1200, True: 1}, False)


def test_a_text_beside_the_logs_is_found(log_dir: Path) -> None:
    (log_dir / "bootstrap.checkpoint").write_bytes(b"\0\1anna@example.org\0")
    report = erased(log_dir, texts=[b"anna@example.org"])
    [trace] = report["traces"]
    assert (trace["path"], trace["place"], trace["of"]) == (
        "data/bootstrap.checkpoint",
        "bytes",
        "text",
    )


def test_bytes_that_nobody_can_read_are_named(log_dir: Path) -> None:
    path = log_dir / "clicks-0/00000000000000000004.log"
    path.write_bytes(path.read_bytes()[:-3])
    report = erased(log_dir)
    assert not report["isClean"]
    [unknown] = report["unknown"]
    shown = "data/clicks-0/00000000000000000004.log"
    assert (unknown["path"], unknown["position"]) == (shown, 0)


def test_damaged_bytes_are_left_out_on_request(log_dir: Path) -> None:
    path = log_dir / "clicks-0/00000000000000000000.log"
    whole = builders.batch([Rec(b"v", OTHER), Rec(b"v", WHO)], 2)
    path.write_bytes(builders.batch([Rec(b"%s" % WHO, WHO)] * 2) + whole + whole[:-9])
    with path.open("r+b") as file:
        file.seek(80)
        file.write(b"?")
    report = erased(log_dir, drops_damage=True)
    assert report["unknown"] == []
    assert [each["position"] for each in report["dropped"]] == [
        0,
        path.stat().st_size - len(whole) + 9,
    ]
    new = log_dir.with_name("target") / "data/clicks-0" / path.name
    assert [each[1] for batch in batches_in(new.read_bytes()) for each in facts_of(batch)] == [
        OTHER
    ]


def test_a_folder_behind_a_link_is_named(log_dir: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    builders.write_segment(elsewhere, [builders.batch([Rec(b"x", WHO)])])
    (log_dir / "linked-0").symlink_to(elsewhere)
    report = erased(log_dir)
    assert not report["isClean"]
    [unknown] = report["unknown"]
    assert unknown["path"] == str(log_dir / "linked-0")


def test_without_the_metadata_nobody_knows_where_copies_are(log_dir: Path) -> None:
    report = erased(log_dir)
    assert [each["kind"] for each in report["unreached"]] == ["no_metadata"]
    assert not report["done"]


def test_a_replica_that_nobody_gave_is_named(tmp_path: Path) -> None:
    dead = unpacked(tmp_path)
    paths = [str(each) for each in dead[:2]]
    choice = ChosenKeys({b"2"})
    report = erase(paths, None, choice).report
    found = {each["reason"].split(" that")[0] for each in report["unreached"]}
    assert "broker 3 has a copy of orders-0" in found
    assert not erase([*paths, str(dead[2])], None, choice).report["unreached"]


def test_a_control_batch_stays_whatever_is_chosen(log_dir: Path) -> None:
    """Without its marker a transaction would be open for ever."""
    producer = builders.Producer(id=7, sequence=0)
    data = builders.batch([Rec(b"a value", WHO)], 0, producer=producer, transactional=True)
    marker = builders.end_marker(1, producer, commit=True)
    folder = log_dir / "txn-0"
    builders.write_segment(folder, [data, marker])
    keys = {each.key or b"" for each in make_batch(marker, file_position=0, path=None).records()}
    choice = ChosenKeys({WHO, *keys})
    erase([str(log_dir)], str(log_dir.with_name("target")), choice)
    new = log_dir.with_name("target") / "data/txn-0/00000000000000000000.log"
    assert new.read_bytes().endswith(marker)


def test_nothing_chosen_is_refused_and_nothing_is_left(log_dir: Path) -> None:
    target = log_dir.with_name("target")
    with pytest.raises(NothingChosenError):
        erase([str(log_dir)], str(target), ChosenKeys({b"nobody"}))
    assert [path.name for path in log_dir.parent.iterdir()] == ["data"]


def test_a_plan_writes_nothing_and_counts_the_same(log_dir: Path) -> None:
    planned = erase([str(log_dir)], None, ChosenKeys({WHO})).report
    assert [path.name for path in log_dir.parent.iterdir()] == ["data"]
    assert planned["places"] == erased(log_dir)["places"]


def test_a_partition_is_refused(log_dir: Path) -> None:
    with pytest.raises(RebuildRefusedError, match="is one partition"):
        erase([str(log_dir / "clicks-0")], None, ChosenKeys({WHO}))


def test_a_result_that_differs_never_gets_its_name(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_too_many(*_: object) -> bytes:
        return builders.empty_batch(0, 3)

    monkeypatch.setattr("engine.erase.records_file.without", one_too_many)
    with pytest.raises(RebuildFailedError, match="is not what is left"):
        erased(log_dir)
    assert [path.name for path in log_dir.parent.iterdir()] == ["data"]


def test_a_failing_disk_leaves_nothing(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(erasing, "make_indexes", fail)
    with pytest.raises(OSError, match="No space"):
        erase([str(log_dir)], str(log_dir.with_name("target")), ChosenKeys({WHO}), disk=Disk())
    assert [path.name for path in log_dir.parent.iterdir()] == ["data"]


def test_a_record_that_comes_back_is_told(log_dir: Path) -> None:
    erased(log_dir)
    target = log_dir.with_name("target")
    manifest = read_manifest(str(target))
    assert list(verify(manifest, str(target))) == []
    name = "clicks-0/00000000000000000000.log"
    (target / "data" / name).write_bytes((log_dir / name).read_bytes())
    reasons = [each.reason for each in verify(manifest, str(target))]
    assert any("2" in each and "are back" in each for each in reasons), reasons
    assert MANIFEST in {path.name for path in target.iterdir()}
