"""Check the files at the top of a log dir: their content, and whether folders and other log dirs agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.check.files.meta_properties_check import check_meta_properties
from engine.check.files.unreadable_file import contents, unreadable_file
from engine.check.rules.finding import Finding, failed_read, found
from engine.check.rules.rules import Severity
from engine.checkpoint.checkpoint_file import parse_checkpoint
from engine.checkpoint.clean_shutdown import parse_clean_shutdown
from engine.checkpoint.decimal_text import parse_int32, parse_int64
from engine.errors import DamagedFileError, SourceRefusedError
from engine.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.units import Offset, TopicPartition
from engine.verdict.missing_folders import Absence, MissingFolder
from engine.verdict.source_losses import absent_partitions

_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


def check_log_dir_files(source: LogSource, log_dir: SourceRoot) -> Iterator[Finding]:
    """Yield findings about a log dir's own files.

    If only a part of the log dir is the source, its other folders are not compared.
    """
    is_whole = any(root is log_dir for root in source.roots)
    absent = {each.partition: each for each in absent_partitions(source)} if is_whole else {}
    is_clean = is_whole and source.checkpoints(log_dir).stopped_cleanly()
    for name in _CHECKPOINTS:
        yield from _checkpoint(log_dir, name, absent, is_clean)
    yield from _clean_shutdown(log_dir)
    yield from check_meta_properties(source, log_dir, is_whole=is_whole)


def _checkpoint(
    log_dir: SourceRoot,
    name: str,
    absent: Mapping[TopicPartition, MissingFolder],
    is_clean: bool,
) -> Iterator[Finding]:
    seen: dict[TopicPartition, Offset] = {}
    twice: list[TopicPartition] = []

    def entry(words: list[str]) -> None:
        topic, number, offset = words
        partition = TopicPartition(topic, parse_int32(number))
        if partition in seen:
            twice.append(partition)
        seen[partition] = parse_int64(offset)

    data = b""
    try:
        data = contents(log_dir, name) or b""
        parse_checkpoint(data, entry, path=name)
    except DamagedFileError as error:
        yield unreadable_file("checkpoint-unreadable", log_dir, name, data, error)
        return
    except OSError as error:
        if not isinstance(error, SourceRefusedError):
            yield found("file-unreadable", log_dir.display(name), **failed_read(error))
        return
    path = log_dir.display(name)
    for partition in twice:
        sentence = f"{partition} is named twice; the last entry counts"
        yield found("checkpoint-twice", path, sentence)
    for partition, offset in seen.items():
        if offset < 0:
            yield found("checkpoint-negative", path, f"{partition} has the offset {offset}")
    missing = [absent[each] for each in seen if each in absent]
    for absence in Absence:
        same = [each for each in missing if each.absence is absence]
        if not same or absence is Absence.LOST:  # lost ones have a finding of their own
            continue
        others = f"; so are {len(same) - 1} more" if len(same) > 1 else ""
        # A broker never takes deleted partitions out of the cleaner's checkpoint.
        is_sure = absence is Absence.UNKNOWN and is_clean and name != CLEANER_OFFSET_CHECKPOINT
        yield found(
            "checkpoint-without-folder",
            path,
            f"{same[0].reason}{others}",
            severity=None if is_sure else Severity.NOTE,
            topicPartitions=[each.name for each in same[:1000]],
        )


def _clean_shutdown(log_dir: SourceRoot) -> Iterator[Finding]:
    data = b""
    try:
        data = contents(log_dir, CLEAN_SHUTDOWN) or b""
        parse_clean_shutdown(data)
    except DamagedFileError as error:
        yield unreadable_file("clean-shutdown-unreadable", log_dir, CLEAN_SHUTDOWN, data, error)
    except OSError as error:
        if not isinstance(error, SourceRefusedError):
            path = log_dir.display(CLEAN_SHUTDOWN)
            yield found("file-unreadable", path, **failed_read(error))
