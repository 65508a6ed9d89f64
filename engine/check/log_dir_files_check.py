"""The files at the top of a log dir: can they be read, and do they agree with what lies there and with other log dirs?"""

from __future__ import annotations

from collections.abc import Iterator

from engine.check.finding import Finding, found
from engine.check.rules import Severity
from engine.checkpoint.checkpoint_file import parse_checkpoint
from engine.checkpoint.clean_shutdown import parse_clean_shutdown
from engine.checkpoint.decimal_text import parse_int32, parse_int64
from engine.checkpoint.meta_properties import MetaProperties, parse_meta_properties
from engine.errors import CorruptCheckpointError, DamagedFileError, SourceRefusedError
from engine.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    folder_name,
)
from engine.log.log_directory import LogSource
from engine.source_files import SourceRoot
from engine.units import Offset, Position, TopicPartition

_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_LIMIT = 64 << 20


def check_log_dir_files(source: LogSource, log_dir: SourceRoot) -> Iterator[Finding]:
    """What is wrong with a log dir's own files.

    Where only a part of the log dir is the source, what lies beside it is left alone.
    """
    is_whole = any(root is log_dir for root in source.roots)
    is_clean = CLEAN_SHUTDOWN in log_dir.list_apart()[0] and log_dir.broker_pid() is None
    folders = {entry.name for entry in log_dir.list()}
    for name in _CHECKPOINTS:
        yield from _checkpoint(log_dir, name, folders if is_whole else None, is_clean)
    yield from _clean_shutdown(log_dir)
    yield from _meta_properties(source, log_dir)


def _read(log_dir: SourceRoot, name: str) -> bytes | None:
    try:
        return log_dir.read(name, limit=_LIMIT)
    except FileNotFoundError:
        return None


def _unreadable(
    rule: str, log_dir: SourceRoot, name: str, data: bytes, error: Exception
) -> Finding:
    line = error.line if isinstance(error, CorruptCheckpointError) else None
    is_damage = isinstance(error, DamagedFileError)
    position = error.position if isinstance(error, DamagedFileError) else None
    if position is None and line is not None:
        position = _start_of_line(data, line)
    return found(
        rule,
        log_dir.display(name),
        error.reason if isinstance(error, DamagedFileError) else str(error),
        position=position,
        length=None if position is None else len(data) - position,
        line=line,
        expected=error.expected if isinstance(error, DamagedFileError) else None,
        found=error.found if is_damage and isinstance(error, DamagedFileError) else None,
    )


def _start_of_line(data: bytes, line: int) -> Position:
    """Where a line begins, the first is 1; the end of the data when there is no such line."""
    return len(b"".join(data.splitlines(keepends=True)[: line - 1]))


def _checkpoint(
    log_dir: SourceRoot, name: str, folders: set[str] | None, is_clean: bool
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
        data = _read(log_dir, name) or b""
        parse_checkpoint(data, entry, path=name)
    except DamagedFileError as error:
        yield _unreadable("checkpoint-unreadable", log_dir, name, data, error)
        return
    except OSError as error:
        if not isinstance(error, SourceRefusedError):
            yield found("file-unreadable", log_dir.display(name), f"it cannot be read: {error}")
        return
    path = log_dir.display(name)
    for partition in twice:
        sentence = f"{partition} is named twice; the last counts"
        yield found("checkpoint-twice", path, sentence)
    for partition, offset in seen.items():
        if offset < 0:
            yield found("checkpoint-negative", path, f"{partition} has the offset {offset}")
    absent = [
        str(each) for each in seen if folders is not None and folder_name(each) not in folders
    ]
    if absent:
        is_sure = is_clean and name != CLEANER_OFFSET_CHECKPOINT
        others = f", nor have {len(absent) - 1} others" if len(absent) > 1 else ""
        yield found(
            "checkpoint-without-folder",
            path,
            f"{absent[0]} is named, and has no folder here{others}",
            severity=None if is_sure else Severity.NOTE,
            topicPartitions=absent[:1000],
        )


def _clean_shutdown(log_dir: SourceRoot) -> Iterator[Finding]:
    data = b""
    try:
        data = _read(log_dir, CLEAN_SHUTDOWN) or b""
        parse_clean_shutdown(data)
    except DamagedFileError as error:
        yield _unreadable("clean-shutdown-unreadable", log_dir, CLEAN_SHUTDOWN, data, error)
    except OSError as error:
        if not isinstance(error, SourceRefusedError):
            path = log_dir.display(CLEAN_SHUTDOWN)
            yield found("file-unreadable", path, f"it cannot be read: {error}")


def _meta_properties(source: LogSource, log_dir: SourceRoot) -> Iterator[Finding]:
    path, data = log_dir.display(META_PROPERTIES), b""
    try:
        text = _read(log_dir, META_PROPERTIES)
        if text is None:
            yield found("meta-properties", path, "there is no such file", severity=Severity.NOTE)
            return
        data = text
        mine = parse_meta_properties(data, path=META_PROPERTIES)
    except DamagedFileError as error:
        yield _unreadable("meta-properties", log_dir, META_PROPERTIES, data, error)
        return
    except OSError as error:
        if not isinstance(error, SourceRefusedError):
            yield found("file-unreadable", path, f"it cannot be read: {error}")
        return
    yield from _other_log_dirs(source, log_dir, mine)


def _other_log_dirs(
    source: LogSource, log_dir: SourceRoot, mine: MetaProperties
) -> Iterator[Finding]:
    """What contradicts log dirs that were named before this one: those of a broker share all but the directory id."""
    path = log_dir.display(META_PROPERTIES)
    for other_dir, other in zip(source.log_dirs, source.meta_properties, strict=True):
        if other_dir is None or other_dir is log_dir or other_dir.path == log_dir.path:
            return
        if other is None:
            continue
        pairs = {"cluster.id": (mine.cluster_id, other.cluster_id)}
        pairs["node.id"] = (_text(mine.node_id), _text(other.node_id))
        for what, (ours, theirs) in pairs.items():
            if ours is not None and theirs is not None and ours != theirs:
                yield found(
                    "meta-properties",
                    path,
                    f"the {what} is {ours}, and that of {other_dir.path} is {theirs}",
                    expected=theirs,
                    found=ours,
                )
        if mine.directory_id is not None and mine.directory_id == other.directory_id:
            yield found(
                "meta-properties",
                path,
                f"the directory.id {mine.directory_id} is that of {other_dir.path} too",
                found=mine.directory_id,
            )


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
