"""What the check says of indexes, snapshots, epochs, checkpoints and ids: each rule, at its place."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.state.producer_snapshot import ProducerSnapshot
from engine.state.producer_state_entry import ProducerStateEntry
from tests import fixtures_data
from tests.builders import batch, control_batch, values, write_segment
from tests.engine.check.files.side_logs import (
    TOPIC_ID,
    Edit,
    files,
    log_dir,
    of,
    put,
    rules,
    write_checkpoint,
)
from tests.engine.check.logs import SIDE_FILE_RULES, bad, change, found, plain, write

EPOCHS = "side-0/leader-epoch-checkpoint"
METADATA = "side-0/partition.metadata"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return log_dir(tmp_path / "dir")


def hurt(folder: Path, suffix: str, edit: Edit, place: int = 1) -> Path:
    """Edit one of the partition's files."""
    path = files(folder, suffix)[place]
    change(path, edit)
    return path


def test_a_log_of_our_own_has_nothing_wrong(folder: Path) -> None:
    assert not found(folder)
    assert len(files(folder, ".log")) > 2
    assert files(folder, ".txnindex")


@pytest.mark.parametrize("kind", ["current", "live", "crashed", "legacy"])
def test_what_brokers_left_has_nothing_wrong(kind: str) -> None:
    # Of the other partitions only the lines in the checkpoints were kept, of crash-0 only the last segments.
    expected = {"checkpoint-without-folder", "partition-lost"}
    expected |= {"log-start-short"} if kind == "crashed" else set()
    findings = bad(found(fixtures_data.log_dir(kind)))
    assert {each.rule for each in findings} <= expected


# -- offset index


@pytest.mark.parametrize(
    ("edit", "rule", "position"),
    [
        (
            lambda data: put(">i", 12, struct.unpack_from(">i", data, 12)[0] + 1)(data),
            "index-position",
            8,
        ),
        (put(">i", 8, 1), "index-order", 0),
        (put(">i", 12, -7), "index-order", 8),
        (put(">i", 8, -1), "index-order", 8),
        (lambda data: data.extend(b"\1\2\3"), "index-length", None),
        (lambda data: put(">i", len(data) - 4, 1 << 30)(data), "index-past-end", None),
    ],
)
def test_an_offset_index_is_held_to_its_segment(
    folder: Path, edit: Edit, rule: str, position: int | None
) -> None:
    path = hurt(folder, ".index", edit)
    finding = of(folder, rule)
    assert finding.file == str(path)
    if position is not None:
        assert finding.position == position
    assert rules(folder) <= {rule, "index-misses-records"}


def test_an_entry_behind_its_records_would_miss_them(folder: Path) -> None:
    path = files(folder, ".index")[1]
    relative, position, _, following = struct.unpack(">iiii", path.read_bytes()[:16])
    change(path, put(">ii", 0, relative, following))
    assert "index-misses-records" in rules(folder)
    finding = of(folder, "index-misses-records")
    assert finding.position == 0
    assert finding.severity is Severity.ERROR
    base = int(path.stem)
    assert finding.first_offset <= base + relative < (finding.next_offset or 0)
    assert position < following


def test_an_index_that_names_the_end_of_a_whole_append_is_right(folder: Path) -> None:
    # Brokers before 4.1 gave the first batch of an append the last offset of all of them.
    path = files(folder, ".index")[1]
    data = path.read_bytes()
    relative, position = struct.unpack(">ii", data[:8])
    change(path, put(">ii", 0, relative + 4, position))
    assert not rules(folder)
    change(path, put(">ii", 0, relative + 3, position))
    assert not rules(folder)  # nothing tells it from a batch that compaction shrank later


def test_zeros_behind_an_index_are_room(folder: Path) -> None:
    hurt(folder, ".index", lambda data: data.extend(bytes(8000)), place=-1)
    hurt(folder, ".timeindex", lambda data: data.extend(bytes(12_000)), place=-1)
    assert not rules(folder)


def test_an_index_that_is_gone_costs_a_rebuild(folder: Path) -> None:
    files(folder, ".index")[1].unlink()
    assert rules(folder) == {"index-missing"}


def test_batches_that_went_since_the_index_was_made_are_seen_by_it(folder: Path) -> None:
    log = files(folder, ".log")[1]
    data = log.read_bytes()
    size = struct.unpack_from(">i", data, 8)[0] + 12
    log.write_bytes(data[:size] + data[2 * size :])
    finding = of(folder, "log-moved")
    assert finding.file == str(log)
    assert finding.position <= size <= finding.position + (finding.length or 0)
    assert f"{size} bytes are missing" in finding.sentence


