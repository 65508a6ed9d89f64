"""Check meta.properties of a log dir: whether a broker starts with it, and whether the log dirs belong together.

A KRaft broker needs node.id and cluster.id in it. They are compared with the rest of the source: the other log dirs and
the cluster's metadata. A cluster.id without another copy cannot be checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.check.files.unreadable_file import contents, unreadable_file
from engine.check.rules.finding import Finding, failed_read, found
from engine.check.rules.rules import Severity
from engine.checkpoint.base64_uuid import RESERVED_DIRECTORY_IDS
from engine.checkpoint.meta_properties import KNOWN_KEYS, MetaProperties, parse_meta_properties
from engine.checkpoint.properties_file import parse_properties
from engine.errors import DamagedFileError, SourceRefusedError
from engine.files.file_names import CLEAN_SHUTDOWN, META_PROPERTIES, RECOVERY_POINT_CHECKPOINT
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.units import TopicPartition

_POWER_CUT = "a power failure can leave this in a file written shortly before"
_MANIFEST = re.compile(r"kafkafs-[a-z]+\.json")
"""Manifest of `kafkafs rebuild` or Spark's writer in a log dir written by them."""
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]+")


def check_meta_properties(
    source: LogSource, log_dir: SourceRoot, *, is_whole: bool
) -> Iterator[Finding]:
    """Yield findings about values that keep a broker from starting, or contradict other log dirs.

    Args:
        source: the whole source.
        log_dir: the log dir of the file.
        is_whole: whether the whole log dir is in the source.
    """
    path, data = log_dir.display(META_PROPERTIES), b""
    try:
        stored = contents(log_dir, META_PROPERTIES)
        if stored is None:
            yield _absent(log_dir, is_whole=is_whole)
            return
        data = stored
        if not data.strip(b"\0 \t\f\r\n"):
            yield _empty(path, data)
            return
        keys = parse_properties(data, path=META_PROPERTIES).keys()
        if not keys & KNOWN_KEYS:
            yield found(
                "meta-properties",
                path,
                f"its {len(data)} bytes have no property that a broker knows",
                position=0,
                length=len(data),
            )
            return
        yield from _unknown_keys(path, sorted(keys - KNOWN_KEYS))
        mine = parse_meta_properties(data, path=META_PROPERTIES)
    except DamagedFileError as error:
        yield unreadable_file("meta-properties", log_dir, META_PROPERTIES, data, error)
        return
    except OSError as error:
        if not isinstance(error, SourceRefusedError):
            yield found("file-unreadable", path, **failed_read(error))
        return
    yield from _stated(path, mine)
    yield from _directory_id(source, path, mine)
    yield from _other_log_dirs(source, log_dir, mine)


def _absent(log_dir: SourceRoot, *, is_whole: bool) -> Finding:
    """Return the finding for a missing file. Only a broker's log dir needs it: not a copy, nor kafkafs's own output."""
    names = {entry.name for entry in log_dir.list()}
    is_written = any(_MANIFEST.fullmatch(name) for name in names)
    is_of_broker = (
        is_whole and not is_written and names & {CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT}
    )
    return found(
        "meta-properties",
        log_dir.display(META_PROPERTIES),
        "the file is missing: a KRaft broker does not start without it",
        severity=None if is_of_broker else Severity.NOTE,
    )


def _empty(path: str, data: bytes) -> Finding:
    what = f"the file is {len(data)} zeros" if data.strip(b" \t\f\r\n") else "the file is empty"
    return found(
        "meta-properties", path, f"{what}: {_POWER_CUT}", position=0, length=len(data), found=what
    )


def _unknown_keys(path: str, names: list[str]) -> Iterator[Finding]:
    for name in names[:20]:
        yield found(
            "meta-properties",
            path,
            f"unknown property {name[:60]!a}: brokers ignore it",
            severity=Severity.WARNING,
            advice="Correct the name of the property, or remove it, while no broker runs.",
            found=name[:200],
        )


def _stated(path: str, mine: MetaProperties) -> Iterator[Finding]:
    """Check the values that a KRaft broker requires, whatever the version."""
    if mine.node_id is None:
        name = "version=1 and node.id" if mine.version.has_broker_id else "node.id"
        yield found("meta-properties", path, f"there is no {name}")
    elif mine.node_id < 0:
        sentence = f"the node.id {mine.node_id} is negative"
        yield found("meta-properties", path, sentence, expected="at least 0", found=mine.node_id)
    if mine.cluster_id is None:
        yield found("meta-properties", path, "there is no cluster.id")
    elif not _CLUSTER_ID.fullmatch(mine.cluster_id):
        yield found(
            "meta-properties",
            path,
            f"the cluster.id {mine.cluster_id[:60]!a} does not have the form of Kafka's ids",
            severity=Severity.WARNING,
            found=mine.cluster_id[:200],
        )


def _directory_id(source: LogSource, path: str, mine: MetaProperties) -> Iterator[Finding]:
    if mine.directory_id in RESERVED_DIRECTORY_IDS:
        sentence = f"the directory.id {mine.directory_id} is reserved"
        yield found("meta-properties", path, sentence, found=mine.directory_id)
    elif mine.directory_id is None and not mine.version.has_broker_id:
        others_have = any(each and each.directory_id for each in source.meta_properties)
        yield found(
            "meta-properties",
            path,
            "there is no directory.id: a broker of 3.7 or later makes a new one when it starts",
            severity=Severity.WARNING if others_have else Severity.NOTE,
            advice="Normal before Kafka 3.7. If there was one, the cluster treats the log dir as new.",
        )


def _other_log_dirs(
    source: LogSource, log_dir: SourceRoot, mine: MetaProperties
) -> Iterator[Finding]:
    """Compare with the log dirs named before this one: those of one broker share all values but directory.id."""
    path = log_dir.display(META_PROPERTIES)
    for other_dir, other in zip(source.log_dirs, source.meta_properties, strict=True):
        if other_dir is None or other_dir is log_dir or other_dir.path == log_dir.path:
            return
        if other is None:
            continue
        pairs = {"cluster.id": (mine.cluster_id, other.cluster_id)}
        pairs["node.id"] = (_text(mine.node_id), _text(other.node_id))
        for what, (ours, theirs) in pairs.items():
            if None not in (ours, theirs) and ours != theirs:
                if what == "node.id" and _have_copies(source, log_dir, other_dir):
                    continue
                yield found(
                    "meta-properties",
                    path,
                    f"the {what} is {ours}, but that of {other_dir.path} is {theirs}",
                    expected=theirs,
                    found=ours,
                )
        if mine.directory_id is not None and mine.directory_id == other.directory_id:
            yield found(
                "meta-properties",
                path,
                f"the directory.id {mine.directory_id} is also that of {other_dir.path}",
                found=mine.directory_id,
            )


def _have_copies(source: LogSource, log_dir: SourceRoot, other: SourceRoot) -> bool:
    """Return whether two log dirs have copies of a partition: then they are of two brokers."""
    names: dict[str, set[TopicPartition]] = {log_dir.path: set(), other.path: set()}
    for log in source.partitions().values():
        if log.root.path in names:
            names[log.root.path].add(log.topic_partition)
    return not names[log_dir.path].isdisjoint(names[other.path])


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
