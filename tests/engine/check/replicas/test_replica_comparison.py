"""Two copies of a partition: where they diverge, and what is no divergence."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.check.log_check import PartitionSummary
from engine.check.replicas.difference_ranges import MOST_FINDINGS
from engine.check.replicas.replica_comparison import compare_sources
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.coding.compression import CompressionType
from engine.log.log_directory import open_source
from kafkafs.cli.checking import check
from tests import fixtures_data
from tests.builders import NONE, Rec, batch, message_set, write_segment
from tests.engine.check.logs import change

GZIP = CompressionType.GZIP


def records(first: int, stop: int, *, text: str = "v") -> list[Rec]:
    """Records with these offsets."""
    return [
        Rec(b"%s %d" % (text.encode(), at), b"k%d" % at, 1000 + at) for at in range(first, stop)
    ]


def copy(folder: Path, *batches: bytes, epochs: str = "0\n1\n0 0\n") -> Path:
    """A copy of a partition, of one segment."""
    write_segment(folder / "t-0", list(batches))
    (folder / "t-0" / "leader-epoch-checkpoint").write_text(epochs)
    return folder / "t-0"


def plain(
    first: int, stop: int, *, text: str = "v", codec: CompressionType = NONE, epoch: int = 0
) -> bytes:
    return batch(records(first, stop, text=text), first, codec, leader_epoch=epoch)


def compared(one: Path, other: Path) -> tuple[list[Finding], list[PartitionSummary]]:
    events = list(compare_sources(open_source(str(one)), open_source(str(other))))
    return (
        [event for event in events if isinstance(event, Finding)],
        [event for event in events if isinstance(event, PartitionSummary)],
    )


def differences(one: Path, other: Path) -> list[tuple[object, ...]]:
    """Rule, severity and offsets of what is found."""
    return [
        (each.rule, each.severity, each.first_offset, each.next_offset)
        for each in compared(one, other)[0]
    ]


A, B = Path("a"), Path("b")


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_copies_that_are_the_same_differ_in_nothing() -> None:
    for folder in (A, B):
        copy(folder, plain(0, 5), plain(5, 9))
    findings, (summary,) = compared(A / "t-0", B / "t-0")
    assert not findings
    assert (summary.batches, summary.records) == (2, 9)


@pytest.mark.parametrize("kind", ["current", "crashed", "legacy", "live"])
def test_a_log_dir_is_the_same_as_itself(kind: str) -> None:
    path = fixtures_data.log_dir(kind)
    assert not compared(path, path)[0]


def test_the_first_divergent_offset_and_epoch_are_told() -> None:
    copy(A, plain(0, 5), plain(5, 9), plain(9, 12))
    copy(
        B,
        plain(0, 5),
        batch([*records(5, 7), *records(7, 9, text="w")], 5, leader_epoch=3),
        plain(9, 12),
    )
    (finding,), _ = compared(A / "t-0", B / "t-0")
    assert finding.rule == "replica-diverges"
    assert (finding.first_offset, finding.next_offset) == (7, 9)
    assert finding.position == len(plain(0, 5))
    assert finding.facts["mine"]["leaderEpoch"] == 0  # type: ignore[index]
    assert finding.facts["other"]["leaderEpoch"] == 3  # type: ignore[index]
    assert "leader epoch 3: 2 records differ" in finding.sentence


@pytest.mark.parametrize(
    "other",
    [
        [plain(0, 12)],
        [plain(0, 3), plain(3, 7), plain(7, 12)],
        [plain(0, 5, codec=GZIP), plain(5, 12, codec=GZIP)],
        [plain(0, 12, codec=CompressionType.ZSTD)],
    ],
)
def test_the_same_records_in_other_batches_are_no_divergence(other: list[bytes]) -> None:
    copy(A, plain(0, 5), plain(5, 12))
    copy(B, *other)
    expected = [("replica-batching", Severity.NOTE, 0, 12)]
    assert differences(A / "t-0", B / "t-0") == expected
    assert differences(B / "t-0", A / "t-0") == expected


def test_wrappers_of_the_old_format_are_compared_by_their_records() -> None:
    write_segment(A / "t-0", [message_set(records(0, 6), 0, GZIP)])
    halves = [message_set(records(0, 3), 0, GZIP), message_set(records(3, 6), 3, GZIP)]
    write_segment(B / "t-0", halves)
    assert differences(A / "t-0", B / "t-0") == [("replica-batching", Severity.NOTE, 0, 6)]


def test_records_that_one_copy_lacks_are_told_once_for_a_stretch() -> None:
    copy(A, plain(0, 5), plain(5, 9), plain(9, 12), plain(12, 14))
    copy(B, plain(0, 5), plain(12, 14))
    assert differences(A / "t-0", B / "t-0") == [("replica-lacks", Severity.WARNING, 5, 12)]
    (finding,), _ = compared(B / "t-0", A / "t-0")
    assert finding.sentence.startswith("it lacks 7 records")
    assert finding.facts["records"] == 7


def test_records_in_a_batch_that_one_copy_lacks_are_told_too() -> None:
    copy(A, plain(0, 5), plain(5, 9))
    copy(B, plain(0, 5), batch([records(5, 9)[2]._replace(offset=7)], 5, last_offset_delta=3))
    assert differences(A / "t-0", B / "t-0") == [("replica-lacks", Severity.WARNING, 5, 9)]


def test_compaction_is_allowed_to_have_come_further_in_one_copy() -> None:
    for folder, batches in ((A, [plain(0, 5), plain(5, 9)]), (B, [plain(5, 9)])):
        write_segment(folder / "t-0", batches)
        for name in ("recovery-point", "cleaner"):
            (folder / f"{name}-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    assert differences(A, B)[0] == ("replica-lacks", Severity.NOTE, 0, 5)


def test_what_damage_took_from_one_copy_is_said_to_be_damage() -> None:
    copy(A, plain(0, 5), plain(5, 9), plain(9, 12))
    path = copy(B, plain(0, 5), plain(5, 9), plain(9, 12))
    at = len(plain(0, 5)) + 80
    change(path / f"{0:020}.log", lambda data: data.__setitem__(at, data[at] ^ 1))
    (finding,), _ = compared(A / "t-0", B / "t-0")
    assert (finding.rule, finding.first_offset, finding.next_offset) == ("replica-lacks", 5, 9)
    assert f"at position {len(plain(0, 5))}" in finding.sentence


def test_a_later_start_and_an_earlier_end_are_noted() -> None:
    copy(A, plain(0, 5), plain(5, 9), plain(9, 12))
    write_segment(B / "t-0", [plain(5, 9)], 5)
    assert differences(A / "t-0", B / "t-0") == [
        ("replica-range", Severity.NOTE, 0, 5),
        ("replica-range", Severity.NOTE, 9, 12),
    ]
    shutil.rmtree(B)
    write_segment(B / "t-0", [plain(20, 25)], 20)
    assert "replica-lacks" in {each[0] for each in differences(A / "t-0", B / "t-0")}


def test_leader_epochs_and_topic_ids_are_compared() -> None:
    copy(A, plain(0, 5), plain(5, 9, epoch=2), epochs="0\n2\n0 0\n2 5\n")
    path = copy(B, plain(0, 5), plain(5, 9, epoch=2), epochs="0\n2\n0 0\n2 7\n")
    change(
        path / f"{0:020}.log", lambda data: struct.pack_into(">i", data, len(plain(0, 5)) + 12, 1)
    )
    for folder, text in ((A, "JbQ"), (B, "Jbg")):
        metadata = folder / "t-0" / "partition.metadata"
        metadata.write_text(f"version: 0\ntopic_id: sgf5MsZgRTuEMv68ZXK{text}")
    found = differences(A / "t-0", B / "t-0")
    assert found == [
        ("replica-topic-id", Severity.WARNING, None, None),
        ("replica-epochs", Severity.ERROR, 5, 7),
        ("replica-epochs", Severity.ERROR, 5, 9),
    ]


def test_partitions_that_only_one_source_has_are_told() -> None:
    for folder, names in ((A, ("x-0", "y-0")), (B, ("y-0", "z-0"))):
        for name in names:
            write_segment(folder / name, [plain(0, 3)])
    findings, summaries = compared(A, B)
    assert [(each.rule, each.partition) for each in findings] == [
        ("replica-absent", "x-0"),
        ("replica-absent", "z-0"),
    ]
    assert [each.partition for each in summaries] == ["y-0"]


def test_findings_are_bounded() -> None:
    many = range(0, 9 * MOST_FINDINGS, 3)
    copy(A, *(plain(at, at + 3) for at in many))
    copy(B, *(plain(at, at + 3, text="v" if at % 2 else "w") for at in many))
    findings, _ = compared(A / "t-0", B / "t-0")
    assert len(findings) == MOST_FINDINGS + 1
    assert f"{MOST_FINDINGS // 2} more places" in findings[-1].sentence
    assert all(each.rule == "replica-diverges" for each in findings)


def test_the_command_compares_and_tells_by_its_exit_status() -> None:
    copy(A, plain(0, 5), plain(5, 9))
    copy(B, plain(0, 5), plain(5, 9, text="w"))
    result = CliRunner().invoke(check, [str(A / "t-0"), "--replica", str(B / "t-0"), "--json"])
    assert result.exit_code == 1
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert [line["type"] for line in lines] == ["finding", "partition", "summary"]
    assert lines[0]["rule"] == "replica-diverges"
    assert lines[0]["firstOffset"] == 5
    same = CliRunner().invoke(check, [str(A / "t-0"), "--replica", str(A / "t-0")])
    assert same.exit_code == 0


@pytest.mark.parametrize("name", ["v0-gzip-0", "v1-gzip-0", "v1-none-0", "upgraded-0"])
def test_records_of_compressed_batches_of_magic_0_and_1_are_counted_not_the_batches(
    name: str,
) -> None:
    folder = str(fixtures_data.log_dir("legacy") / name)
    events = compare_sources(open_source(folder), open_source(folder), lambda log: True)
    (summary,) = [event for event in events if isinstance(event, PartitionSummary)]
    assert summary.records == len(fixtures_data.truth_records("legacy", name))
