"""Copies of tiered storage as sources: what they show, and which of several copies they show."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from engine.check.log_dir_check import SourceCheck
from engine.check.rules.finding import Finding
from engine.errors import CorruptRecordError, SourceError
from engine.log.log_directory import LogSource, open_source
from engine.log.view.log_view import LogView
from engine.plan.start_plan import StartPlan
from engine.rebuild.rebuilding import rebuild
from engine.units import TopicPartition
from kafkafs.tree.tree import Tree
from tests.engine.log.folders import LogWriter, offsets_of
from tests.fixtures_data import log_dir, partitions
from tests.kafka.views import TreeView
from tests.tiered_folders import TOPIC_ID, TieredWriter, aiven_copy

OTHER_ID = "A" + TOPIC_ID[1:]
LOGS = [
    name
    for name in partitions("current")
    if len(name) < 200 and not name.endswith("-delete") and not name.startswith("__cluster")
]
RECORDS = 60


@pytest.fixture
def tiered(tmp_path: Path) -> TieredWriter:
    return TieredWriter(tmp_path / "tiered")


def view_of(path: Path, name: str = "orders-0") -> LogView:
    return open_source(str(path)).partitions()[name].view()


def test_the_statuses_of_a_folders_files_are_those_of_the_files_shown(
    tiered: TieredWriter, tmp_path: Path
) -> None:
    writer = LogWriter(tmp_path / "log", "orders-0")
    writer.append_records(b"a", b"b")
    tiered.copy_all(writer.folder)
    log = view_of(tiered.root).log
    names = [*log.root.iterate_files(log.folder)]
    found = dict(log.root.stat_files(log.folder, [*names, "absent"]))
    assert list(found) == names
    assert found[f"{0:020}.log"].st_size == writer.records_file.stat().st_size


def bytes_of(view: LogView) -> list[bytes]:
    """What each segment's records file is shown to hold."""
    segments = (view.segment_at(place) for place in range(len(view)))
    return [segment.file.read_at(0, segment.file.size()) for segment in segments]


def epochs_in(view: LogView) -> dict[int, int]:
    """The leader epoch of each offset, as its batch has it."""
    found = {}
    for offset in offsets_of(view):
        batch = view.batch(offset)
        assert batch is not None
        found[offset] = int(batch[1].table["leader_epoch"][0])
    return found


def findings(source: LogSource) -> list[Finding]:
    return [event for event in SourceCheck(source).run() if isinstance(event, Finding)]


