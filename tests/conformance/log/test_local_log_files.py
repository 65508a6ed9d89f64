"""What Kafka's LocalLogTest asks of appending, flushing, closing, renaming and deleting."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import StateError
from engine.files.file_names import FolderState, parse_folder_name
from engine.units import TopicPartition
from engine.writing.log_folder import log_delete_dir_name
from engine.writing.segment.segment_replacement import delete_segment_files
from tests.conformance.local_logs import LocalLogSetUp, key_values


@pytest.fixture
def made(tmp_path: Path) -> Iterator[LocalLogSetUp]:
    made = LocalLogSetUp(tmp_path)
    yield made
    made.log.close_handlers()


@pytest.mark.conformance("LocalLogTest.testLogDeleteSegmentsSuccess")
def test_log_delete_segments_success(made: LocalLogSetUp) -> None:
    made.append_a(0)
    made.log.roll(0)
    assert len(made.log.segments) == 2
    assert made.files
    before = list(made.log.segments)
    assert made.log.delete_all_segments() == before
    assert len(made.log.segments) == 0
    with pytest.raises(StateError):
        made.log.ensure_open()
    assert made.folder.exists()
    assert made.files == []


@pytest.mark.conformance("LocalLogTest.testRollEmptyActiveSegment")
def test_roll_empty_active_segment(made: LocalLogSetUp) -> None:
    old = made.log.segments.active_segment
    made.log.roll(0)
    assert len(made.log.segments) == 1
    assert made.log.segments.active_segment is not old
    assert made.files
    assert old.files.has_suffix(".deleted")


@pytest.mark.conformance("LocalLogTest.testLogDeleteDirSuccessWhenEmptyAndFailureWhenNonEmpty")
def test_log_delete_dir_success_when_empty_and_failure_when_non_empty(made: LocalLogSetUp) -> None:
    made.append_a(0)
    made.log.roll(0)
    assert len(made.log.segments) == 2
    assert made.files
    with pytest.raises(StateError):
        made.log.delete_empty_dir()
    assert made.folder.exists()
    made.log.delete_all_segments()
    made.log.delete_empty_dir()
    assert not made.folder.exists()


@pytest.mark.conformance("LocalLogTest.testUpdateConfig")
def test_update_config(made: LocalLogSetUp) -> None:
    old = made.log.folder.config
    made.log.folder.config = dataclasses.replace(old, segment_size=512, preallocate=True)
    made.append_a(0)
    assert Path(made.log.roll().log.path).stat().st_size == 512


@pytest.mark.conformance("LocalLogTest.testLogDirRenameToNewDir")
def test_log_dir_rename_to_new_dir(made: LocalLogSetUp) -> None:
    made.append_a(0)
    made.log.roll(0)
    assert len(made.log.segments) == 2
    renamed = made.folder.with_name("renamed-7")
    assert made.log.rename_dir(renamed.name)
    assert not made.folder.exists()
    assert renamed.exists()
    assert made.log.folder.path == str(renamed)
    assert made.log.folder.log_dir == str(renamed.parent)
    assert {Path(segment.log.path).parent for segment in made.log.segments} == {renamed}
    assert len(made.log.segments) == 2


@pytest.mark.conformance("LocalLogTest.testLogDirRenameToExistingDir")
def test_log_dir_rename_to_existing_dir(made: LocalLogSetUp) -> None:
    assert not made.log.rename_dir(made.log.folder.name)


@pytest.mark.conformance("LocalLogTest.testLogFlush")
def test_log_flush(made: LocalLogSetUp) -> None:
    assert made.log.recovery_point == 0
    assert made.log.last_flush_time == made.clock.ms
    made.append_a(0)
    made.clock.sleep(1)
    segment = made.log.roll(0)
    made.log.flush(segment.base_offset)
    assert made.log.recovery_point == 0
    made.log.mark_flushed(segment.base_offset)
    assert made.log.recovery_point == 1
    assert made.log.last_flush_time == made.clock.ms


@pytest.mark.conformance("LocalLogTest.testLogAppend")
def test_log_append(made: LocalLogSetUp) -> None:
    assert key_values(made.read(max_length=1)) == []
    made.clock.sleep(1)
    records = [("abc", "ABC"), ("de", "DE")]
    made.append(0, *records)
    assert made.log.log_end_offset == 2
    assert made.log.recovery_point == 0
    assert key_values(made.read()) == records


@pytest.mark.conformance("LocalLogTest.testLogCloseSuccess")
def test_log_close_success(made: LocalLogSetUp) -> None:
    made.append(0, ("abc", "ABC"), ("de", "DE"))
    made.log.close()
    with pytest.raises(ValueError, match="closed"):
        made.append(2, ("abc", "ABC"), ("de", "DE"))


@pytest.mark.conformance("LocalLogTest.testLogCloseIdempotent")
def test_log_close_idempotent(made: LocalLogSetUp) -> None:
    made.log.close()
    made.log.close()
    assert made.log.segments.active_segment.log.is_closed


@pytest.mark.conformance("LocalLogTest.testLogCloseFailureWhenInMemoryBufferClosed")
def test_log_close_failure_when_in_memory_buffer_closed(made: LocalLogSetUp) -> None:
    made.append(0, ("abc", "ABC"), ("de", "DE"))
    made.log.close_handlers()
    with pytest.raises(StateError):
        made.log.close()


@pytest.mark.conformance("LocalLogTest.testLogCloseHandlers")
def test_log_close_handlers(made: LocalLogSetUp) -> None:
    made.append(0, ("abc", "ABC"), ("de", "DE"))
    made.log.close_handlers()
    with pytest.raises(ValueError, match="closed"):
        made.append(2, ("abc", "ABC"), ("de", "DE"))


@pytest.mark.conformance("LocalLogTest.testLogCloseHandlersIdempotent")
def test_log_close_handlers_idempotent(made: LocalLogSetUp) -> None:
    made.log.close_handlers()
    made.log.close_handlers()
    assert made.log.segments.active_segment.log.is_closed


def ten_segments(made: LocalLogSetUp) -> None:
    for offset in range(9):
        made.append_a(offset)
        made.log.roll(0)
    assert len(made.log.segments) == 10


def remove_and_delete_segments(
    made: LocalLogSetUp, caplog: pytest.LogCaptureFixture, *, async_delete: bool
) -> None:
    ten_segments(made)
    going = list(made.log.segments)
    described = repr(going)
    with caplog.at_level(logging.INFO, "engine.broker.log.local_log"):
        made.log.remove_and_delete_segments(going, async_delete, "they are too old")
    assert described in caplog.text
    assert "they are too old" in caplog.text
    if async_delete:
        assert all(segment.files.has_suffix(".deleted") for segment in going)
        made.clock.sleep(made.log.folder.config.file_delete_delay_ms + 1)
    assert len(made.log.segments) == 0
    assert all(segment.files.are_deleted for segment in going)


@pytest.mark.conformance("LocalLogTest.testRemoveAndDeleteSegmentsSync")
def test_remove_and_delete_segments_sync(
    made: LocalLogSetUp, caplog: pytest.LogCaptureFixture
) -> None:
    remove_and_delete_segments(made, caplog, async_delete=False)


@pytest.mark.conformance("LocalLogTest.testRemoveAndDeleteSegmentsAsync")
def test_remove_and_delete_segments_async(
    made: LocalLogSetUp, caplog: pytest.LogCaptureFixture
) -> None:
    remove_and_delete_segments(made, caplog, async_delete=True)


def delete_files(made: LocalLogSetUp, *, async_delete: bool) -> None:
    ten_segments(made)
    going, log = list(made.log.segments), made.log
    delete_segment_files(log.folder, going, async_delete=async_delete)
    if async_delete:
        for segment in going:
            assert not segment.files.are_deleted
            assert segment.files.has_suffix(".deleted")
        made.clock.sleep(log.folder.config.file_delete_delay_ms + 1)
    assert all(segment.files.are_deleted for segment in going)


@pytest.mark.conformance("LocalLogTest.testDeleteSegmentFilesSync")
def test_delete_segment_files_sync(made: LocalLogSetUp) -> None:
    delete_files(made, async_delete=False)


@pytest.mark.conformance("LocalLogTest.testDeleteSegmentFilesAsync")
def test_delete_segment_files_async(made: LocalLogSetUp) -> None:
    delete_files(made, async_delete=True)


@pytest.mark.conformance("LocalLogTest.testLogDeleteDirName")
def test_log_delete_dir_name() -> None:
    short = log_delete_dir_name(TopicPartition("foo", 3))
    assert re.fullmatch(r"foo-3\.[0-9a-z]{32}-delete", short)
    long = log_delete_dir_name(TopicPartition("n" + "o" * 248, 5))
    assert len(long) == 255
    assert re.fullmatch(r"no{212}-5\.[0-9a-z]{32}-delete", long)
    for name, topic_partition in ((short, ("foo", 3)), (long, ("n" + "o" * 212, 5))):
        parsed = parse_folder_name(name)
        assert parsed.topic_partition == topic_partition
        assert parsed.state is FolderState.DELETE
