"""The indexes that brokers wrote, entry by entry as DumpLogSegments shows them."""

from __future__ import annotations

import re

import pytest

from engine.files.file_names import FileKind, parse_file_name
from engine.files.source_files import SourceRoot
from engine.index.abstract_index import AbstractIndex
from engine.index.offset_index import OffsetIndex
from engine.index.time_index import TimeIndex
from engine.index.transaction_index import TransactionIndex
from tests import fixtures_data

INDEXES: dict[FileKind, type[AbstractIndex]] = {
    FileKind.OFFSET_INDEX: OffsetIndex,
    FileKind.TIME_INDEX: TimeIndex,
    FileKind.TRANSACTION_INDEX: TransactionIndex,
}


def shown(kind: str, partition: str) -> dict[str, list[tuple[int, ...]]]:
    """By file name, the numbers of each entry that the tool printed before its complaints."""
    files: dict[str, list[tuple[int, ...]]] = {}
    entries: list[tuple[int, ...]] = []
    for line in (fixtures_data.dump_text(kind, partition, indexes=True) or "").splitlines():
        if line.startswith("Dumping "):
            entries = files.setdefault(line.rpartition("/")[2], [])
        elif line.startswith(("Mismatches", "Found", "The following", "Index")):
            entries = []
        elif numbers := re.findall(r": (-?\d+)", line):
            entries.append(tuple(map(int, numbers)))
    return files


def indexes_of(root: SourceRoot, partition: str) -> dict[str, AbstractIndex]:
    found = {}
    for entry in root.list(partition):
        name = parse_file_name(entry.name)
        if name is not None and name.kind in INDEXES and not name.state.value:
            path = f"{partition}/{entry.name}"
            found[entry.name] = INDEXES[name.kind](
                lambda path=path: root.open(path), name.base_offset
            )
    return found


@pytest.mark.parametrize("kind", fixtures_data.WITH_TRUTH)
def test_entries_are_those_that_kafka_shows(kind: str) -> None:
    compared = 0
    with SourceRoot(str(fixtures_data.log_dir(kind))) as root:
        for partition in fixtures_data.partitions(kind):
            expected = shown(kind, partition)
            for name, index in indexes_of(root, partition).items():
                entries = [tuple(entry) for entry in index]
                if kind == "live" and name in expected:
                    # The truth was taken after the broker had closed its time indexes with a last entry.
                    assert entries == expected[name][: len(entries)]
                    assert len(expected[name]) - len(entries) <= 1
                elif name in expected and not partition.endswith("-delete"):
                    assert entries == expected[name]
                    compared += len(entries)
    assert compared > 0 or kind == "live"


@pytest.mark.parametrize("kind", fixtures_data.KINDS)
def test_every_entry_of_a_broker_is_found_by_look_up(kind: str) -> None:
    with SourceRoot(str(fixtures_data.log_dir(kind))) as root:
        for partition in fixtures_data.partitions(kind):
            for index in indexes_of(root, partition).values():
                index.check()
                if not isinstance(index, TransactionIndex):
                    for entry in index:
                        assert index.lookup(entry[0]) == entry
                    assert index.byte_size % index.entry_size == 0
