"""engine.state.producer_snapshot: what a broker knew of each producer."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from engine.coding.checksums import crc32c
from engine.errors import CorruptSnapshotError
from engine.files.file_names import FileKind, parse_file_name
from engine.files.source_files import SourceRoot
from engine.state.producer_snapshot import (
    ENTRY,
    HEADER,
    ProducerSnapshot,
)
from engine.state.producer_state_entry import BatchMetadata, ProducerStateEntry
from tests import builders, fixtures_data
from tests.builders import SnapshotEntry


def sealed(body: bytes, version: int = 1) -> bytes:
    return struct.pack(">hI", version, crc32c(body)) + body


def test_sizes_are_those_of_the_format() -> None:
    assert (HEADER.size, ENTRY.size) == (10, 46)


def test_producers_are_read_with_what_they_lack() -> None:
    data = builders.producer_snapshot(
        [
            SnapshotEntry(7, 1, 151, 518, 2, 1705, 0, 483),
            SnapshotEntry(8, 0, -1, -1, 0, -1, 5, -1),
        ]
    )
    assert ProducerSnapshot.parse(data) == [
        ProducerStateEntry(7, 1, 0, 1705, 483, [BatchMetadata(151, 518, 2, 1705)]),
        ProducerStateEntry(8, 0, 5, -1, None),
    ]
    assert ProducerSnapshot.parse(builders.producer_snapshot([])) == []
    assert "producer_epoch=0, producer_id=8" in repr(ProducerSnapshot.parse(data)[1])


def test_a_batch_knows_where_it_begins() -> None:
    batch = BatchMetadata(151, 518, 2, 0)
    assert (batch.first_offset, batch.first_sequence) == (516, 149)
    assert BatchMetadata(1, 518, 3, 0).first_sequence == 2**31 - 2


def test_bytes_after_the_entries_are_covered_but_not_read() -> None:
    assert ProducerSnapshot.parse(sealed(struct.pack(">i", 0) + b"more")) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut"),
        (builders.producer_snapshot([])[:-1], "cut"),
        (builders.producer_snapshot([], version=0), "version"),
        (builders.producer_snapshot([], version=2), "version"),
        (builders.producer_snapshot([SnapshotEntry(1)])[:-1], "checksum"),
        (builders.producer_snapshot([SnapshotEntry(1)]) + b"\0", "checksum"),
        (sealed(struct.pack(">i", 1)), "the number of entries is not the stated one"),
        (sealed(struct.pack(">i", -1)), "the number of entries is not the stated one"),
        (
            sealed(struct.pack(">i", 2**31 - 1) + bytes(460)),
            "the number of entries is not the stated one",
        ),
    ],
)
def test_what_is_wrong_is_said(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=reason) as caught:
        ProducerSnapshot.parse(data, "x.snapshot")
    assert caught.value.path == "x.snapshot"


@given(st.integers(0, 10 + 3 * 46 - 1), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(position: int, change: int) -> None:
    data = bytearray(builders.producer_snapshot([SnapshotEntry(each) for each in range(3)]))
    data[position] ^= change
    with pytest.raises(CorruptSnapshotError):
        ProducerSnapshot.parse(bytes(data))


@given(st.one_of(st.binary(max_size=120), st.binary(max_size=120).map(sealed)))
def test_any_bytes_are_read_or_corrupt(data: bytes) -> None:
    with suppress(CorruptSnapshotError):
        assert len(ProducerSnapshot.parse(data)) <= len(data) // 46


@pytest.mark.parametrize("kind", fixtures_data.KINDS)
def test_the_snapshots_of_brokers_are_read(kind: str) -> None:
    producers = 0
    with SourceRoot(str(fixtures_data.log_dir(kind))) as root:
        for folder in fixtures_data.partitions(kind):
            for entry in root.list(folder):
                name = parse_file_name(entry.name)
                if name is not None and name.kind is FileKind.PRODUCER_SNAPSHOT:
                    data = root.read(f"{folder}/{entry.name}", limit=10**6)
                    for producer in ProducerSnapshot.parse(data, entry.name):
                        producers += 1
                        last = producer.last_batch
                        assert last is None or 0 <= last.last_offset < (name.base_offset or 0)
    assert producers > 0 or kind in ("legacy", "crashed")
