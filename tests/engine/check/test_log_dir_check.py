"""Whole sources: undamaged ones have no findings but notes, a live one never a false alarm, and what is beside logs."""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.check.log_dir_check import CheckOptions, CheckProgress, SourceCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.coding.compression import CompressionType
from engine.files.source_files import SourceFile
from engine.log.log_directory import open_source
from engine.verdict.gap_causes.gap_evidence import gather
from engine.verdict.gap_causes.gaps import Evidence, OffsetGap, classify, without
from tests.builders import Rec, any_batch, batch, values
from tests.engine.check.logs import (
    Clock,
    bad,
    change,
    found,
    keyed,
    log_of,
    look,
    numbered,
    of_rule,
    plain,
    write,
)
from tests.engine.log.folders import LogWriter
from tests.fixtures_data import KINDS, copy_of, log_dir


@pytest.mark.parametrize("kind", [*KINDS, "sample"])
def test_what_brokers_left_has_no_errors_or_warnings(kind: str) -> None:
    # Folders were left out of the test data, which the checkpoints name, and first segments of crash-0.
    expected = {"checkpoint-without-folder", "partition-lost"}
    if kind == "crashed":
        expected |= {"torn-tail", "log-start-short"}
    findings = {finding.rule for finding in bad(found(log_dir(kind)))}
    assert findings <= expected


def test_progress_goes_on_beside_the_records(tmp_path: Path) -> None:
    write(tmp_path / "t-0", {0: [plain(0)], 5: [plain(5)]})
    source = open_source(str(tmp_path))
    events = [event for event in SourceCheck(source).run() if isinstance(event, CheckProgress)]
    source.close()
    steps = [event.file for event in events if event.file]
    count = len(steps) - 1
    assert count > 4
    assert steps == [
        f"indexes, snapshots and checkpoints: {done} of {count} checks" for done in range(count + 1)
    ]
    assert all(event.size for event in events if not event.file)


def test_nothing_below_a_source_is_changed(tmp_path: Path) -> None:
    copy = copy_of("live", tmp_path)
    before = {path: (path.stat(), path.read_bytes()) for path in copy.rglob("*") if path.is_file()}
    found(copy)
    for path, (status, data) in before.items():
        now = path.stat()
        assert (now.st_mtime_ns, now.st_ctime_ns, now.st_ino) == (
            status.st_mtime_ns, status.st_ctime_ns, status.st_ino,
        )  # fmt: skip
        assert path.read_bytes() == data
    assert {path for path in copy.rglob("*") if path.is_file()} == set(before)


def test_gaps_of_a_compacted_topic_are_notes() -> None:
    findings = of_rule(found(log_dir("current")), "gap-compaction")
    assert [finding.partition for finding in findings] == ["compacted-0"]
    assert findings[0].severity is Severity.NOTE


def test_a_batch_removed_from_a_compacted_topic_that_was_not_compacted_yet_is_missed(
    tmp_path: Path,
) -> None:
    copy = copy_of("current", tmp_path, ["__consumer_offsets-0"])
    log = log_of(copy / "__consumer_offsets-0")
    size = int.from_bytes(log.read_bytes()[8:12], "big") + 12
    second = int.from_bytes(log.read_bytes()[size + 8 : size + 12], "big") + 12
    change(log, lambda data: data.__delitem__(slice(size, size + second)))
    rules = {finding.rule for finding in found(copy)}
    assert rules & {"gap-unexplained", "gap-compaction"}


def test_the_topics_policy_is_asked(tmp_path: Path) -> None:
    copy = copy_of("current", tmp_path, ["__cluster_metadata-0", "codec-gzip-0", "compacted-0"])
    log = log_of(copy / "codec-gzip-0")
    size = int.from_bytes(log.read_bytes()[8:12], "big") + 12
    change(log, lambda data: data.__delitem__(slice(0, size)))
    (lost,) = of_rule(found(copy), "gap-loss")
    assert lost.first_offset == 0
    assert "compacted" in lost.sentence or "producer" in lost.sentence


def _entries(tmp_path: Path) -> Path:
    folder = tmp_path / "dir"
    write(folder / "t-0", {0: [plain(0)]})
    (folder / "meta.properties").write_text(
        "version=1\ncluster.id=c\nnode.id=1\n", encoding="ascii"
    )
    return folder