def written(folder: Path, *epochs: tuple[int, int], segments: int = 1, start: int = 0) -> Path:
    """A partition's folder with one record a batch: (epoch, records) after (epoch, records)."""
    writer = LogWriter(folder, "orders-0", start)
    total = sum(count for _, count in epochs)
    each = -(-total // segments)
    done = 0
    for epoch, count in epochs:
        for _ in range(count):
            if done and done % each == 0:
                writer.roll(index_interval=200)
            writer.append_records(f"value {writer.next_offset}".encode(), leader_epoch=epoch)
            done += 1
    writer.write_indexes(200)
    return writer.folder


# What is shown


@pytest.mark.parametrize("name", LOGS)
def test_a_tiered_copy_shows_the_tree_of_the_log_it_was_made_of(name: str, tmp_path: Path) -> None:
    partition = log_dir("current") / name
    original, copy = tmp_path / "original", tmp_path / "tiered"
    shutil.copytree(partition, original / name)
    TieredWriter(copy, name).copy_all(partition)
    before = TreeView(Tree(open_source(str(original))))
    after = TreeView(Tree(open_source(str(copy))))
    for folder in ("records", "committed"):
        assert after.names(f"{name}/{folder}") == before.names(f"{name}/{folder}")
        for file in before.names(f"{name}/{folder}"):
            path = f"{name}/{folder}/{file}"
            assert after.read(path) == before.read(path)
    made = {"partition.metadata", "leader-epoch-checkpoint"}
    for file in before.names(f"{name}/segments"):
        if file not in made and not file.endswith((".snapshot", ".deleted", ".swap")):
            path = f"{name}/segments/{file}"
            assert after.read(path) == before.read(path)
    metadata = after.read(f"{name}/segments/partition.metadata")
    assert metadata == f"version: 0\ntopic_id: {TOPIC_ID}".encode()


def test_a_producer_snapshot_is_called_by_the_offset_that_the_copied_segment_ends_at(
    tiered: TieredWriter,
) -> None:
    tiered.copy_all(log_dir("current") / "txn-0")
    view = view_of(tiered.root, "txn-0") if tiered.folder.name.startswith("txn") else None
    assert view is None  # the folder says whose copies they are, whatever is in them
    view = view_of(tiered.root)
    assert view.listing.producer_snapshots == (*view.base_offsets[1:], view.log_end_offset)
    assert view.last_stable_offset == view_of(log_dir("current"), "txn-0").last_stable_offset


def test_every_part_of_a_tiered_copy_can_be_named_as_source(tiered: TieredWriter) -> None:
    logs = tiered.copy_all(log_dir("current") / "orders-0")
    for path in (tiered.root, tiered.folder):
        view = view_of(path)
        assert (view.log_start_offset, view.log_end_offset) == (0, 1000)
        assert (view.partition, view.topic_id) == (TopicPartition("orders", 0), TOPIC_ID)
    one = view_of(logs[1])
    assert (one.base_offsets, one.log_end_offset) == ((395,), 790)
    assert one.segment_at(0).files.ensure_open().hints.position(700) > 0  # its index is used
    renamed = tiered.root / "a copy"
    tiered.folder.rename(renamed)
    view = view_of(renamed, "a_copy-0")
    assert (view.log_end_offset, view.topic_id) == (1000, None)


def test_errors_name_the_real_file(tiered: TieredWriter) -> None:
    logs = tiered.copy_all(log_dir("current") / "orders-0")
    data = bytearray(logs[1].read_bytes())
    data[100] ^= 1
    logs[1].write_bytes(data)
    source = open_source(str(tiered.root))
    view = source.partitions()["orders-0"].view()
    real = f"{tiered.folder.name}/{logs[1].name}"
    with pytest.raises(CorruptRecordError) as caught:
        view.batch(395)
    assert caught.value.path == real
    assert {problem["file"] for problem in source.problems} == {real}
    (finding,) = [each for each in findings(source) if each.rule == "batch-checksum"]
    assert finding.file == str(logs[1])
    line = TreeView(Tree(source)).read("orders-0/records/00000000000000000395.jsonl")
    assert real.encode() in line


def test_a_segment_that_is_copied_later_shows_up(tiered: TieredWriter) -> None:
    partition = log_dir("current") / "orders-0"
    tiered.copy(partition, 0)
    source = open_source(str(tiered.root))
    log = source.partitions()["orders-0"]
    assert log.view().log_end_offset == 395
    tiered.copy(partition, 395)
    assert log.view(max_age=0).log_end_offset == 790
    assert offsets_of(log.view()) == list(range(790))
    TieredWriter(tiered.root, "more-7").copy(partition, 0)
    assert list(source.partitions(max_age=0)) == ["more-7", "orders-0"]


def test_nothing_is_changed_and_no_link_is_followed(tiered: TieredWriter, tmp_path: Path) -> None:
    logs = tiered.copy_all(log_dir("current") / "orders-0")
    outside = tmp_path / "outside.log"
    logs[1].rename(outside)
    logs[1].symlink_to(outside)

    def state() -> list[tuple[object, ...]]:
        paths = sorted([tiered.root, *tiered.root.rglob("*")])
        stats = [(path, os.lstat(path)) for path in paths]
        return [(path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size) for path, stat in stats]

    before = state()
    source = open_source(str(tiered.root))
    assert view_of(tiered.root).base_offsets == (0, 790)
    assert [each.file for each in findings(source) if each.rule == "file-link"] == [str(logs[1])]
    assert state() == before


def test_a_rebuilt_copy_is_the_log_that_was_copied(tiered: TieredWriter, tmp_path: Path) -> None:
    partition = log_dir("current") / "orders-0"
    tiered.copy_all(partition)
    for mode in ("salvage", "broker"):
        from engine.rebuild.options import Mode, RebuildOptions

        target = tmp_path / mode
        rebuild(str(tiered.root), str(target), RebuildOptions(mode=Mode(mode)))
        for log in partition.glob("*.log"):
            assert (target / "orders-0" / log.name).read_bytes() == log.read_bytes()
        metadata = (target / "orders-0" / "partition.metadata").read_text()
        assert metadata.endswith(f"topic_id: {TOPIC_ID}")


def test_no_start_is_planned_on_a_tiered_copy(tiered: TieredWriter) -> None:
    tiered.copy_all(log_dir("current") / "orders-0")
    for path in (tiered.root, tiered.folder):
        with pytest.raises(SourceError, match="no broker starts on that"):
            StartPlan([str(path)])


# Several copies of the same offsets


def test_of_copies_of_one_segment_the_whole_one_is_shown(
    tiered: TieredWriter, tmp_path: Path
) -> None:
    partition = written(tmp_path / "log", (0, RECORDS), segments=2)
    torn = tiered.copy(partition, 0)
    whole = tiered.copy(partition, 0)
    again = tiered.copy(partition, 0)
    tiered.copy(partition, 30)
    with torn.open("r+b") as file:
        file.truncate(torn.stat().st_size - 10)
    again.with_suffix(".snapshot").unlink()
    source = open_source(str(tiered.root))
    view = source.partitions()["orders-0"].view()
    assert offsets_of(view) == list(range(RECORDS))
    assert view.segment_at(0).file.path == str(whole)
    notes = {each.file: each for each in findings(source)}
    assert notes.keys() == {str(torn), str(again)}
    assert {each.rule for each in notes.values()} == {"tiered-copy"}
    expected = f"a further copy of offsets 0 to 28, which {whole.name} holds too"
    assert notes[str(torn)].sentence == expected
    assert [left.name for left in view.leftovers] == [torn.name, again.name]


def test_of_copies_of_a_segment_the_one_that_goes_on_longest_is_shown(
    tiered: TieredWriter, tmp_path: Path
) -> None:
    short = written(tmp_path / "short", (0, 20))
    long = written(tmp_path / "long", (0, RECORDS))
    tiered.copy(short, 0)
    longest = tiered.copy(long, 0)
    view = view_of(tiered.root)
    assert offsets_of(view) == list(range(RECORDS))
    assert view.segment_at(0).file.path == str(longest)


def test_copies_that_overlap_are_shown_up_to_where_the_next_one_begins(
    tiered: TieredWriter, tmp_path: Path
) -> None:
    """Another leader rolled elsewhere: Kafka reads an offset from the copy with the highest start."""
    first = written(tmp_path / "first", (0, 40))
    second = tmp_path / "second" / "orders-0"
    shutil.copytree(written(tmp_path / "whole", (0, RECORDS), segments=2), second)
    tiered.copy(first, 0)
    tiered.copy(second, 30)
    source = open_source(str(tiered.root))
    view = source.partitions()["orders-0"].view()
    assert view.base_offsets == (0, 30)
    assert offsets_of(view) == list(range(RECORDS))
    whole = view_of(tmp_path / "whole")
    assert bytes_of(view) == bytes_of(whole)
    assert findings(source) == []  # the indexes end where the records do
    tree = TreeView(Tree(source))
    log = "orders-0/segments/00000000000000000000.log"
    assert tree.read(log) == bytes_of(whole)[0]
    assert tree.size(log) == len(bytes_of(whole)[0])
    rebuild(str(tiered.root), str(tmp_path / "rebuilt"))
    assert bytes_of(view_of(tmp_path / "rebuilt")) == bytes_of(whole)


def test_copies_of_another_lineage_of_leader_epochs_are_not_shown(
    tiered: TieredWriter, tmp_path: Path
) -> None:
    """A leader that did not have offsets 10 to 59 took over, and wrote others in their place."""
    old = written(tmp_path / "old", (0, RECORDS), segments=3)
    new = written(tmp_path / "new", (0, 10), (2, 70), segments=2)
    for base_offset in (0, 20, 40):
        tiered.copy(old, base_offset)
    for base_offset in (0, 40):
        tiered.copy(new, base_offset, epochs=[(0, 0), (2, 10)])
    source = open_source(str(tiered.root))
    view = source.partitions()["orders-0"].view()
    assert epochs_in(view) == {offset: 0 if offset < 10 else 2 for offset in range(80)}
    assert list(view.leader_epochs.entries) == [(0, 0), (2, 10)]
    sentences = sorted(each.sentence for each in findings(source))
    whole = "00000000000000000000-AAAAAAAAAAAAAAAAAAAABA.log"
    assert [sentence.partition(":")[0] for sentence in sentences] == [
        f"a further copy of offsets 0 to 9, which {whole} holds too",
        "another lineage of leader epochs",
        "another lineage of leader epochs",
    ]


def test_the_part_of_a_copy_that_is_of_the_lineage_is_shown(
    tiered: TieredWriter, tmp_path: Path
) -> None:
    old = written(tmp_path / "old", (0, RECORDS))
    new = written(tmp_path / "new", (1, 50), start=25)
    tiered.copy(old, 0)
    tiered.copy(new, 25, epochs=[(0, 0), (1, 25)])
    view = view_of(tiered.root)
    assert epochs_in(view) == {offset: int(offset >= 25) for offset in range(75)}


def test_epochs_below_those_of_the_newest_copy_are_those_of_older_copies(
    tiered: TieredWriter, tmp_path: Path
) -> None:
    log = written(tmp_path / "log", (0, 20), (1, 20), (3, 20), segments=3)
    astray = written(tmp_path / "astray", (0, 40), segments=2)
    tiered.copy(log, 0, epochs=[(0, 0)])
    tiered.copy(astray, 20, epochs=[(0, 0)])
    tiered.copy(log, 20, epochs=[(0, 0), (1, 20)])
    tiered.copy(log, 40, epochs=[(3, 40)])
    view = view_of(tiered.root)
    assert epochs_in(view) == {offset: (0, 1, 3)[offset // 20] for offset in range(RECORDS)}


def test_a_copy_without_a_good_batch_is_shown_where_no_other_has_its_offsets(
    tiered: TieredWriter, tmp_path: Path
) -> None:
    partition = written(tmp_path / "log", (0, RECORDS), segments=2)
    tiered.copy(partition, 0)
    hurt = tiered.copy(partition, 30)
    hurt.write_bytes(bytes(len(hurt.read_bytes())))
    source = open_source(str(tiered.root))
    assert source.partitions()["orders-0"].view().base_offsets == (0, 30)
    assert any(each.file == str(hurt) for each in findings(source))


def test_of_two_topics_of_one_name_the_newer_is_the_log(
    tiered: TieredWriter, tmp_path: Path
) -> None:
    older = LogWriter(tmp_path / "older", "orders-0")
    older.append_records(b"old")
    partition = log_dir("current") / "orders-0"
    data = (partition / "00000000000000000395.log").read_bytes()
    tiered.copy_all(partition)
    early = TieredWriter(tiered.root, "orders-0", OTHER_ID)
    early.copy(partition, 0)
    source = open_source(str(tiered.root))
    assert list(source.partitions()) == ["orders-0", f"orders-0.{OTHER_ID}-stray"]
    view = source.partitions()["orders-0"].view()
    assert (view.topic_id, bytes_of(view)[1]) == (TOPIC_ID, data)
    stray = source.partitions()[f"orders-0.{OTHER_ID}-stray"].view()
    assert (stray.topic_id, stray.log_end_offset) == (OTHER_ID, 395)


# Aiven's plugin


def aiven(root: Path) -> Iterator[Path]:
    partition = log_dir("current") / "orders-0"
    for number, base_offset in enumerate((0, 395, 790)):
        yield aiven_copy(root, partition, base_offset, number=number)


def test_plain_copies_of_aivens_plugin_are_read(tmp_path: Path) -> None:
    logs = list(aiven(tmp_path / "prefix"))
    for path in (tmp_path / "prefix", logs[0].parent.parent, logs[0].parent):
        source = open_source(str(path))
        view = source.partitions()["orders-0"].view()
        assert offsets_of(view) == list(range(1000))
        assert (view.topic_id, view.segment_at(0).file.path) == (TOPIC_ID, str(logs[0]))
        assert [each for each in findings(source) if each.severity != "note"] == []
    assert offsets_of(view_of(logs[1])) == list(range(395, 790))


def test_without_its_manifest_a_plain_copy_is_read_to_find_its_end(tmp_path: Path) -> None:
    logs = list(aiven(tmp_path))
    for log in logs:
        log.with_suffix(".rsm-manifest").unlink()
    (tmp_path / "stray").mkdir()
    assert offsets_of(view_of(tmp_path)) == list(range(1000))
    found = [(each.rule, each.file) for each in findings(open_source(str(tmp_path)))]
    missing = [("file-unreadable", str(log.with_suffix(".rsm-manifest"))) for log in logs]
    assert [each for each in found if each[0] == "file-unreadable"] == missing


@pytest.mark.parametrize("number", ["1e999", "NaN", '"x"', "[]", "9" * 5000])
@pytest.mark.parametrize("name", ["originalFileSize", "endOffset"])
def test_a_manifest_with_a_number_that_is_none_is_as_good_as_missing(
    name: str, number: str, tmp_path: Path
) -> None:
    for log in aiven(tmp_path):
        beside = log.with_suffix(".rsm-manifest")
        text = re.sub(rf'("{name}": )\d+', rf"\g<1>{number}", beside.read_text())
        assert number in text
        beside.write_text(text)
    assert offsets_of(view_of(tmp_path)) == list(range(1000))


# What is no tiered copy


@pytest.mark.parametrize("name", [f"t-0-{'a' * 20}-1", f"t-{'a' * 20}-1", f"a-{'b' * 22}-0"])
def test_a_log_dir_with_names_like_those_of_tiered_storage_stays_one(
    name: str, tmp_path: Path
) -> None:
    shutil.copytree(log_dir("current") / "orders-0", tmp_path / name)
    source = open_source(str(tmp_path))
    assert list(source.partitions()) == [name]
    assert source.partitions()[name].view().log_end_offset == 1000
    assert open_source(str(tmp_path / name)).partitions()[name].view().log_end_offset == 1000


def test_a_brokers_log_dir_is_one_whatever_else_lies_in_it(tiered: TieredWriter) -> None:
    tiered.copy_all(log_dir("current") / "orders-0")
    (tiered.root / "meta.properties").write_text("version=1\n")
    source = open_source(str(tiered.root))
    assert list(source.partitions()) == []
    assert [other.name for other in source.others] == [tiered.folder.name]


@pytest.mark.parametrize("seed", range(10))
def test_whatever_the_copies_each_offset_is_shown_once(
    seed: int, tiered: TieredWriter, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    covered = set()
    for number in range(8):
        start, count = chance.randrange(40), chance.randrange(1, 25)
        tiered.copy(written(tmp_path / f"log-{number}", (0, count), start=start), start)
        covered |= set(range(start, start + count))
    view = view_of(tiered.root)
    assert offsets_of(view) == sorted(covered)
    segments = [view.segment_at(place) for place in range(len(view))]
    assert all(left.next_offset <= right.base_offset for left, right in pairwise(segments))
