"""Where lost records may still be is said alike by every face: error lines, problems, check, plan, rebuild and Python."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kafkafs
from engine.log.log_directory import open_source
from engine.verdict.log_losses import losses_of
from kafkafs.cli import cli
from tests.fixtures_data import copy_of, partitions
from tests.replayed_bytes import (
    in_batches,
    topic_records,
    write_metadata_log,
    write_partition,
)

LOG = "orders-0"
MARK = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = copy_of("sample", tmp_path, partitions("sample"))
    write_metadata_log(made)
    return made


def middle(data: Path) -> Path:
    return sorted((data / LOG).glob("*.log"))[1]


# -- places: each makes one with the records of the middle segment, and returns its kind and its name


def deleted_file(data: Path) -> tuple[str, str]:
    path = middle(data)
    shutil.copy(path, path.with_name(f"{path.name}.deleted"))
    return "leftover", f"{LOG}/{path.name}.deleted"


def cleaned_file(data: Path) -> tuple[str, str]:
    path = middle(data)
    shutil.copy(path, path.with_name(f"{path.name}.cleaned"))
    return "leftover", f"{LOG}/{path.name}.cleaned"


def folder(state: str) -> Callable[[Path], tuple[str, str]]:
    def make(data: Path) -> tuple[str, str]:
        name = f"{LOG}.{MARK}-{state}"
        shutil.copytree(data / LOG, data / name)
        return "leftover", name

    return make


def other_log_dir(data: Path) -> tuple[str, str]:
    other = data.parent / "other"
    shutil.copytree(data / LOG, other / LOG)
    shutil.copy(data / "meta.properties", other)
    return "copy", str(other / LOG)


def replica(data: Path) -> tuple[str, str]:
    topic_id = (data / LOG / "partition.metadata").read_text().split()[-1]
    shutil.rmtree(data / "__cluster_metadata-0")
    write_partition(data, "__cluster_metadata-0", in_batches(topic_records("orders", topic_id)))
    meta = data / "meta.properties"
    meta.write_text(re.sub(r"node\.id=\d+", "node.id=1", meta.read_text()))
    return "replica", "2"  # the records assign it to 1 and 2


PLACES = {
    "deleted": deleted_file,
    "cleaned": cleaned_file,
    **{state: folder(state) for state in ("stray", "delete", "future")},
    "log dir": other_log_dir,
    "replica": replica,
}


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def lost(path: Path) -> None:
    for each in path.parent.glob(f"{path.stem}.*"):
        if each.suffix not in (".deleted", ".cleaned"):
            each.unlink()


def run(*words: str | Path) -> Any:
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def sources(data: Path) -> list[str]:
    other = data.parent / "other"
    return [str(data), *([str(other)] if other.is_dir() else [])]


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def said(data: Path) -> dict[str, list[dict[str, str]]]:
    """The places that each face names, in its JSON."""
    whole = ",".join(sources(data))
    lines = objects(run("cat", whole, "--partition", LOG).stdout)
    found = {"cat": [line["error"] for line in lines if "error" in line]}
    with kafkafs.open(*sources(data)) as opened:
        table = opened.scan("orders", columns=["_corrupt"], on_corrupt="row").to_arrow()
        rows = [json.loads(row) for row in table["_corrupt"].to_pylist() if row]
        found["python"] = rows
        found["problems"] = [
            {"elsewhere": list(each.elsewhere)}
            for each in opened.problems
            if each.partition == LOG and each.kind in ("missing", "zeros")
        ]
    checked = objects(run("check", whole, "--partition", LOG, "--json", "-j1").stdout)
    part = next(each for each in checked if each.get("partition") == LOG and "losses" in each)
    found["check"] = part["losses"]
    rules = ("gap-loss", "zero-tail")
    findings = [each for each in checked if each.get("rule") in rules]
    found["findings"] = [each["facts"] for each in findings]
    words = ("rebuild", whole, data.parent / "target", "--dry-run", "--json", "--partition", LOG)
    found["rebuild"] = json.loads(run(*words).stdout)["partitions"][0]["losses"]
    found["stats"] = objects(run("stats", whole, "--partition", LOG, "--json").stdout)[0]["losses"]
    return {face: each[0].get("elsewhere", []) for face, each in found.items()}


@pytest.mark.parametrize("how", [zeroed, lost])
@pytest.mark.parametrize("place", PLACES)
def test_every_face_names_the_place(data: Path, place: str, how: Callable[[Path], None]) -> None:
    kind, name = PLACES[place](data)
    how(middle(data))
    expected = [{"kind": kind, "name": name}]
    assert said(data) == dict.fromkeys(said(data), expected)


@pytest.mark.parametrize("how", [zeroed, lost])
@pytest.mark.parametrize("place", PLACES)
def test_every_text_says_what_takes_the_records(
    data: Path, place: str, how: Callable[[Path], None]
) -> None:
    kind, name = PLACES[place](data)
    how(middle(data))
    whole, target = ",".join(sources(data)), data.parent / "target"
    way = "kafkafs grep --deleted" if kind == "leftover" else "kafkafs rebuild --merge"
    shown = "broker 2 has a replica" if kind == "replica" else name
    for words in (
        ("check", whole, "--partition", LOG),
        ("rebuild", whole, target, "--dry-run", "--partition", LOG),
        ("grep", "-c", ".", whole, "--partition", LOG),
        ("export", whole, target, "--partition", LOG, "--on-corrupt", "skip", "--format", "jsonl"),
        ("sql", "select count(*) from orders", whole, "--partition", LOG),
    ):
        done = run(*words)
        if words[0] != "export":
            text = done.stdout + done.stderr
            assert shown in text, words
            assert way in text, words


def test_what_is_beside_the_lost_range_and_of_another_topic_is_not_named(data: Path) -> None:
    first = min((data / LOG).glob("*.log"))
    shutil.copy(first, first.with_name(f"{first.name}.deleted"))  # the records before the loss
    empty = middle(data)
    empty.with_name(f"{empty.name}.deleted").touch()
    stray = data / f"{LOG}.{MARK}-stray"
    shutil.copytree(data / LOG, stray)
    (stray / "partition.metadata").write_text("version: 0\ntopic_id: cmVjb3JkcyBvZiBsb2dzIQ\n")
    zeroed(middle(data))
    with closing(open_source(str(data))) as source:
        losses = losses_of(source.partitions()[LOG].view())
        base = int(middle(data).stem)
        assert losses.elsewhere(base, base + 10) == ()
        assert [each.name for each in losses.elsewhere(0, 10)] == [f"{LOG}/{first.name}.deleted"]


def test_rebuild_does_not_name_what_it_has_looked_through(data: Path) -> None:
    _, name = deleted_file(data)
    zeroed(middle(data))
    words = ("rebuild", data, data.parent / "target", "--dry-run", "--json", "--partition", LOG)
    (report,) = json.loads(run(*words).stdout)["partitions"]
    assert report["losses"][0]["elsewhere"] == [{"kind": "leftover", "name": name}]
    (report,) = json.loads(run(*words, "--deleted").stdout)["partitions"]
    assert report["losses"] == []


def test_a_lost_partition_names_its_stray_folder_and_its_replicas(data: Path) -> None:
    replica(data)
    (data / LOG).rename(data / f"{LOG}.{MARK}-stray")
    expected = [
        {"kind": "leftover", "name": f"{LOG}.{MARK}-stray"},
        {"kind": "replica", "name": "2"},
    ]
    checked = objects(run("check", data, "--json", "-j1").stdout)
    (loss,) = (each for each in checked if each["type"] == "loss")
    planned = objects(run("plan", data, "--json").stdout)
    (folder,) = (each for each in planned if each["kind"] == "lostFolder")
    with kafkafs.open(data) as opened:
        (problem,) = (each for each in opened.problems if each.kind == "missing")
    assert loss["elsewhere"] == folder["loss"]["elsewhere"] == problem.elsewhere == expected
    assert "broker 2 has a replica: kafkafs rebuild --merge" in run("stats", data).stderr