def test_what_lies_beside_partitions_is_told(tmp_path: Path) -> None:
    folder = _entries(tmp_path)
    (folder / "link-0").symlink_to(tmp_path)
    (folder / "lost+found").mkdir()
    (folder / "notes.txt").touch()
    os.mkfifo(folder / "fifo")
    write(folder / "t-1.0123456789abcdef0123456789abcdef-delete", {0: [plain(0)]})
    write(folder / "a b-0", {0: [plain(0)]})
    rules = {
        finding.file.rpartition("/")[2]: finding.rule
        for finding in found(folder)
        if finding.position is None
    }
    assert rules["link-0"] == "file-link"
    assert rules["lost+found"] == "file-name"
    assert rules["notes.txt"] == "file-other"
    assert rules["fifo"] == "file-kind"
    assert rules["t-1.0123456789abcdef0123456789abcdef-delete"] == "folder-apart"
    assert rules["a b-0"] == "topic-name"


def test_a_partition_in_two_log_dirs_is_told(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one", "two")]
    for path in paths:
        write(path / "t-0", {0: [plain(0)]})
    source = open_source([str(path) for path in paths])
    events = SourceCheck(source, CheckOptions(clock=Clock())).run()
    (finding,) = [
        each for each in events if isinstance(each, Finding) and each.rule == "folder-twice"
    ]
    assert finding.file == str(paths[1] / "t-0")


def test_records_below_the_log_start_are_a_note(tmp_path: Path) -> None:
    folder = _entries(tmp_path)
    write(folder / "t-0", {0: [plain(0), plain(10)]})
    (folder / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n", encoding="ascii")
    rules = [finding.rule for finding in found(folder / "t-0") if finding.file.endswith(".log")]
    assert rules == ["gap-retention", "below-log-start"]


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make a file that root cannot open by its kind"
)
def test_a_file_that_cannot_be_read_is_told_and_the_rest_is_checked(tmp_path: Path) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(0)], 5: [plain(5)], 10: [plain(10)]})
    change(log_of(folder, 10), lambda data: data.__setitem__(80, 0xFF))
    source = open_source(str(folder))
    (log,) = source.partitions().values()
    log.view()
    log_of(folder, 5).unlink()
    log_of(folder, 5).mkdir()
    events = list(SourceCheck(source, CheckOptions(clock=Clock())).run())
    rules = [event.rule for event in events if isinstance(event, Finding)]
    assert "file-kind" in rules
    assert "batch-checksum" in rules


def test_a_producer_whose_batches_are_below_the_log_start_may_begin_anew(tmp_path: Path) -> None:
    folder = _entries(tmp_path)
    write(folder / "t-0", {0: [numbered(0, 0), plain(5), numbered(10, 0)]})
    assert of_rule(found(folder / "t-0"), "producer-sequence")
    (folder / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n", encoding="ascii")
    assert of_rule(found(folder / "t-0"), "producer-sequence") == []


def test_progress_counts_every_byte(tmp_path: Path) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(0), plain(5)], 10: [plain(10)]})
    change(log_of(folder), lambda data: data.__setitem__(80, 0xFF))
    checking = SourceCheck(open_source(str(folder)), CheckOptions(clock=Clock()))
    size = sum(path.stat().st_size for path in folder.glob("*.log"))
    events = list(checking.run())
    assert sum(event.size for event in events if isinstance(event, CheckProgress)) == size
    assert checking.size() == size


def test_a_summary_counts_what_was_looked_at(tmp_path: Path) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(0), plain(5)], 10: [plain(10)]})
    _, (summary,) = look(folder)
    assert (summary.segments, summary.batches, summary.records) == (2, 3, 15)
    assert (summary.log_start_offset, summary.log_end_offset) == (0, 15)
    assert summary.size == sum(path.stat().st_size for path in folder.glob("*.log"))


# Gaps


