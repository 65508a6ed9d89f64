"""What Kafka's LocalLogTest asks of fetches; its questions about names are in test_local_log_names.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.units import LogOffsetMetadata
from tests.conformance.local_logs import LocalLogSetUp, key_values


@pytest.fixture
def made(tmp_path: Path) -> Iterator[LocalLogSetUp]:
    made = LocalLogSetUp(tmp_path)
    yield made
    made.log.close_handlers()


@pytest.mark.conformance("LocalLogTest.testWhenFetchOffsetHigherThanMaxOffset")
def test_when_fetch_offset_higher_than_max_offset(made: LocalLogSetUp) -> None:
    for offset in range(5):
        made.append_a(offset)
        if offset % 2:
            made.log.roll()
    assert len(made.log.segments) == 3

    def read(start: int, *bound: int) -> tuple[list[tuple[str, str]], LogOffsetMetadata]:
        fetched = made.read(start, max_offset_metadata=LogOffsetMetadata(*bound))
        return key_values(fetched), fetched.fetch_offset_metadata

    assert read(3, 4, 4, 0) == ([("", "a")], LogOffsetMetadata(3, 2, 69))
    assert read(4, 4, 4, 0) == ([], LogOffsetMetadata(4, 4, 0))
    assert read(5, 4, 4, 0) == ([], LogOffsetMetadata(5, 4, 69))
    assert read(3, 4, -1, -1) == ([], LogOffsetMetadata(3, 2, 69))
    assert read(3, 4, 0, 40) == ([], LogOffsetMetadata(3, 2, 69))