# -- time index


@pytest.mark.parametrize(
    ("edit", "rule", "position"),
    [
        (put(">q", 12, 5), "time-index-order", 0),
        (put(">i", 20, -1), "time-index-order", 12),
        (lambda data: put(">q", 12, struct.unpack_from(">q", data, 12)[0] + 1)(data), "time-index-entry", 12),
        (lambda data: put(">q", 12, struct.unpack_from(">q", data, 12)[0] - 1500)(data), "time-index-misses-records", 12),
        (lambda data: put(">i", len(data) - 4, 1 << 20)(data), "index-past-end", None),
        (lambda data: data.extend(b"\1"), "index-length", None),
    ],
)  # fmt: skip
def test_a_time_index_is_held_to_its_segment(
    folder: Path, edit: Edit, rule: str, position: int | None
) -> None:
    path = hurt(folder, ".timeindex", edit)
    found_rules = rules(folder)
    assert rule in found_rules
    finding = of(folder, rule)
    assert finding.file == str(path)
    if position is not None:
        assert finding.position == position


def test_a_time_index_without_its_last_entry_hides_the_segment(folder: Path) -> None:
    hurt(folder, ".timeindex", lambda data: data.__delitem__(slice(-12, None)))
    finding = of(folder, "time-index-misses-records")
    assert "skip the segment" in finding.sentence


def test_after_a_crash_the_last_time_index_need_not_be_complete(tmp_path: Path) -> None:
    folder = log_dir(tmp_path / "dir", clean=False)
    hurt(folder, ".timeindex", lambda data: data.__delitem__(slice(-12, None)), place=-1)
    assert not rules(folder)


@pytest.mark.parametrize("empties", [False, True])
def test_a_time_index_that_is_gone_is_missed(folder: Path, empties: bool) -> None:
    path = files(folder, ".timeindex")[1]
    path.write_bytes(b"") if empties else path.unlink()
    assert rules(folder) == {"time-index-missing"}


def test_an_entry_of_nothing_but_zeros_is_one_where_the_largest_timestamp_is_0(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "side-0", {0: [batch(values("a", timestamp=0), 0)], 1: [plain(1)]})
    index = folder / f"{0:020}.timeindex"
    for zeros, findings in ((12, set()), (0, {"time-index-missing"})):
        index.write_bytes(bytes(zeros))
        assert {each.rule for each in bad(found(folder))} == findings


# -- transaction index


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (put(">q", 2, 99), "txn-index-entry"),
        (lambda data: put(">q", 10, struct.unpack_from(">q", data, 10)[0] + 1)(data), "txn-index-entry"),
        (lambda data: put(">q", 18, struct.unpack_from(">q", data, 18)[0] + 1)(data), "txn-index-extra"),
        (lambda data: put(">q", 26, struct.unpack_from(">q", data, 26)[0] - 1)(data), "txn-index-entry"),
        (put(">h", 0, 3), "txn-index-entry"),
        (lambda data: data.extend(bytes(34)), "txn-index-extra"),
        (lambda data: data.extend(bytes(10)), "index-length"),
    ],
)  # fmt: skip
def test_a_transaction_index_is_held_to_the_markers(folder: Path, edit: Edit, rule: str) -> None:
    path = hurt(folder, ".txnindex", edit, place=0)
    findings = [each for each in bad(found(folder)) if each.rule == rule]
    assert findings
    assert findings[0].file == str(path)
    assert findings[0].position is not None


def test_an_aborted_transaction_without_an_entry_would_be_served(folder: Path) -> None:
    path = files(folder, ".txnindex")[0]
    first, last = struct.unpack_from(">qq", path.read_bytes(), 10)
    path.unlink()
    finding = of(folder, "txn-index-missing")
    assert finding.severity is Severity.ERROR
    assert (finding.first_offset, finding.next_offset) == (first, last + 1)


def test_a_transaction_below_the_log_start_needs_no_entry_and_one_above_it_does(
    folder: Path,
) -> None:
    path = files(folder, ".txnindex")[0]
    first, last = struct.unpack_from(">qq", path.read_bytes(), 10)
    entry = path.read_bytes()
    path.write_bytes(b"")
    middle = (first + last) // 2
    write_checkpoint(folder, "log-start", f"side 0 {middle}")
    finding = of(folder, "txn-index-missing")
    assert finding.severity is Severity.ERROR
    assert first < (finding.first_offset or 0) <= last

    # A broker that recovers the log from its start on finds the transaction begin there.
    found_first = struct.pack(">q", finding.first_offset or 0)
    path.write_bytes(entry[:10] + found_first + entry[18:])
    assert "txn-index-entry" not in rules(folder)

    path.write_bytes(b"")
    write_checkpoint(folder, "log-start", f"side 0 {last}")
    assert "txn-index-missing" not in rules(folder)