@pytest.mark.parametrize(
    ("facts", "rule", "certain"),
    [
        ({"log_start_offset": 20}, "gap-retention", True),
        ({"cleaned_to": 20}, "gap-compaction", True),
        ({"cleaned_to": 20, "keyless": 3}, "gap-compaction", True),
        ({"cleaned_to": 12, "keyless": 3}, "gap-loss", False),
        ({"cleaned_to": 20, "keyless": 30}, "gap-compaction", True),
        ({"cleaned_to": 12}, "gap-compaction", False),
        ({"marked_to": 50}, "gap-compaction", True),
        ({"policy": frozenset({"compact"})}, "gap-compaction", False),
        ({"cleaned_to": 20, "orphans": (12,)}, "gap-loss", True),
        ({"orphans": (15,)}, "gap-unexplained", False),
        ({"policy": frozenset({"delete"})}, "gap-loss", False),
        ({"policy": frozenset({"delete"}), "has_unique_keys": True}, "gap-unexplained", False),
        (
            {"policy": frozenset({"delete"}), "keyless": 40, "has_unique_keys": True},
            "gap-loss",
            False,
        ),
        ({"keyless": 40}, "gap-loss", False),
        ({"topic": "__consumer_offsets"}, "gap-compaction", False),
        ({}, "gap-unexplained", False),
    ],
)
def test_a_gap_is_explained_by_what_is_known(
    facts: dict[str, object], rule: str, certain: bool
) -> None:
    evidence = Evidence(**({"topic": "t", "log_start_offset": 0} | facts))  # type: ignore[arg-type]
    assert classify(OffsetGap(10, 15, 0), evidence)[:2] == (rule, certain)


def test_a_segment_that_is_gone_is_a_loss_when_its_index_is_there(tmp_path: Path) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(0)], 5: [plain(5)], 10: [plain(10)]})
    log_of(folder, 5).unlink()
    (gap,) = of_rule(found(folder), "gap-loss")
    assert (gap.first_offset, gap.next_offset, gap.facts["certain"]) == (5, 10, True)
    assert gap.file.endswith("00010.log")


def test_many_gaps_of_a_log_whose_keys_are_unique_are_taken_for_compactions(tmp_path: Path) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(base) for base in range(0, 200, 10)]})
    (finding,) = [each for each in found(folder) if each.rule.startswith("gap-")]
    assert (finding.rule, finding.facts["certain"]) == ("gap-compaction", False)


@pytest.mark.parametrize(
    ("batches", "rule"),
    [
        ([plain(base) for base in range(0, 200, 10)], "gap-unexplained"),
        ([batch([Rec(b"value", b"key")], base) for base in range(0, 200, 10)], "gap-loss"),
    ],
    ids=["unique keys", "repeated keys"],
)
def test_a_topic_that_is_not_compacted_now_may_have_been_if_no_key_is_repeated(
    tmp_path: Path, batches: list[bytes], rule: str
) -> None:
    write(tmp_path / "t-0", {0: batches})
    with closing(open_source([str(tmp_path)])) as source:
        view = source.partitions()["t-0"].view()
        evidence, gaps = gather(view, frozenset({"delete"}))
        assert {classify(gap, evidence).rule for gap in gaps} == {rule}


def test_legacy_wrappers_that_lost_records_tell_of_compaction(tmp_path: Path) -> None:
    gzip = CompressionType.GZIP
    batches = [any_batch(keyed(*at), at[0], gzip, magic=1) for at in ((0, 1), (7, 9), (10, 11))]
    folder = write(tmp_path / "t-0", {0: batches})
    (finding,) = [each for each in found(folder) if each.rule.startswith("gap-")]
    assert (finding.rule, finding.first_offset, finding.next_offset) == ("gap-compaction", 2, 7)


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_messages_have_their_offsets_from_their_wrapper(magic: int, tmp_path: Path) -> None:
    gzip = CompressionType.GZIP
    batches = [any_batch(keyed(*range(at, at + 4)), at, gzip, magic=magic) for at in (0, 4, 8)]
    folder = write(tmp_path / "t-0", {0: batches})
    assert [each for each in bad(found(folder)) if each.file.endswith(".log")] == []
    change(log_of(folder), lambda data: data.__setitem__(7, data[7] ^ 64))
    rules = {each.rule for each in bad(found(folder)) if each.file.endswith(".log")}
    assert rules & {"records-offsets", "offset-order"}


def test_one_records_file_is_checked_alone_whatever_its_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(0)], 5: [plain(5)]})
    assert bad(found(log_of(folder, 0))) == []
    shutil.copy(log_of(folder, 5), tmp_path / "loose.log")
    findings, (summary,) = look(tmp_path / "loose.log")
    assert bad(findings) == []
    assert summary.records == 5


