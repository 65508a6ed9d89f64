"""Faults 27 to 47: records, headers, control records and message sets inside batches of the right checksum.

The records before the broken one are served, an error line at the batch's place follows them, and the
offsets after them in the batch are refused, not absent.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.coding.compression import CompressionType, compress
from engine.coding.varint import encode_varint
from tests.builders import (
    LOG_APPEND_TIME,
    Producer,
    Rec,
    batch,
    control_batch,
    end_marker,
    message,
    message_set,
    patched,
    record_body,
    records_section,
    resealed,
    sized,
    wrapper,
)
from tests.damage.cases import (
    AFTER,
    AT,
    BEFORE,
    GOOD_VALUES,
    START,
    around,
    int32,
    log_dir,
    records,
)
from tests.damage.reader import Look
from tests.damage.survey import Survey

KERNELS = ["compiled", "python"]
FIRST = sized(record_body(0, 0, b"k", b"x0"))
LAST = sized(record_body(2, 0, b"k", b"x2"))
TOO_LONG = b"\xff" * 5 + b"\x01"
HUGE = encode_varint(2**30)
BODY = b"\x00\x00\x02"  # attributes, timestamp delta 0, offset delta 1


def broken(middle: bytes) -> bytes:
    """A batch at offsets 6 to 8 whose second record is these bytes."""
    return batch(
        [],
        6,
        section=FIRST + middle + LAST,
        record_count=3,
        last_offset_delta=2,
        base_timestamp=START + 6000,
        max_timestamp=START + 6000,
    )


def assert_broken_at_the_second_record(found: Survey, kind: str = "invalid_record") -> None:
    assert found.values() == [*GOOD_VALUES[:6], "x0", *GOOD_VALUES[6:]]
    (error,) = found.errors()
    assert (error["kind"], error["position"], error["record"]) == (kind, AT, 1)
    assert (error["firstOffset"], error["lastOffset"]) == (7, 8)


RECORDS = {
    "027-length": TOO_LONG,
    "027-timestamp": sized(b"\x00" + b"\xff" * 10 + b"\x01"),
    "027-offset": sized(b"\x00\x00" + TOO_LONG + b"\x01\x01\x00"),
    "027-key": sized(BODY + TOO_LONG + b"\x01\x00"),
    "027-value": sized(BODY + b"\x01" + TOO_LONG + b"\x00"),
    "027-headers": sized(BODY + b"\x01\x01" + TOO_LONG),
    "028-minus-1": encode_varint(-1),
    "028-0": encode_varint(0),
    "028-1": sized(b"\x00"),
    "028-5": sized(BODY + b"\x01\x01"),
    "029": HUGE + BODY,
    "029-2^31-1": encode_varint(2**31 - 1) + BODY,
    "030-key": sized(BODY + HUGE + b"k\x01\x00"),
    "030-value": sized(BODY + b"\x01" + HUGE + b"v\x00"),
    "030-header-key": sized(BODY + b"\x01\x01\x02" + HUGE + b"h\x01"),
    "030-header-value": sized(BODY + b"\x01\x01\x02\x02h" + HUGE + b"h"),
    "031-minus-1": sized(BODY + b"\x01\x01" + encode_varint(-1)),
    "031-2^30": sized(BODY + b"\x01\x01" + HUGE),
    "031-more-than-there-are": sized(BODY + b"\x01\x01" + encode_varint(2) + b"\x02h\x01"),
    "032": sized(BODY + b"\x01\x01\x02\x01\x02v"),
    "033-longer": sized(record_body(1, 0, b"k", b"x1") + b"\x00"),
    "033-shorter": b"\x0c" + record_body(1, 0, b"k", b"x1"),
}


@pytest.mark.parametrize("case", RECORDS)
def test_faults_027_to_033_a_broken_record_costs_itself_and_those_behind_it(
    tmp_path: Path, look: Look, case: str
) -> None:
    found = look(around(tmp_path, broken(RECORDS[case])))
    assert_broken_at_the_second_record(found)
    assert found.peak < 32 << 20


def test_faults_027_to_033_what_stands_behind_a_broken_record_is_refused(
    tmp_path: Path, look: Look
) -> None:
    found = look(around(tmp_path, broken(RECORDS["029"])))
    listed = found.json("t-0/state/offsets.json")
    assert listed["logEndOffset"] == 15
    # What is lost is neither silently absent nor an empty file.
    from engine.log.log_directory import open_source
    from kafkafs.decode.damaged_record import DamagedRecordError
    from kafkafs.tree.tree import Tree

    tree = Tree(open_source(str(tmp_path)))
    for offset in (7, 8):
        node = tree.resolve(f"t-0/offset/{offset}")
        assert b'"record":1' in node.xattrs()["user.kafka.error"]
        with pytest.raises(DamagedRecordError):
            node.open()  # type: ignore[attr-defined]
    assert tree.resolve("t-0/offset/7.batch").attrs().size == len(broken(RECORDS["029"]))


def test_fault_034_an_offset_below_the_batch_is_no_path(tmp_path: Path, look: Look) -> None:
    low = sized(record_body(-2, 0, b"k", b"x1"))
    found = look(around(tmp_path, broken(low)))
    assert found.offsets() == [0, 1, 2, 3, 4, 5, 6, 4, 8, 9, 10, 11, 12, 13, 14]


def test_fault_034_an_offset_above_the_batch_is_no_path(tmp_path: Path, look: Look) -> None:
    high = sized(record_body(50, 0, b"k", b"x1"))
    found = look(around(tmp_path, broken(high)), suspects=[56])
    assert found.offsets() == [0, 1, 2, 3, 4, 5, 6, 56, 8, 9, 10, 11, 12, 13, 14]


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (5, 2**63 - 1)])
def test_fault_035_timestamps_wrap_as_in_java(
    tmp_path: Path, look: Look, base: int, delta: int
) -> None:
    section = sized(record_body(0, delta, b"k", b"x0"))
    bad = batch([], 6, section=section, record_count=1, base_timestamp=base, max_timestamp=START)
    found = look(around(tmp_path, bad), but_for=("time",))
    wrapped = (base + delta + 2**63) % 2**64 - 2**63
    assert found.records()[6]["timestamp"] == wrapped
    assert not found.errors()


def test_fault_036_records_of_one_offset_are_all_shown_and_the_first_wins(
    tmp_path: Path, look: Look
) -> None:
    section = b"".join(sized(record_body(0, 0, b"k", b"x%d" % number)) for number in range(3))
    bad = batch([], 6, section=section, record_count=3, max_timestamp=START, base_timestamp=START)
    found = look(around(tmp_path, bad))
    assert found.offsets() == [0, 1, 2, 3, 4, 5, 6, 6, 6, 9, 10, 11, 12, 13, 14]
    assert found.values()[6:9] == ["x0", "x1", "x2"]


@pytest.mark.parametrize("codec", list(CompressionType)[1:])
def test_fault_037_a_payload_that_is_cut_off_gives_what_came_out(
    tmp_path: Path, look: Look, codec: CompressionType
) -> None:
    many = records(6, *(f"x{number:03}{'abc' * (number + 50)}" for number in range(400)))
    packed = compress(codec, records_section(many, 6, many[0].timestamp))
    cut = batch(many, 6, codec, section=packed[: len(packed) * 3 // 4])
    after = [batch(records(406, "c0", "c1"), 406)]
    log_dir(tmp_path, [*BEFORE, cut, *after])
    found = look(tmp_path)
    shown = found.values()[6:-2]
    assert shown == [rec.value.decode() for rec in many[: len(shown)]]  # type: ignore[union-attr]
    assert len(shown) > 100
    assert found.values()[-2:] == ["c0", "c1"]
    (error,) = found.errors()
    assert (error["kind"], error["position"]) == ("decompression", AT)
    assert error["record"] == len(shown)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_fault_038_bytes_after_the_last_record_are_noted_and_cost_nothing(
    tmp_path: Path, look: Look, codec: CompressionType
) -> None:
    three = records(6, "x0", "x1", "x2")
    packed = compress(codec, records_section(three, 6, three[0].timestamp) + b"more")
    found = look(around(tmp_path, batch(three, 6, codec, section=packed)))
    assert found.values() == [*GOOD_VALUES[:6], "x0", "x1", "x2", *GOOD_VALUES[6:]]
    assert found.kinds() == [("leftover_bytes", AT)]


# -- control records

WRITER = Producer(id=7, epoch=0, sequence=0)


def transaction(marker: bytes, *, then: bytes = b"") -> list[bytes]:
    """Good records, a transaction of two records at 6 and 7, its marker at 8, more good records."""
    data = batch(records(6, "t0", "t1"), 6, producer=WRITER, transactional=True)
    return [*BEFORE, data, marker, *([then] if then else []), *AFTER]


def states(found: Survey) -> list[str]:
    return [fact["transaction"]["state"] for fact in found.records() if "transaction" in fact]


@pytest.mark.parametrize("value", [None, b"", b"\x00", b"\x00\x00", b"\x00\x00\x00\x00\x00"])
@pytest.mark.parametrize("kind", [0, 1])
def test_faults_039_040_a_marker_ends_its_transaction_whatever_its_value(
    tmp_path: Path, look: Look, kind: int, value: bytes | None
) -> None:
    marker = control_batch(kind, value, 8, producer=WRITER, transactional=True)
    log_dir(tmp_path, transaction(marker))
    found = look(tmp_path)
    assert states(found) == [["aborted", "aborted"], ["committed", "committed"]][kind]
    shown = next(fact for fact in found.records() if fact["offset"] == 8)
    assert shown["control"]["type"] == ["ABORT", "COMMIT"][kind]
    assert found.values() == [
        *GOOD_VALUES[:6], "t0", "t1", shown["value"], *GOOD_VALUES[6:],
    ]  # fmt: skip


def test_fault_041_an_unknown_control_type_is_shown_by_its_number(
    tmp_path: Path, look: Look
) -> None:
    odd = control_batch(99, b"?", 8, producer=WRITER, transactional=True)
    log_dir(tmp_path, transaction(odd))
    found = look(tmp_path)
    shown = next(fact for fact in found.records() if fact["offset"] == 8)
    assert shown["control"]["type"] == "UNKNOWN(99)"
    assert states(found) == ["open", "open"]
    assert found.json("t-0/state/offsets.json")["lastStableOffset"] == 6


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_fault_042_a_control_key_that_is_none_decides_nothing(
    tmp_path: Path, look: Look, key: bytes | None
) -> None:
    odd = batch([Rec(b"v", key, START)], 8, producer=WRITER, transactional=True, control=True)
    log_dir(tmp_path, transaction(odd))
    found = look(tmp_path)
    assert states(found) == ["open", "open"]
    assert [value for value in found.values() if value in GOOD_VALUES] == GOOD_VALUES
    shown = [fact for fact in found.records() if fact["offset"] == 8]
    assert found.errors() or "control" in shown[0]


@pytest.mark.parametrize("case", ["codec", "varint", "empty"])
def test_fault_043_a_control_batch_that_cannot_be_read_decides_nothing(
    tmp_path: Path, look: Look, case: str
) -> None:
    marker = end_marker(8, WRITER, commit=True)
    if case == "codec":
        marker = resealed(patched(marker, 21, b"\x00\x37"))
    elif case == "varint":
        marker = resealed(patched(marker, 61, b"\xff" * 6))
    else:
        marker = batch(
            [], 8, producer=WRITER, transactional=True, control=True, section=b"", record_count=1
        )
    log_dir(tmp_path, transaction(marker))
    found = look(tmp_path)
    assert states(found) == ["open", "open"]
    assert found.values() == [*GOOD_VALUES[:6], "t0", "t1", *GOOD_VALUES[6:]]
    assert len(found.errors()) == 1
    assert found.errors()[0]["position"] == AT + len(transaction(b"")[2])


@pytest.mark.parametrize(("epoch", "sequence"), [(5, 900), (-3, 4), (5, -9), (4, 1)])
def test_fault_044_sequences_and_epochs_are_shown_as_they_are(
    tmp_path: Path, look: Look, epoch: int, sequence: int
) -> None:
    then = Producer(id=7, epoch=epoch, sequence=sequence)
    log_dir(
        tmp_path,
        [
            batch(records(0, "a0"), 0, producer=Producer(id=7, epoch=5, sequence=3)),
            batch(records(1, "a1"), 1, producer=then),
        ],
    )
    found = look(tmp_path)
    assert found.values() == ["a0", "a1"]
    assert not found.errors()
    assert found.records()[1].get("sequence") == (sequence if sequence >= 0 else None)


# -- message sets of magic 0 and 1


def legacy_around(folder: Path, bad: bytes) -> Path:
    """The bytes between good messages of magic 1 at offsets 0 to 2 and 9 to 11."""
    before = message_set(records(0, "a0", "a1", "a2"), 0)
    after = message_set(records(9, "c0", "c1", "c2"), 9)
    log_dir(folder, [before + bad + after])
    for suffix in ("index", "timeindex"):
        (folder / "t-0" / f"{0:020}.{suffix}").unlink()
    return folder


GZIP, LZ4 = CompressionType.GZIP, CompressionType.LZ4
INNER = [message(0, b"k", b"x0"), message(1, b"k", b"x1"), message(2, b"k", b"x2")]
WRAPPERS = {
    "null": message(8, None, None, attributes=1),
    "no-messages": wrapper([], 8, GZIP),
    "inner-compressed": wrapper([wrapper(INNER, 2, GZIP)], 8, GZIP),
    "offset-too-small": wrapper(INNER, 1, GZIP),
    "inner-of-magic-2": wrapper([patched(message(0, b"k", b"x0"), 16, b"\2")], 8, GZIP),
    "inner-too-short": wrapper([b"\x00" * 8 + int32(5) + b"\x00" * 5], 8, GZIP),
    "zstd": message(8, None, compress(CompressionType.ZSTD, INNER[0]), attributes=4),
    "not-gzip": message(8, None, b"not gzip at all", attributes=1),
    "codec-5": message(8, None, b"?", attributes=5),
}


@pytest.mark.parametrize("case", WRAPPERS)
def test_fault_045_a_wrapper_that_is_none_costs_its_own_messages(
    tmp_path: Path, look: Look, case: str
) -> None:
    found = look(legacy_around(tmp_path, WRAPPERS[case]))
    position = len(message_set(records(0, "a0", "a1", "a2"), 0))
    assert found.values() == ["a0", "a1", "a2", "c0", "c1", "c2"]
    kinds, places = zip(*found.kinds(), strict=True)
    assert set(places) == {position}
    assert (kinds == ("offset_order",)) is (case == "offset-too-small")
    assert len(kinds) == 1


def test_fault_045_nesting_is_not_followed_however_deep(tmp_path: Path, look: Look) -> None:
    nested = wrapper(INNER, 2, GZIP)
    for _ in range(200):
        nested = wrapper([nested], 8, GZIP)
    found = look(legacy_around(tmp_path, nested))
    assert found.values() == ["a0", "a1", "a2", "c0", "c1", "c2"]
    assert len(found.errors()) == 1


def test_fault_046_the_wrong_header_checksum_of_lz4_is_right_for_magic_0_only(
    tmp_path: Path, look: Look
) -> None:
    inner = [message(6 + n, b"k", b"x%d" % n, magic=0) for n in range(3)]
    old = wrapper(inner, 8, LZ4, magic=0)
    found = look(legacy_around(tmp_path / "old", old))
    assert found.values() == ["a0", "a1", "a2", "x0", "x1", "x2", "c0", "c1", "c2"]
    assert not found.errors()
    frame = compress(LZ4, b"".join(INNER), magic=0)
    assert frame != compress(LZ4, b"".join(INNER), magic=1)
    new = message(8, None, frame, attributes=3)
    found = look(legacy_around(tmp_path / "new", new))
    assert found.values() == ["a0", "a1", "a2", "c0", "c1", "c2"]
    assert [error["kind"] for error in found.errors()] == ["decompression"]


@pytest.mark.parametrize(
    ("inner", "offsets"),
    [([0, 0, 0], None), ([6, 7, 8], [6, 7, 8]), ([0, 1, 2], [6, 7, 8]), ([1, 3, 5], [4, 6, 8])],
)
def test_fault_047_inner_offsets_count_from_the_last_as_kafkas_client_has_them(
    tmp_path: Path, look: Look, inner: list[int], offsets: list[int] | None
) -> None:
    messages = [message(at, b"k", b"x%d" % n) for n, at in enumerate(inner)]
    found = look(legacy_around(tmp_path, wrapper(messages, 8, GZIP)))
    assert found.values() == ["a0", "a1", "a2", "x0", "x1", "x2", "c0", "c1", "c2"]
    assert found.offsets()[3:6] == (offsets or [8, 8, 8])


def test_fault_047_append_time_of_a_wrapper_is_that_of_its_messages(
    tmp_path: Path, look: Look
) -> None:
    bad = wrapper(INNER, 8, GZIP, timestamp=START + 77, timestamp_type=LOG_APPEND_TIME)
    found = look(legacy_around(tmp_path, bad))
    assert {fact["timestamp"] for fact in found.records()[3:6]} == {START + 77}