# -- producer snapshots


def rewritten(path: Path, change_entries: object) -> None:
    """A snapshot whose checksum is right, and whose entries are others."""
    entries = ProducerSnapshot.parse(path.read_bytes())
    path.write_bytes(ProducerSnapshot.render(change_entries(entries)))  # type: ignore[operator]


def with_field(name: str, value: object) -> object:
    def edit(entries: list[ProducerStateEntry]) -> list[ProducerStateEntry]:
        setattr(entries[0], name, value)
        return entries

    return edit


def test_a_broken_snapshot_is_passed_over_by_a_broker(folder: Path) -> None:
    path = files(folder, ".snapshot")[-1]
    change(path, lambda data: data.__setitem__(-1, data[-1] ^ 1))
    finding = of(folder, "snapshot-unreadable")
    assert finding.file == str(path)
    assert rules(folder) == {"snapshot-unreadable"}


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("producer_epoch", 3, "snapshot-producer"),
        ("last_timestamp", 5, "snapshot-producer"),
        ("current_txn_first_offset", 2, "snapshot-transactions"),
        ("current_txn_first_offset", 1 << 40, "snapshot-transactions"),
    ],
)
def test_a_snapshot_is_held_to_the_batches(
    folder: Path, name: str, value: object, rule: str
) -> None:
    path = files(folder, ".snapshot")[-1]
    rewritten(path, with_field(name, value))
    assert rules(folder) == {rule}
    assert of(folder, rule).file == str(path)


def test_a_snapshot_may_have_forgotten_a_producer_but_not_its_open_transaction(
    folder: Path,
) -> None:
    last = files(folder, ".snapshot")[-1]
    rewritten(last, lambda entries: [])
    assert not rules(folder)
    for path in files(folder, ".snapshot"):
        entries = ProducerSnapshot.parse(path.read_bytes())
        if any(entry.current_txn_first_offset is not None for entry in entries):
            rewritten(path, lambda entries: [])
            break
    assert rules(folder) == {"snapshot-transactions"}


def test_without_any_snapshot_a_clean_stop_forgets_the_producers(folder: Path) -> None:
    for path in (folder / "side-0").glob("*.snapshot"):
        path.unlink()
    assert rules(folder) == {"snapshot-missing"}
    (folder / ".kafka_cleanshutdown").unlink()
    assert not rules(folder)


def test_a_snapshot_of_no_segment_is_noted(folder: Path) -> None:
    (folder / "side-0" / f"{17:020}.snapshot").write_bytes(ProducerSnapshot.render([]))
    assert of(folder, "snapshot-stray").severity is Severity.NOTE


# -- leader epochs


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("0\n3\n0 0\n1 239\n4 521\n", "epoch-batch"),
        ("0\n3\n0 0\n1 240\n3 517\n", "epochs-contradict"),
        ("0\n3\n0 0\n4 240\n1 517\n", "epochs-order"),
        ("0\n2\n0 0\n1 240\n4 517\n", "epochs-unreadable"),
        ("0\n1\n0 -5\n", "epochs-unreadable"),
        ("0\n3\n0 9\n1 240\n4 517\n", "epochs-start"),
        ("0\n4\n0 0\n1 240\n4 517\n5 99999\n", "epochs-past-end"),
        ("", "epochs-missing"),
        (None, "epochs-missing"),
    ],
)
def test_the_leader_epochs_are_held_to_the_batches(
    folder: Path, text: str | None, rule: str
) -> None:
    path = folder / EPOCHS
    assert path.read_text().splitlines()[2:4] == ["0 0", "1 240"]
    path.unlink() if text is None else path.write_text(text)
    assert rule in rules(folder)


@pytest.mark.parametrize("epoch", [7, 0, -5, -1])
def test_a_batch_of_another_leader_epoch_is_found_where_it_is(folder: Path, epoch: int) -> None:
    log = files(folder, ".log")[-1]
    size = struct.unpack_from(">i", log.read_bytes(), 8)[0] + 12
    change(log, put(">i", size + 12, epoch))
    findings = [each for each in bad(found(folder)) if each.rule == "epoch-batch"]
    assert [each.position for each in findings] == [size]


