"""A crash in the middle of a compaction or a split: every face shows the records that a broker's start leaves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kafkafs
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from kafkafs.cli import cli
from kafkafs.table.splits.split import QueryRange, plan
from kafkafs.table.splits.split_scan import scan_split
from tests.engine.log.folders import offsets_of
from tests.kafkafs.serve.consumed import Consumer
from tests.swap_states import SHAPES, Shape, states_in_order, write_state

Offsets = dict[str, list[int]]
SMALL = 300
"""Bytes of a split, so that a segment has several."""


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: shape.name)
def states(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[Path, Offsets, Shape]:
    """A log dir with a partition for each step of a replacement, the offsets of each, and the replacement."""
    shape: Shape = request.param
    log_dir = tmp_path_factory.mktemp("swaps") / "data"
    wanted: Offsets = {}
    for number, (state, is_new) in enumerate(states_in_order(shape)):
        name = f"t-{number}"
        write_state(log_dir / name, state)
        (log_dir / name / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        wanted[name] = shape.after if is_new else shape.before
        if is_new and not shape.leaves_records:
            # An empty new segment replaces no other: Kafka's loader, asked in tests/kafka, keeps those.
            wanted[name] = [
                each
                for each in shape.before
                if each // 8 != 1 and (each // 8 != 2 or f"{16:020}.log" in state)
            ]
    cleaned = "".join(f"t {number} 24\n" for number in range(len(wanted)))
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n{len(wanted)}\n{cleaned}")
    return log_dir, wanted, shape


def run(*arguments: object) -> str:
    return CliRunner().invoke(cli, [str(each) for each in arguments]).stdout


def lines(text: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, text.splitlines())


def by_partition(found: Iterable[dict[str, Any]]) -> Offsets:
    offsets: Offsets = defaultdict(list)
    for line in found:
        offsets[f"t-{line['partition']}"].append(line["offset"])
    return offsets


def test_lines_of_records_are_those_of_the_log(states: tuple[Path, Offsets, Shape]) -> None:
    log_dir, wanted, _ = states
    paths = [
        f"{name}/records/{base}"
        for name in wanted
        for base in run("ls", log_dir, f"{name}/records").split()
    ]
    assert by_partition(lines(run("cat", log_dir, *paths))) == wanted
    assert by_partition(lines(run("cat", log_dir, "--topic", "t"))) == wanted
    assert by_partition(lines(run("grep", "", log_dir))) == wanted
    ranges = [f"{name}/offset/0..{1 << 40}" for name in wanted]
    assert by_partition(lines(run("cat", log_dir, *ranges))) == wanted


def test_numbers_are_those_of_the_log(states: tuple[Path, Offsets, Shape]) -> None:
    log_dir, wanted, _ = states
    counts = {name: len(offsets) for name, offsets in wanted.items()}
    for command in ("stats", "check"):
        facts = [
            each for each in lines(run(command, "--json", log_dir)) if each["type"] == "partition"
        ]
        assert {each["partition"]: each["records"] for each in facts} == counts, command
    ends = dict(line.rsplit(":", 1) for line in run("offsets", log_dir).split())
    shown = {name: json.loads(run("cat", log_dir, f"{name}/state/offsets.json")) for name in wanted}
    for name, offsets in wanted.items():
        assert int(ends[name.replace("-", ":")]) == offsets[-1] + 1
        assert shown[name]["logEndOffset"] == offsets[-1] + 1


def test_programs_see_the_log(states: tuple[Path, Offsets, Shape], tmp_path: Path) -> None:
    log_dir, wanted, _ = states
    with kafkafs.open(str(log_dir)) as source:
        assert {
            name: [record.offset for record in source["t", int(name[2:])]] for name in wanted
        } == wanted
    consumer = Consumer(log_dir)
    assert {name: [each.offset for each in consumer.records(name)] for name in wanted} == wanted
    run("export", log_dir, tmp_path / "parquet")
    exported: Offsets = defaultdict(list)
    for row in pq.read_table(tmp_path / "parquet" / "topic=t").to_pylist():
        exported[f"t-{row['partition']}"].append(row["offset"])
    assert {name: sorted(offsets) for name, offsets in exported.items()} == wanted


def test_splits_are_those_of_the_log(states: tuple[Path, Offsets, Shape]) -> None:
    log_dir, wanted, _ = states
    source = open_source(str(log_dir))
    for name, log in source.partitions().items():
        view = log.view()
        whole = QueryRange(log.topic_partition, view.log_start_offset, view.log_end_offset)
        found: list[int] = []
        for split in plan(view, whole, SMALL):
            assert Path(split.path).exists()
            for each in scan_split(split, fail_on_data_loss=True):
                assert isinstance(each.item, BatchRun)
                found += each.item.table["base_offset"].tolist()
        assert sorted(set(found)) == wanted[name], name
    source.close()


def test_nothing_is_called_lost(states: tuple[Path, Offsets, Shape], tmp_path: Path) -> None:
    log_dir, wanted, shape = states
    if not shape.leaves_records:
        return  # records that were compacted away come back
    findings = [
        each for each in lines(run("check", "--json", log_dir)) if each["type"] == "finding"
    ]
    assert [each for each in findings if each["severity"] == "error"] == []
    plans = [each for each in lines(run("plan", "--json", log_dir)) if each["kind"] == "log"]
    for each in plans:
        lost = each["lost"]
        assert {lost[name] for name in ("records", "controlRecords", "bytes", "offsets")} == {0}
        ends = each["logEndOffset"], each["logEndOffsetBefore"]
        assert set(ends) == {wanted[each["folder"]][-1] + 1}
    run("rebuild", log_dir, tmp_path / "rebuilt")
    rebuilt = open_source(str(tmp_path / "rebuilt")).partitions()
    assert {name: offsets_of(log.view()) for name, log in rebuilt.items()} == wanted


def test_files_have_their_own_names(states: tuple[Path, Offsets, Shape]) -> None:
    log_dir, wanted, _ = states
    for name in list(wanted)[::5]:
        folder = log_dir / name
        shown = run("ls", log_dir, f"{name}/segments").split()
        assert shown == sorted(path.name for path in folder.iterdir())
        leftovers = {
            each["file"]: each["reason"]
            for each in json.loads(run("cat", log_dir, f"{name}/state/leftovers.json"))
        }
        log = open_source(str(log_dir)).partitions()[name].view()
        in_log = {segment.name for segment in log.segments_from(0)}
        records = {path.name for path in folder.iterdir() if ".log" in path.name}
        assert in_log | (records & set(leftovers)) == records
        assert not in_log & set(leftovers)
        for file in log.listing.replaced:
            assert leftovers[file].startswith("replaced by ")
        for file in shown:
            assert (
                CliRunner()
                .invoke(cli, ["cat", str(log_dir), f"{name}/segments/{file}"])
                .stdout_bytes
                == (folder / file).read_bytes()
            )
