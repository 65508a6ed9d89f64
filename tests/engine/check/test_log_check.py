"""What the check says of batches, records, offsets, epochs, producers and files: each rule, at its place."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cramjam
import pytest

from engine.check.rules.finding import Finding
from engine.check.rules.rules import RULES, Severity
from engine.coding.compression import CompressionType
from tests.builders import (
    Producer,
    Rec,
    batch,
    control_batch,
    empty_batch,
    end_marker,
    patched,
    records_section,
    resealed,
)
from tests.engine.check.logs import (
    NOW,
    bad,
    change,
    found,
    keyed,
    log_of,
    numbered,
    of_rule,
    plain,
    write,
)

SIZE = len(plain(0))
"""Of each batch that `plain` makes below offset 10."""
OWN_GROUPS = ("batches", "records", "offsets", "epochs and producers", "files")
PRODUCER = Producer(id=7, epoch=0, sequence=0)

Make = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """A broken partition, and where the finding must be.

    Attributes:
        rule: which is broken.
        make: writes the folder.
        position: of the finding; None: not looked at.
        offsets: (first, next) of it; None: not looked at.
        file: the end of its path.
    """

    rule: str
    make: Make
    position: int | None = None
    offsets: tuple[int, int | None] | None = None
    file: str = ".log"
    name: str = ""


def three(*, middle: bytes | None = None) -> Make:
    """Three batches, the second another one."""

    def make(folder: Path) -> None:
        write(folder, {0: [plain(0), plain(5) if middle is None else middle, plain(10)]})

    return make


def _linked() -> bytes:
    """A batch in an LZ4 frame with blocks that depend on each other."""
    section = records_section([Rec(b"v" * 40_000, b"k", timestamp=NOW)] * 5, 5, NOW)
    frame = cramjam.lz4.Compressor(3, content_checksum=False, block_linked=True)
    frame.compress(section)
    data = bytes(frame.finish())
    header = {
        "record_count": 5,
        "last_offset_delta": 4,
        "base_timestamp": NOW,
        "max_timestamp": NOW,
    }
    return batch([], 5, attributes=3, section=data, **header)


def three_then(edit: Callable[[bytearray], object]) -> Make:
    """Three batches, the bytes changed."""

    def make(folder: Path) -> None:
        three()(folder)
        change(log_of(folder), edit)

    return make


def set_byte(at: int, value: int) -> Callable[[bytearray], None]:
    def edit(data: bytearray) -> None:
        data[at] = value

    return edit


def put(at: int, new: bytes) -> Callable[[bytearray], None]:
    def edit(data: bytearray) -> None:
        data[at : at + len(new)] = new

    return edit


def cut(size: int) -> Callable[[bytearray], None]:
    def edit(data: bytearray) -> None:
        del data[len(data) - size :]

    return edit


def segments(*parts: tuple[int, list[bytes]]) -> Make:
    return lambda folder: write(folder, dict(parts))


def with_file(name: str, data: bytes = b"") -> Make:
    def make(folder: Path) -> None:
        three()(folder)
        (folder / name).write_bytes(data)

    return make


def with_entry(make_entry: Callable[[Path], object]) -> Make:
    def make(folder: Path) -> None:
        three()(folder)
        make_entry(folder)

    return make


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


RECORDS = records_section(keyed(5, 6), 5, 1_700_000_000_000)
OTHER_TIMES = [Rec(b"a", b"k", 1_700_000_000_005), Rec(b"b", b"l", 1_700_000_000_009)]
UNORDERED = [Rec(b"a", b"k", offset=6), Rec(b"b", b"l", offset=5)]
ZSTD = CompressionType.ZSTD

CASES = (
    Case("batch-checksum", three_then(set_byte(SIZE + 70, 0xFF)), SIZE, (5, 10)),
    Case("batch-checksum", three_then(put(SIZE + 17, b"\0\0\0\0")), SIZE, (5, 10), name="of zero"),
    Case("batch-length", three_then(put(SIZE + 8, int32(-5))), SIZE, (5, 10), name="negative"),
    Case("batch-length", three_then(put(SIZE + 8, int32(1 << 20))), SIZE, (5, 10), name="past the end"),
    Case("batch-checksum", three_then(put(SIZE + 8, int32(2 * SIZE - 12))), SIZE, name="over a good one"),
    Case("batch-magic", three_then(set_byte(SIZE + 16, 7)), SIZE, (5, 10)),
    Case("batch-too-large", lambda folder: _too_large(folder), 0),
    Case("batch-offsets", three(middle=batch(keyed(5), 5, last_offset_delta=-2)), SIZE),
    Case("batch-zeros", three_then(put(SIZE, bytes(SIZE))), SIZE, (5, 10)),
    Case("batch-producer", three(middle=numbered(5, -1)), SIZE, (5, 10)),
    Case("torn-tail", three_then(cut(10)), 2 * SIZE, (10, None)),
    Case("torn-tail", lambda folder: _torn_inside(folder), SIZE, (5, 10), name="not at the end"),
    Case("batch-attributes", three(middle=plain(5, attributes=0x80)), SIZE, (5, 10)),
    Case("zero-tail", three_then(lambda data: data.extend(bytes(500))), 3 * SIZE),
    Case(
        "batch-without-records",
        three(middle=batch([], 5, section=RECORDS, last_offset_delta=4, record_count=0)),
        SIZE,
    ),
    Case("records-invalid", three(middle=batch([], 5, section=b"\x7f" + RECORDS, record_count=2, last_offset_delta=4)), SIZE),
    Case("records-count", three(middle=batch(keyed(5, 6), 5, record_count=5, last_offset_delta=4)), SIZE),
    Case("records-leftover", three(middle=batch(keyed(5, 6), 5, record_count=1, last_offset_delta=4)), SIZE),
    Case("records-compression", three(middle=batch([], 5, attributes=4, section=b"no zstd at all", record_count=5, last_offset_delta=4)), SIZE),
    Case("records-codec", three(middle=plain(5, attributes=6)), SIZE),
    Case("records-offsets", three(middle=batch(UNORDERED, 5, last_offset_delta=4)), SIZE),
    Case("records-offsets", three(middle=batch(keyed(5, 9), 5, last_offset_delta=2)), SIZE, name="past the last"),
    Case("control-record", three(middle=control_batch(1, None, 5, producer=PRODUCER, transactional=True)), SIZE),
    Case("control-record", three(middle=control_batch(1, bytes(6), 5, producer=PRODUCER)), SIZE, name="not transactional"),
    Case("control-record", three(middle=batch([Rec(b"", b"\0\0")], 5, control=True)), SIZE, name="short key"),
    Case("control-record", three(middle=control_batch(2, bytes(6), 5, key_version=-1)), SIZE, name="negative version"),
    Case("records-not-checked", lambda folder: _bomb(folder), 0),
    Case("records-timestamps", three(middle=batch(OTHER_TIMES, 5, max_timestamp=1_700_000_000_005)), SIZE),
    Case("records-timestamps", three(middle=plain(5, attributes=8, max_timestamp=-1)), SIZE, name="of no append"),
    Case("timestamp-negative", three(middle=batch([Rec(b"a", b"k", -7)], 5)), SIZE),
    Case("records-refused", three(middle=_linked()), SIZE, (5, 10)),
    Case("timestamp-seconds", three(middle=batch([Rec(b"a", b"k", NOW // 1000)], 5, last_offset_delta=4)), SIZE, (5, 10)),
    Case("control-type", three(middle=control_batch(99, bytes(6), 5)), SIZE),
    Case("timestamp-future", three(middle=batch([Rec(b"a", b"k", NOW * 2)], 5)), SIZE),
    Case("offset-order", segments((0, [plain(0), plain(10), plain(5), plain(15)])), None, (10, 15), name="swapped"),
    Case("offset-order", three_then(put(SIZE, int64(4000))), SIZE, (4000, 4005), name="raised"),
    Case("offset-order", three_then(put(SIZE, int64(2))), SIZE, (2, 7), name="lowered"),
    Case("offset-duplicate", segments((0, [plain(0), plain(5), plain(5), plain(10)])), 2 * SIZE, (5, 10)),
    Case(
        "offset-duplicate",
        segments((0, [plain(0), plain(5), plain(0), plain(5), plain(10)])),
        2 * SIZE,
        (0, 10),
        name="a stretch",
    ),
    Case("offset-segment", segments((5, [plain(5), plain(2, 3)])), SIZE, (2, 5), name="below"),
    Case("offset-segment", segments((0, [plain(0), plain(5)]), (7, [plain(10)])), SIZE, (5, 10), name="above"),
    Case("offset-overflow", segments((0, [plain(0), plain(1 << 31)])), SIZE, (1 << 31, (1 << 31) + 5)),
    Case("gap-loss", segments((0, [numbered(0, 0), numbered(10, 10)])), None, (5, 10), name="by sequence"),
    Case("gap-loss", segments((0, [batch([Rec(b"a"), Rec(b"b")]), plain(10)])), None, (2, 10), name="without keys"),
    Case("gap-unexplained", segments((0, [plain(0), plain(10)])), SIZE, (5, 10)),
    Case("gap-unexplained", segments((0, [plain(0)]), (10, [plain(10)])), 0, (5, 10), "0010.log", name="a segment's end"),
    Case("gap-compaction", segments((0, [plain(0), batch(keyed(10, 12), 10, last_offset_delta=4)])), None, (5, 10)),
    Case("gap-compaction", segments((0, [plain(0), empty_batch(10, 14, timestamp=NOW)])), None, (5, 10), name="emptied"),
    Case("epoch-order", three_then(put(SIZE + 12, int32(999))), SIZE, (5, 10), name="raised"),
    Case(
        "epoch-order",
        segments((0, [plain(0, leader_epoch=3), plain(5, leader_epoch=1), plain(10, leader_epoch=3)])),
        SIZE,
        (5, 10),
        name="lowered",
    ),
    Case("transaction-without-producer", three(middle=plain(5, attributes=0x10)), SIZE, (5, 10)),
    Case("producer-epoch", segments((0, [numbered(0, 0, epoch=2), numbered(5, 5, epoch=1)])), None, (5, 10)),
    Case("producer-sequence", segments((0, [numbered(0, 0), numbered(5, 9)])), None, (5, 10)),
    Case("producer-sequence", segments((0, [numbered(0, 0), numbered(5, 0)])), None, (5, 10), name="again"),
    Case("marker-without-transaction", three(middle=end_marker(5, PRODUCER, commit=True)), SIZE),
    Case("file-link", with_entry(lambda folder: (folder / "00000000000000000005.log").symlink_to("x"))),
    Case("file-kind", with_entry(lambda folder: os.mkfifo(folder / "00000000000000000005.log"))),
    Case("file-kind", with_entry(lambda folder: (folder / "00000000000000000005.log").mkdir()), name="folder"),
    Case("file-name", with_file("5.log")),
    Case("file-too-large", with_entry(lambda folder: os.truncate(log_of(folder), 1 << 31))),
    Case("file-half-compacted", with_file(f"{0:020}.log.swap"), file=".swap"),
    Case("file-without-log", with_file(f"{90:020}.index"), file=".index"),
    Case("file-deleted", with_file(f"{90:020}.log.deleted"), file=".deleted"),
    Case("file-other", with_file("notes.txt"), file="notes.txt"),
    Case("file-hard-link", with_entry(lambda folder: os.link(log_of(folder), folder.parent / "link"))),
)  # fmt: skip
ELSEWHERE = {
    "file-rights",
    "file-system",
    "gap-retention", "below-log-start", "file-unreadable", "folder-twice", "folder-apart", "topic-name",
    "tiered-copy", "log-start-short", "partition-lost", "log-end-short", "gap-held", "unreadable",
}  # fmt: skip
"""Found by tests of whole log dirs, of tiered copies, and of failing disks."""


def _too_large(folder: Path) -> None:
    three()(folder)
    change(log_of(folder), put(8, int32((1 << 28) + 5)))
    os.truncate(log_of(folder), (1 << 28) + 100)


def _torn_inside(folder: Path) -> None:
    write(folder, {0: [plain(0), plain(5)], 10: [plain(10)]})
    change(log_of(folder), cut(10))


def _bomb(folder: Path) -> None:
    write(folder, {0: [batch([Rec(bytes(70 << 20), b"k")], codec=ZSTD)]})


def _name(case: Case) -> str:
    return f"{case.rule} {case.name}".strip()


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_what_breaks_a_rule_is_found_at_its_place(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    case.make(folder)
    matching = of_rule(found(folder), case.rule)
    assert matching
    first = matching[0]
    assert first.file.endswith(case.file)
    if case.position is not None:
        assert first.position == case.position
    if case.offsets is not None:
        assert (first.first_offset, first.next_offset) == case.offsets
    assert first.sentence
    assert first.advice


def test_each_rule_of_the_log_has_a_case() -> None:
    own = {rule.id for rule in RULES.values() if rule.group in OWN_GROUPS}
    assert own == {case.rule for case in CASES} | ELSEWHERE


def test_a_sound_log_has_no_findings(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "t-0", {0: [plain(0), plain(5)], 10: [numbered(10, 0), numbered(15, 5)]}
    )
    assert [finding for finding in found(folder) if finding.rule in _own()] == []


def _own() -> set[str]:
    return {rule.id for rule in RULES.values() if rule.group in OWN_GROUPS}


def _alone(findings: list[Finding]) -> list[str]:
    return [finding.rule for finding in bad(findings) if finding.rule in _own()]


@pytest.mark.parametrize(
    ("make", "rules"),
    [
        (three_then(put(SIZE, int64(4000))), ["offset-order"]),
        (three_then(put(SIZE, int64(2))), ["offset-order"]),
        (segments((0, [plain(0), plain(10), plain(5), plain(15)])), ["offset-order"]),
        (segments((0, [numbered(0, 0), numbered(5, 5), numbered(5, 5)])), ["offset-duplicate"]),
        (segments((0, [numbered(0, 0), numbered(10, 10)])), ["gap-loss"]),
        (three_then(put(SIZE + 12, int32(999))), ["epoch-order"]),
        (three_then(set_byte(SIZE + 70, 0xFF)), ["batch-checksum"]),
        (three_then(put(SIZE + 8, int32(SIZE - 13))), ["batch-checksum"]),
    ],
    ids=["raised", "lowered", "swapped", "twice", "removed", "epoch", "bit", "length"],
)
def test_one_hit_is_one_finding(make: Make, rules: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    make(folder)
    assert _alone(found(folder)) == rules


@pytest.mark.parametrize(("at", "field"), [(8, "length"), (16, "magic")])
def test_a_single_wrong_field_outside_of_the_checksum_is_named(
    at: int, field: str, tmp_path: Path
) -> None:
    folder = tmp_path / "t-0"
    three_then(put(SIZE + at, int32(SIZE - 20) if at == 8 else b"\x05"))(folder)
    (finding,) = [each for each in found(folder) if each.rule.startswith("batch-")]
    assert finding.facts["onlyField"] == field


def test_a_raised_offset_says_which_one_would_fit(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    three_then(put(SIZE, int64(4000)))(folder)
    (finding,) = of_rule(found(folder), "offset-order")
    assert (finding.facts["expected"], finding.facts["found"]) == (5, 4000)


def test_damage_at_the_start_of_a_segment_does_not_hide_what_follows(tmp_path: Path) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(0)], 5: [plain(5), plain(10)], 15: [plain(15)]})
    change(log_of(folder, 5), put(0, bytes(40)))
    own = [each for each in found(folder) if each.rule in _own()]
    assert [(each.rule, each.position, each.first_offset, each.next_offset) for each in own] == [
        ("batch-length", 0, 5, 10)
    ]


def test_a_file_that_is_all_noise_gives_few_findings(tmp_path: Path) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(0)]})
    log_of(folder).write_bytes(os.urandom(200_000))
    own = [each for each in bad(found(folder)) if each.rule in _own()]
    assert 1 <= len(own) <= 3


def test_findings_of_one_kind_are_bounded_and_counted(tmp_path: Path) -> None:
    batches = [resealed(patched(plain(base), 21, b"\x00\x80")) for base in range(0, 6000, 5)]
    folder = write(tmp_path / "t-0", {0: batches})
    findings = of_rule(found(folder), "batch-attributes")
    assert len(findings) == 1001
    assert findings[-1].others == 200


def test_many_gaps_of_compaction_are_one_note(tmp_path: Path) -> None:
    batches = [batch(keyed(base, base + 3), base) for base in range(0, 20_000, 10)]
    folder = write(tmp_path / "t-0", {0: batches})
    (finding,) = [each for each in found(folder) if each.rule in _own()]
    assert (finding.rule, finding.severity) == ("gap-compaction", Severity.NOTE)
    assert finding.facts["gaps"] == 1999
    assert finding.facts["offsets"] == 1999 * 6


@pytest.mark.parametrize("jobs", [1, 3])
def test_threads_find_the_same_in_the_same_order(jobs: int, tmp_path: Path) -> None:
    batches = [plain(base, leader_epoch=base % 3) for base in range(0, 30_000, 5)]
    folder = write(tmp_path / "t-0", {0: batches})
    change(log_of(folder), set_byte(100_000, 0xFF))
    change(log_of(folder), set_byte(500_000, 0xFF))
    alone = [each.to_json() for each in found(folder)]
    assert [each.to_json() for each in found(folder, jobs=jobs)] == alone
    assert len(alone) > 1000