def test_a_device_that_fails_costs_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(0)], 5: [plain(5)], 10: [plain(10)]})
    change(log_of(folder, 10), lambda data: data.__setitem__(80, 0xFF))
    read_at = SourceFile.read_at

    def fails(file: SourceFile, position: int, size: int) -> bytes:
        if file.name == log_of(folder, 5).name:
            raise OSError(errno.EIO, "Input/output error")
        return read_at(file, position, size)

    monkeypatch.setattr(SourceFile, "read_at", fails)
    rules = {(each.rule, each.file.rpartition("/")[2]) for each in bad(found(folder))}
    assert ("file-unreadable", log_of(folder, 5).name) in rules
    assert ("batch-checksum", log_of(folder, 10).name) in rules


def test_batches_out_of_their_place_fill_gaps() -> None:
    gaps = [OffsetGap(10, 20, 0), OffsetGap(30, 40, 0)]
    assert without(gaps, [(12, 15), (25, 35)]) == [
        OffsetGap(10, 12, 0),
        OffsetGap(15, 20, 0),
        OffsetGap(35, 40, 0),
    ]


def test_a_key_that_comes_again_speaks_against_compaction(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    write(folder, {0: [plain(0), batch([Rec(b"v", b"key 00001")], 5), plain(10)]})
    (finding,) = of_rule(found(folder), "gap-unexplained")
    assert "the key at offset 1 is repeated at offset 5" in finding.sentence


# Live


def _written(writer: LogWriter, stop: threading.Event) -> None:
    chosen = random.Random(3)
    while not stop.is_set():
        data = batch(values(*("x" * chosen.randrange(400) for _ in range(5))), writer.next_offset)
        half = chosen.randrange(len(data))
        with writer.records_file.open("ab", buffering=0) as file:
            file.write(data[:half])
            stop.wait(0.0005)
            file.write(data[half:])
        writer.next_offset += 5
        if chosen.random() < 0.02:
            writer.base_offset = writer.next_offset
            writer.records_file.touch()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogWriter]:
    made = LogWriter(tmp_path / "dir")
    stop = threading.Event()
    thread = threading.Thread(target=_written, args=(made, stop))
    thread.start()
    yield made
    stop.set()
    thread.join()


def test_a_log_that_grows_and_rolls_gives_no_false_alarm(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.files.source_files.SourceRoot.broker_pid", lambda self: 1)
    source = open_source(str(writer.log_dir))
    options = CheckOptions(second_look_after=0.01)
    own = {"index", "time-index", "epochs", "snapshot"}
    for _ in range(12):
        events = list(SourceCheck(source, options).run())
        alarms = [
            event
            for event in events
            if isinstance(event, Finding)
            and event.severity is not Severity.NOTE
            and not any(event.rule.startswith(name) for name in own)
        ]
        assert alarms == []
        assert any(not isinstance(event, Finding | CheckProgress) for event in events)


def test_damage_in_a_live_log_is_found_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.files.source_files.SourceRoot.broker_pid", lambda self: 1)
    folder = write(tmp_path / "dir" / "t-0", {0: [plain(0), plain(5)], 10: [plain(10)]})
    change(log_of(folder), lambda data: data.__setitem__(80, 0xFF))
    options = CheckOptions(second_look_after=0.0, clock=Clock())
    events = list(SourceCheck(open_source(str(tmp_path / "dir")), options).run())
    assert (
        len(
            [each for each in events if isinstance(each, Finding) and each.rule == "batch-checksum"]
        )
        == 1
    )


def test_what_a_second_look_does_not_find_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.files.source_files.SourceRoot.broker_pid", lambda self: 1)
    folder = write(tmp_path / "dir" / "t-0", {0: [plain(0), plain(5)], 10: [plain(10)]})
    sound = log_of(folder).read_bytes()
    change(log_of(folder), lambda data: data.__setitem__(80, 0xFF))
    monkeypatch.setattr("time.sleep", lambda seconds: log_of(folder).write_bytes(sound))
    options = CheckOptions(clock=Clock())
    events = SourceCheck(open_source(str(tmp_path / "dir")), options).run()
    assert [
        each for each in events if isinstance(each, Finding) and each.rule == "batch-checksum"
    ] == []


def test_a_partition_that_is_deleted_meanwhile_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.files.source_files.SourceRoot.broker_pid", lambda self: 1)
    folder = write(tmp_path / "dir" / "t-0", {0: [plain(0)]})
    source = open_source(str(tmp_path / "dir"))
    source.partitions()
    shutil.rmtree(folder)
    assert [
        each for each in SourceCheck(source).run() if isinstance(each, Finding) and each.partition
    ] == []
