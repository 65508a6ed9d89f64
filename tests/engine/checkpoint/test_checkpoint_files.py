"""engine.checkpoint: checkpoints of offsets and epochs, strict and bounded."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from engine.checkpoint import checkpoint_file
from engine.checkpoint.decimal_text import parse_int32, parse_int64
from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs, render
from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.errors import CorruptCheckpointError, KafkaStorageError, LimitExceededError
from engine.files.file_names import FileKind, parse_file_name
from engine.files.source_files import SourceRoot
from engine.units import EpochEntry, TopicPartition
from tests import fixtures_data

topics = st.text("abcXYZ0129._-", min_size=1, max_size=20)


@given(
    st.dictionaries(
        st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1)),
        st.integers(-(2**63), 2**63 - 1),
        max_size=20,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_what_kafka_writes_is_read(
    offsets: dict[TopicPartition, int], line_end: str, ends_with_one: bool
) -> None:
    lines = ["0", str(len(offsets)), *(f"{t} {p} {o}" for (t, p), o in offsets.items())]
    data = line_end.join([*lines, ""] if ends_with_one else lines).encode()
    assert parse_offset_checkpoint(data) == offsets


@given(st.lists(st.builds(EpochEntry, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))))
def test_epochs_that_are_rendered_are_read(entries: list[EpochEntry]) -> None:
    assert parse_leader_epochs(render(entries)) == entries


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"0\n0", b"0\n0\n"])
def test_a_file_may_be_empty(data: bytes) -> None:
    assert parse_offset_checkpoint(data) == {}
    assert parse_leader_epochs(data) == []


def test_blanks_between_words_may_be_many() -> None:
    assert parse_offset_checkpoint(b"0\n1\na \t 1\x0b2  \n") == {("a", 1): 2}


def test_an_offset_may_be_negative_and_the_last_of_two_wins() -> None:
    assert parse_offset_checkpoint(b"0\n3\na 0 5\nb 0 -7\na 0 9\n") == {("a", 0): 9, ("b", 0): -7}


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"1\n0\n", 1),
        (b"x\n0\n", 1),
        (b"\n", 1),
        (b" 0\n0\n", 1),
        ("٠\n0\n".encode(), 1),
        (b"\xef\xbb\xbf0\n0\n", 1),
        (b"99999999999\n0\n", 1),
        (b"0\n-1\n", 2),
        (b"0\n\n", 2),
        (b"0\n1_0\n", 2),
        (b"0\n2\na 0 5\n", 2),
        (b"0\n0\na 0 5\n", 2),
        (b"0\n2147483647\n", 2),
        (b"0\n1\na 0\n", 3),
        (b"0\n1\na 0 5 6\n", 3),
        (b"0\n1\n a 0 5\n", 3),
        (b"0\n1\na 0 x\n", 3),
        (b"0\n1\na 2147483648 1\n", 3),
        (b"0\n1\na 0 9223372036854775808\n", 3),
        ("0\n1\na 0 ٥\n".encode(), 3),
        (b"0\n1\na 0 5\n\n", 4),
        (b"0\n1\na 0 5\nrubbish\n", 4),
    ],
)
def test_what_is_malformed_is_corrupt_at_its_line(data: bytes, line: int) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_offset_checkpoint(data, path="replication-offset-checkpoint")
    assert caught.value.line == line
    assert caught.value.path == "replication-offset-checkpoint"
    assert str(caught.value).isprintable()


def test_what_is_not_utf8_is_corrupt_at_its_byte() -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_offset_checkpoint(b"0\n1\n\xff 0 5\n")
    assert caught.value.position == 4


def test_a_count_is_never_allocated() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptCheckpointError, match="expected 2147483647 entries, found 0"):
            parse_offset_checkpoint(b"0\n2147483647\n")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_entries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_file, "MAX_ENTRIES", 2)
    assert len(parse_offset_checkpoint(b"0\n2\na 0 1\na 1 1\n")) == 2
    with pytest.raises(LimitExceededError):
        parse_offset_checkpoint(b"0\n3\na 0 1\na 1 1\na 2 1\n")


@pytest.mark.parametrize("entry", [b"-1 0", b"0 -1", b"2147483648 0", b"0", b"0 0 0", b"a b"])
def test_an_epoch_entry_has_two_numbers_from_zero(entry: bytes) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_leader_epochs(b"0\n1\n" + entry + b"\n")
    assert caught.value.line == 3


def test_epochs_come_in_the_files_order() -> None:
    assert parse_leader_epochs(b"0\n2\n5 100\n3 50\n") == [(5, 100), (3, 50)]


@given(
    st.one_of(st.binary(max_size=200), st.text("0123456789 \n\r-+ax", max_size=60).map(str.encode))
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for parse in (parse_offset_checkpoint, parse_leader_epochs):
        with suppress(KafkaStorageError):
            parse(data)


@pytest.mark.parametrize(
    "text", ["", "-", "+", "1 ", " 1", "1_0", "٥", "0x1", "1.0", "1e3", "9" * 5000]
)
def test_a_number_is_ascii_digits(text: str) -> None:
    for parse in (parse_int32, parse_int64):
        with pytest.raises(ValueError, match="number"):
            parse(text)


def test_numbers_have_their_widths() -> None:
    assert parse_int32("-2147483648") == -(2**31)
    assert parse_int32("+007") == 7
    assert parse_int64("9223372036854775807") == 2**63 - 1
    for text in ("2147483648", "-2147483649"):
        with pytest.raises(ValueError, match="32 bits"):
            parse_int32(text)
    with pytest.raises(ValueError, match="64 bits"):
        parse_int64("9223372036854775808")


@pytest.mark.parametrize("kind", fixtures_data.KINDS)
def test_the_checkpoints_of_a_broker_are_read(kind: str) -> None:
    with SourceRoot(str(fixtures_data.log_dir(kind))) as root:
        folders = set(fixtures_data.partitions(kind))
        for entry in root.list():
            name = parse_file_name(entry.name)
            if name is not None and name.kind is FileKind.OFFSET_CHECKPOINT:
                parse_offset_checkpoint(root.read(entry.name, limit=10**6), path=entry.name)
        for folder in folders:
            if "leader-epoch-checkpoint" not in {each.name for each in root.list(folder)}:
                continue
            data = root.read(f"{folder}/leader-epoch-checkpoint", limit=10**6)
            assert render(parse_leader_epochs(data)) == data