# -- checkpoints


@pytest.mark.parametrize(
    ("what", "line", "rule"),
    [
        ("recovery-point", "side 0 99999", "recovery-point-past-end"),
        ("recovery-point", "side 0 5", "recovery-point-short"),
        ("recovery-point", "other 0 5", "checkpoint-without-folder"),
        ("recovery-point", "side 0 x", "checkpoint-unreadable"),
        ("replication", "side 1 5", "high-watermark-missing"),
        ("replication", "side 0 99999", "high-watermark-past-end"),
        ("replication", "side 0 -4", "checkpoint-negative"),
        ("log-start", "side 0 99999", "log-start-past-end"),
        ("log-start", "side 0 77", "log-start-epochs"),
        ("cleaner", "side 0 99999", "cleaner-offset"),
    ],
)
def test_checkpoints_are_held_to_the_log(folder: Path, what: str, line: str, rule: str) -> None:
    write_checkpoint(folder, what, line)
    findings = [each for each in bad(found(folder)) if each.rule == rule]
    assert findings
    assert Path(findings[0].file).name.startswith(what)


def test_a_partition_without_a_recovery_point_was_not_there_at_the_stop(folder: Path) -> None:
    write_checkpoint(folder, "recovery-point")
    assert rules(folder) == {"folder-without-checkpoint"}


def test_a_partition_that_is_named_twice_is_found(folder: Path) -> None:
    line = (folder / "recovery-point-offset-checkpoint").read_text().splitlines()[2]
    write_checkpoint(folder, "recovery-point", line, line)
    assert rules(folder) == {"checkpoint-twice"}


def test_a_high_watermark_below_the_log_start_is_found(folder: Path) -> None:
    write_checkpoint(folder, "log-start", "side 0 240")
    (folder / EPOCHS).write_text("0\n2\n1 240\n4 517\n")
    assert not rules(folder)
    write_checkpoint(folder, "replication", "side 0 100")
    assert rules(folder) == {"high-watermark-before-start"}


def test_a_clean_stop_does_not_go_with_damage(folder: Path) -> None:
    log = files(folder, ".log")[-1]
    change(log, lambda data: data.__delitem__(slice(-5, None)))
    finding = of(folder, "clean-shutdown-damage")
    assert finding.file == str(log)
    (folder / ".kafka_cleanshutdown").write_text("no JSON")
    assert "clean-shutdown-unreadable" in rules(folder)
    (folder / ".kafka_cleanshutdown").unlink()
    assert "clean-shutdown-damage" not in rules(folder)


def test_meta_properties_is_read_and_compared_with_other_log_dirs(
    folder: Path, tmp_path: Path
) -> None:
    from tests.engine.check.logs import CheckOptions, Clock, SourceCheck, open_source

    other = tmp_path / "other"
    other.mkdir()
    text = (folder / "meta.properties").read_text()
    (other / "meta.properties").write_text(text)
    (other / "recovery-point-offset-checkpoint").write_text("0\n0\n")

    def said() -> list[str]:
        source = open_source([str(folder), str(other)])
        events = SourceCheck(source, CheckOptions(clock=Clock())).run()
        return [
            e.sentence for e in events if isinstance(e, Finding) and e.rule == "meta-properties"
        ]

    assert ["directory.id" in each for each in said()] == [True]
    (other / "meta.properties").write_text(
        text.replace("node.id=1", "node.id=2").replace("AAg", "AAQ").replace("Jbg", "JbQ")
    )
    assert len(said()) == 2
    (folder / "meta.properties").write_text("version=9\n")
    assert "meta-properties" in rules(folder)


def test_the_election_is_not_older_than_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    write_segment(folder, [control_batch(2, b"\0\0\0\0\0\0\0\0", leader_epoch=4)])
    state = '{"leaderId":1,"leaderEpoch":%d,"votedId":-1,"data_version":1}'
    (folder / "quorum-state").write_text(state % 4)
    assert "quorum-state" not in rules(folder)
    (folder / "quorum-state").write_text(state % 3)
    assert "quorum-state" in rules(folder)
    (folder / "quorum-state").write_text("{}")
    assert "quorum-state" in rules(folder)


