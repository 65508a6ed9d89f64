"""`/state/`: meta.properties, checkpoints, partitions and leftovers of the log dirs, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.checkpoint.properties_file import parse_properties
from engine.errors import InvalidNameError, KafkaStorageError
from engine.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    parse_folder_name,
)
from engine.files.source_files import SourceRoot
from engine.json_facts import facts_of
from kafkafs.decode.error_line import exception_facts
from kafkafs.decode.shown_text import pretty_json
from kafkafs.tree.context import Context
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import fixed_entries
from kafkafs.tree.node import Attrs, Directory, Entry, Kind, Node
from kafkafs.tree.plain_files import MadeFile

CHECKPOINTS = (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


class RootStateFolder(Directory):
    """`/state/`."""

    __slots__ = ("_context",)

    def __init__(self, path: str, context: Context) -> None:
        super().__init__(path)
        self._context = context

    def attrs(self) -> Attrs:
        context = self._context
        return context.root_owner().directory(self.path, context.ttl(context.is_live))

    def lookup(self, name: str) -> Node:
        make = _FILES.get(name)
        if make is None:
            raise NotFound(self.child(name))
        context = self._context
        owner = context.root_owner()
        return MadeFile(
            self.child(name),
            lambda _cancel: pretty_json(make(context)),
            owner,
            ttl=context.ttl(context.is_live),
            memo=context.memo,
            # Sizes of files and the broker's process change without a trace in the log dirs' own times.
            version=None if context.is_snapshot else object(),
        )

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return fixed_entries(self, [(name, Kind.FILE) for name in _FILES], after)


def meta_properties(context: Context) -> list[dict[str, Any]]:
    """Return meta.properties of each log dir, and the broker that has it open."""
    found = []
    for root in context.source.roots:
        facts: dict[str, Any] = {"logDir": root.path}
        pid = root.broker_pid()
        facts |= {"live": pid is not None, "brokerPid": pid or None}
        try:
            facts["properties"] = parse_properties(_read(context, root, META_PROPERTIES))
        except FileNotFoundError:
            facts["properties"] = None
        except (KafkaStorageError, OSError) as error:
            facts["error"] = exception_facts(error)
        facts["cleanShutdown"] = _exists(root, CLEAN_SHUTDOWN)
        found.append(facts)
    return found


def checkpoints(context: Context) -> list[dict[str, Any]]:
    """Return the offset checkpoints of each log dir."""
    found = []
    for root in context.source.roots:
        facts: dict[str, Any] = {"logDir": root.path}
        for name in CHECKPOINTS:
            try:
                entries = parse_offset_checkpoint(_read(context, root, name), path=name)
            except FileNotFoundError:
                continue
            except (KafkaStorageError, OSError) as error:
                facts[name] = {"error": exception_facts(error)}
                continue
            facts[name] = [
                {"topic": key.topic, "partition": key.partition, "offset": offset}
                for key, offset in sorted(entries.items())
            ]
        found.append(facts)
    return found


def partitions(context: Context) -> list[dict[str, Any]]:
    """Return the partition folders and their states (log, delete, future, stray), without opening any."""
    from engine.log.joined_logs import JoinedLog

    found = []
    for name, log in sorted(context.source.partitions().items()):
        topic, number = log.topic_partition
        found.append(
            {
                "name": name,
                "topic": topic,
                "partition": number,
                "logDir": log.root.path,
                "folder": log.folder,
                "state": _folder_state(log.folder),
                **({"nodes": list(log.nodes)} if isinstance(log, JoinedLog) else {}),
            }
        )
    return found


def leftovers(context: Context) -> list[dict[str, Any]]:
    """Return the entries of the log dirs that are neither partitions nor files of a log dir."""
    return [
        facts_of(other, "logDir=root.path name kind=kind.value reason")
        for other in context.source.others
    ]


def _folder_state(folder: str) -> str | None:
    try:
        return parse_folder_name(folder).state.name.lower()
    except InvalidNameError:
        return None


def summary(context: Context) -> dict[str, Any]:
    """Return the source in numbers, from the names and sizes of its files; no record is read."""
    logs = context.source.partitions()
    topics = {log.topic_partition.topic for log in logs.values()}
    segments = size = 0
    unread = []
    for name, log in logs.items():
        try:
            view = log.view()
            segments += len(view)
            size += view.size
        except (KafkaStorageError, OSError) as error:
            unread.append({"partition": name, "error": exception_facts(error)})
        if not context.is_snapshot:
            log.forget()
    return {
        "logDirs": [root.path for root in context.source.roots],
        "live": context.is_live,
        "snapshot": context.is_snapshot,
        "topics": len(topics),
        "partitions": len(logs),
        "segments": segments,
        "segmentBytes": size,
        "leftovers": len(context.source.others),
        "unread": unread,
    }


_FILES: dict[str, Callable[[Context], Any]] = {
    "summary.json": summary,
    "meta.properties.json": meta_properties,
    "checkpoints.json": checkpoints,
    "partitions.json": partitions,
    "leftovers.json": leftovers,
}


def _read(context: Context, root: SourceRoot, name: str) -> bytes:
    return root.read(name, limit=context.budgets.checkpoint_bytes)


def _exists(root: SourceRoot, name: str) -> bool:
    try:
        root.stat(name)
    except (OSError, KafkaStorageError):
        return False
    return True