def test_snapshots_of_the_cluster_metadata_are_whole(tmp_path: Path) -> None:
    folder = fixtures_data.copy_of("current", tmp_path, ["__cluster_metadata-0"])
    bootstrap = folder / "bootstrap.checkpoint"
    whole = bootstrap.read_bytes()
    (folder / "__cluster_metadata-0" / f"{9:020}-{1:010}.checkpoint").write_bytes(whole)
    assert not [each for each in found(folder) if each.rule == "kraft-snapshot"]
    change(bootstrap, lambda data: data.__setitem__(100, data[100] ^ 1))
    finding = of(folder, "kraft-snapshot")
    assert finding.file == str(bootstrap)
    assert finding.position is not None
    assert finding.position <= 100 < finding.position + (finding.length or 0)
    footer = struct.unpack_from(">i", whole, 8)[0] + 12
    bootstrap.write_bytes(whole[:footer])
    assert "not complete" in of(folder, "kraft-snapshot").sentence
    bootstrap.write_bytes(whole[footer:])
    said = [each.sentence for each in found(folder) if each.rule == "kraft-snapshot"]
    assert any("header" in sentence for sentence in said)
    bootstrap.write_bytes(whole)
    change(bootstrap, put(">i", footer + 12, 7))
    finding = of(folder, "kraft-snapshot")
    assert finding.position == footer


# -- unfinished segments


def test_a_complete_new_segment_takes_the_place_of_those_it_covers(folder: Path) -> None:
    first, second, *_ = files(folder, ".log")
    swap = first.with_name(first.name + ".swap")
    swap.write_bytes(first.read_bytes() + second.read_bytes())
    finding = of(folder, "unfinished-replaces")
    assert finding.file == str(swap)
    assert finding.facts["replaced"] == [first.name, second.name]
    assert "unfinished-damaged" not in rules(folder)
    change(swap, lambda data: data.__setitem__(100, data[100] ^ 1))
    assert of(folder, "unfinished-damaged").position == 0


def test_new_segments_that_are_not_all_complete_are_undone(folder: Path) -> None:
    first, second, *_ = files(folder, ".log")
    second.with_name(second.name + ".swap").write_bytes(second.read_bytes())
    first.with_name(first.name + ".cleaned").write_bytes(b"half")
    finding = of(folder, "unfinished-undone")
    assert finding.facts["files"] == [first.name + ".cleaned", second.name + ".swap"]
    assert not [each for each in found(folder) if each.rule == "unfinished-replaces"]


# -- topic ids


def second(folder: Path, name: str, topic_id: str | None) -> None:
    """Another partition's folder."""
    write_segment(folder / name, [plain(0)])
    (folder / name / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    if topic_id is not None:
        (folder / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    lines = (folder / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]
    topic, _, number = name.rpartition("-")
    for checkpoint in ("recovery-point", "replication"):
        write_checkpoint(folder, checkpoint, *lines, f"{topic} {number} 5")


def test_partitions_of_a_topic_have_one_id(folder: Path) -> None:
    second(folder, "side-1", TOPIC_ID)
    second(folder, "side-2", TOPIC_ID)
    assert not rules(folder)
    second(folder, "side-3", "sgf5MsZgRTuEMv68ZXKJbw")
    finding = of(folder, "topic-id-differs")
    assert finding.partition == "side-3"


def test_two_topics_with_one_id_and_none_are_found(folder: Path) -> None:
    second(folder, "copy-0", TOPIC_ID)
    second(folder, "bare-0", None)
    assert rules(folder) == {"topic-id-shared", "topic-id-missing"}


def test_a_topic_id_that_cannot_be_read_is_found(folder: Path) -> None:
    (folder / METADATA).write_text("version: 0\ntopic_id: ???")
    assert rules(folder) == {"topic-id-unreadable"}


def test_topic_ids_are_held_to_the_cluster_metadata(tmp_path: Path) -> None:
    folder = fixtures_data.copy_of("current", tmp_path, ["__cluster_metadata-0", "empty-0"])
    assert not [each for each in bad(found(folder)) if each.rule.startswith("topic")]
    path = folder / "empty-0" / "partition.metadata"
    path.write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    finding = of(folder, "topic-id-differs")
    assert "the cluster metadata says" in finding.sentence
    (folder / "empty-0").rename(folder / "unheard-0")
    assert of(folder, "topic-unknown").severity is Severity.NOTE


def test_each_rule_of_side_files_is_named_in_a_test() -> None:
    texts = [path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py")]
    named = {"index-empty", "index-entry", "snapshot-not-compared"}  # large logs: below
    for rule in SIDE_FILE_RULES:
        assert rule in named or any(f'"{rule}"' in text for text in texts), rule
