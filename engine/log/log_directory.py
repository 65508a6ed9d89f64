"""Sources as an operator names them: log dirs, one partition's folder, one records file, tiered copies.

Opening a source lists only its top folder; the folder of a partition is listed when its view is asked for.
"""

from __future__ import annotations

import resource
from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from threading import Lock
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.checkpoint.meta_properties import MetaProperties
from engine.errors import DamagedFileError, SourceError, SourceGoneError
from engine.files.folder_entries import EntryKind
from engine.files.read_failures import REFUSED, error_name, reason_of, way_out
from engine.files.silent_reads import SilentReads
from engine.files.source_files import SourceRoot
from engine.files.source_presence import NO_ANSWER, no_answer
from engine.files.stores import STORES
from engine.log.held_up import unless_held_up
from engine.log.log_dirs_below import is_partition_name
from engine.log.partition_log import LogCut, PartitionLog, Placed, Shared, most_open
from engine.log.segment.damage import DamageKind
from engine.log.segment.problems import ProblemEntry, Problems
from engine.log.source_checkpoints import SourceCheckpoints
from engine.log.source_directory import NOT_FOLLOWED, OtherEntry, SourceDirectory
from engine.log.source_identity import HINT, identify, readable
from engine.log.tiered.root import TieredRoot

if TYPE_CHECKING:
    from engine.log.joined_logs import Join, JoinedLog

MAX_AGE = 0.2
_TIERED = "tiered"
_SPARE_DESCRIPTORS = 256
_FILES_BESIDE = frozenset({"checkpoint", "meta_properties"})
"""Kinds of problems of files beside the partitions."""


class Unread(NamedTuple):
    """A folder or file that could not be read; `path` as shown to people, `errno` by `read_failures.error_name`."""

    path: str
    reason: str
    errno: str

    @classmethod
    def of(cls, path: str, error: Exception) -> Unread:
        """Return the entry for an error at a path."""
        return cls(path, reason_of(error), error_name(error))

    @classmethod
    def link(cls, path: str) -> Unread:
        """Return the entry for a symbolic link, which a broker follows and the engine does not."""
        return cls(path, NOT_FOLLOWED, REFUSED)

    def __str__(self) -> str:
        hint = way_out(self.errno)
        return f"{self.path}: {self.reason}" + (f" ({hint})" if hint else "")


class LogSource:
    """All paths of one source; safe from several threads. Made by `open_source`.

    Attributes:
        is_snapshot: whether the source shows the files as they were when it was opened.
        cut: what shows the logs as they were at some moment; None for now.
        budgets: limits for reads.
        facts: what `engine.verdict` knows of the source; None until somebody asks for it.
    """

    def __init__(
        self,
        directories: Sequence[SourceDirectory],
        problems: Problems,
        *,
        snapshot: bool,
        cut: LogCut | None,
        budgets: Budgets,
        join: Join | None = None,
    ) -> None:
        self.is_snapshot = snapshot
        self.cut = cut
        self.budgets = budgets
        self.facts: object = None
        self._directories = directories
        self._is_live = [each.is_live for each in directories]  # one bound method for all logs
        self._problems = problems
        self._shared = Shared(budgets, cut, self)
        for directory in directories:
            directory.root.when_exhausted = self._shared.open_segments.let_all_go
        self._lock = Lock()
        self._silence: SilentReads | None = None
        self._checked: float | None = None
        self._logs: dict[tuple[int, str], PartitionLog] = {}
        self._join = join
        self._metas: Sequence[MetaProperties | None] = (
            () if join is None or len(directories) < 2 else self.meta_properties
        )
        self._joined: dict[str, tuple[list[PartitionLog], JoinedLog]] = {}
        self._replicas: Mapping[str, PartitionLog] = MappingProxyType({})
        self._shown: frozenset[str] = frozenset()
        self._partitions: Mapping[str, PartitionLog] = MappingProxyType({})
        self._others: tuple[OtherEntry, ...] = ()

    def __repr__(self) -> str:
        return f"LogSource({', '.join(repr(root.path) for root in self.roots)})"

    @property
    def roots(self) -> tuple[SourceRoot, ...]:
        """Folders of the source, in the order they were named."""
        return tuple(directory.root for directory in self._directories)

    @property
    def log_dirs(self) -> tuple[SourceRoot | None, ...]:
        """Log dir of each root: the root, the folder above a partition's, or None."""
        return tuple(directory.log_dir for directory in self._directories)

    def partitions(self, max_age: float = MAX_AGE) -> Mapping[str, PartitionLog]:
        """Return all partitions by name, in the order of their names.

        The name is the folder's, with "@2" for a partition's second folder in a later log dir.
        """
        self._look(max_age)
        return self._partitions

    def replicas(self, max_age: float = MAX_AGE) -> Mapping[str, PartitionLog]:
        """Return the copies of partitions in the log dirs of several nodes, by the name with "@" and the node id.

        Empty for log dirs of one node. The `partitions` do not list the copies, and find them by name.
        """
        self._look(max_age)
        return self._replicas

    def show_copies(self, names: Iterable[str]) -> None:
        """List from now on some copies, as `replicas` names them, in place of the logs that they are joined to."""
        self._shown = self._shown.union(names) & self.replicas().keys()
        if self._shown:
            self._sort()

    @property
    def nodes(self) -> Sequence[int]:
        """Ids of the nodes whose log dirs are read as one cluster; empty for the log dirs of one node."""
        cluster = next((meta.cluster_id for meta in self._metas if meta is not None), None)
        ids = {
            meta.node_id
            for meta in self._metas
            if meta is not None and meta.cluster_id == cluster and meta.node_id is not None
        }
        return sorted(ids) if len(ids) > 1 else ()

    @property
    def is_one_log(self) -> bool:
        """Whether the operator named one partition's folder or one file, and not a log dir."""
        return len(self._directories) == 1 and self._directories[0].fixed is not None

    @property
    def others(self) -> tuple[OtherEntry, ...]:
        """Entries of the log dirs that are neither a partition nor a file of a log dir."""
        self._look(MAX_AGE)
        return self._others

    @property
    def problems(self) -> list[ProblemEntry]:
        """Problems found so far in the source and its partitions."""
        found = self._problems.entries()
        for log in self._all_logs():
            if len(log.problems):
                found += log.problems.entries()
        return found

    def _all_logs(self) -> list[PartitionLog]:
        return [*self._logs.values(), *(joined for _, joined in self._joined.values())]

    def unread(self) -> list[Unread]:
        """Return the folders and files that could not be read so far."""
        found = self._unread() + [
            Unread(log.display(entry["file"]), entry["reason"], entry["errno"])
            for log in self._all_logs()
            if len(log.problems)
            for entry in log.problems.entries()
            if "errno" in entry
        ]
        # A key that is missing is one fact, however many files it would open.
        locked = {each.reason: each for each in reversed(found) if each.errno == "ENOKEY"}
        return [each for each in found if each.errno != "ENOKEY"] + [*locked.values()]

    def unread_beside(self) -> list[Unread]:
        """Return the files beside the partitions, such as checkpoints, that could not be read so far."""
        return self._unread(_FILES_BESIDE)

    def _unread(self, kinds: Container[object] | None = None) -> list[Unread]:
        return [
            Unread(entry["file"], entry["reason"], entry["errno"])
            for entry in self._problems.entries()
            if "errno" in entry and (kinds is None or entry["kind"] in kinds)
        ]

    def unread_folders(self) -> list[Unread]:
        """Return the partitions' folders that are symbolic links, which a broker follows and the engine does not."""
        return [
            Unread.link(each.root.display(each.name))
            for each in self.others
            if each.kind is EntryKind.SYMLINK and is_partition_name(each.name)
        ]

    @property
    def broker_pid(self) -> int | None:
        """Process id of the broker that has the source open, 0 if unknown, None without a broker."""
        pids = (directory.broker_pid() for directory in self._directories)
        return next((pid for pid in pids if pid is not None), None)

    @property
    def meta_properties(self) -> tuple[MetaProperties | None, ...]:
        """The meta.properties of each root's log dir."""
        return tuple(directory.meta_properties() for directory in self._directories)

    def check_there(self) -> None:
        """Check that every folder of the source is still there.

        Raises SourceGoneError: a list of the partitions would lack those of the deleted folder.
        """
        self._look(MAX_AGE)
        if self.is_snapshot:
            return
        for directory in self._directories:
            try:
                directory.check_there()
            except SourceGoneError as error:
                self._problems.add_error("source_gone", directory.root.path, error)
                raise

    def are_of_two_nodes(self, root: SourceRoot, other: SourceRoot) -> bool:
        """Return whether the meta.properties of two roots' log dirs have different node ids, or one is tiered copies."""
        nodes = {each.node for each in self._directories if each.root in (root, other)}
        tiered = {isinstance(each, TieredRoot) for each in (root, other)}
        return len(tiered) > 1 or (len(nodes) > 1 and None not in nodes)

    def checkpoints(self, root: SourceRoot) -> SourceCheckpoints:
        """Return the offset checkpoints of a root's log dir."""
        return next(each.checkpoints for each in self._directories if each.root is root)

    def watch_silence(self, log: Callable[[str], object]) -> None:
        """Tell from now on, in `problems` and to a log, which files give no answer. For processes that run for long."""

        def tell(path: str, sentence: str) -> None:
            self._problems.add("no_answer", path, f"{sentence} from {path}")
            log(f"{sentence} from {path}")

        self._silence = SilentReads(tell, lambda path, sentence: log(f"{path} {sentence}"))
        self._silence.start()

    def close(self) -> None:
        """Close the folders; files that are held elsewhere stay open."""
        if self.cut is not None:
            self.cut.close()
        if self._silence is not None:
            self._silence.stop()
        for directory in self._directories:
            directory.root.close()
            if directory.log_dir is not None:
                directory.log_dir.close()

    def _look(self, max_age: float) -> None:
        checked = self._checked
        if checked is not None and (self.is_snapshot or monotonic() - checked < max_age):
            return
        with unless_held_up(self._lock, must_wait=checked is None) as is_mine:
            if not is_mine or (self._checked is not None and self.is_snapshot):
                return
            now = monotonic()
            looks = [self._look_at(directory, now) for directory in self._directories]
            if any(looks) or self._checked is None:
                self._sort()
            self._checked = now

    def _look_at(self, directory: SourceDirectory, now: float) -> bool:
        """Return whether a folder's entries have changed; the partitions of a deleted folder stay, and raise errors."""
        try:
            return directory.look(now)
        except OSError as error:
            try:
                directory.check_there()
            except SourceGoneError as gone_error:
                self._problems.add_error("source_gone", directory.root.path, gone_error)
                return False
            if error.errno in NO_ANSWER:
                # The check above passed by attributes that the system had cached.
                lost = no_answer(error.errno, directory.root.path)
                self._problems.add_error("source_gone", directory.root.path, lost)
                raise lost from None
            raise error from None

    def _sort(self) -> None:
        """Name the partitions and other entries; known partitions stay the same objects."""
        named: dict[str, PartitionLog] = {}
        others: list[OtherEntry] = []
        logs: dict[tuple[int, str], PartitionLog] = {}
        placed = [self._placed(directory) for directory in self._directories]
        copies = self._copies(placed) if self._metas else {}
        replicas: dict[str, PartitionLog] = {}
        alone: list[tuple[int, Placed]] = []
        for place, directory in enumerate(self._directories):
            for found in placed[place]:
                if isinstance(found, OtherEntry):
                    others.append(found)
                elif (key := (place, found.folder)) in copies:
                    name = self._free_name(f"{found.name}@{copies[key]}", replicas, directory)
                    replicas[name] = logs[key] = self._partition(place, found, name)
                else:
                    alone.append((place, found))
        if copies:
            self._join_copies(logs, copies, named)
        taken = ChainMap(named, replicas) if replicas else named
        for place, found in alone:
            name = self._free_name(found.name, taken, self._directories[place])
            named[name] = logs[place, found.folder] = self._partition(place, found, name)
        self._logs = logs
        self._others = tuple(others)
        self._replicas = MappingProxyType(replicas)
        listed = {name: named[name] for name in sorted(named)}
        if replicas:
            # Imported here: most sources are of one node.
            from engine.log.joined_logs import NamedLogs

            shown = {name.partition("@")[0]: replicas[name] for name in self._shown & set(replicas)}
            listed = NamedLogs(listed | shown, replicas)
        self._partitions = MappingProxyType(listed)

    def list_again(self) -> None:
        """Ask the cut again which folders are the logs."""
        with self._lock:
            self._sort()

    def _placed(self, directory: SourceDirectory) -> list[Placed | OtherEntry]:
        found = list(directory.placed())
        if self.cut is None:
            return found
        then = (
            each if isinstance(each, OtherEntry) else self.cut.placed(directory.root, each)
            for each in found
        )
        return [each for each in then if each is not None]

    def _copies(
        self, placed: Sequence[Sequence[Placed | OtherEntry]]
    ) -> dict[tuple[int, str], str]:
        """Return the nodes of the folders of partitions that several nodes have, by place of the log dir and folder.

        Tiered copies count as a node.
        """
        known = [meta.cluster_id for meta in self._metas if meta is not None]
        found: dict[str, list[tuple[int, str]]] = {}
        nodes = [_TIERED if isinstance(root, TieredRoot) else "" for root in self.roots]
        for place, meta in enumerate(self._metas):
            if meta is not None and meta.node_id is not None and meta.cluster_id == known[0]:
                nodes[place] = str(meta.node_id)
            for each in placed[place] if nodes[place] else ():
                if isinstance(each, Placed) and each.is_log and each.is_named:
                    found.setdefault(each.name, []).append((place, each.folder))
        return {
            key: nodes[key[0]]
            for keys in found.values()
            if len({nodes[place] for place, _ in keys}) > 1
            for key in keys
        }

    def _join_copies(
        self,
        logs: Mapping[tuple[int, str], PartitionLog],
        copies: Mapping[tuple[int, str], str],
        named: dict[str, PartitionLog],
    ) -> None:
        assert self._join is not None
        places: dict[str, list[tuple[int, str]]] = {}
        for key in copies:
            places.setdefault(logs[key].name.partition("@")[0], []).append(key)
        joined: dict[str, tuple[list[PartitionLog], JoinedLog]] = {}
        for name, keys in places.items():
            members = [logs[key] for key in keys]
            known = self._joined.get(name)
            if known is None or known[0] != members:
                pairs = [(logs[key], self._metas[key[0]]) for key in keys]
                known = members, self._join(name, pairs, self._shared)
            joined[name] = known
            named[name] = known[1]
        self._joined = joined

    def _free_name(
        self, name: str, taken: Mapping[str, PartitionLog], directory: SourceDirectory
    ) -> str:
        if name not in taken:
            return name
        number = 2
        while f"{name}@{number}" in taken:
            number += 1
        other, nodes = taken[name].root, {each.root: each.node for each in self._directories}
        reason = (
            f"{name} is also in {other.path}, which comes first and is the log;"
            f" this one is shown as {name}@{number}"
        )
        if None not in (nodes[other], directory.node) and nodes[other] != directory.node:
            reason = (
                f"{name} is also in {other.path}, of node {nodes[other]};"
                f" this copy, of node {directory.node}, is shown as {name}@{number}"
            )
        self._problems.add("second_copy", directory.root.display(name), reason)
        return f"{name}@{number}"

    def _partition(self, place: int, found: Placed, name: str) -> PartitionLog:
        """Return the log of a folder: the one that is known by the name, or a new one."""
        known, directory = self._logs.get((place, found.folder)), self._directories[place]
        if known is not None and known.name == name:
            return known
        log = PartitionLog(
            directory.root,
            found.folder,
            name=name,
            topic_partition=found.topic_partition,
            checkpoints=directory.checkpoints
            if found.is_log and found.is_named
            else directory.no_checkpoints,
            budgets=self.budgets,
            frozen=self.is_snapshot,
            only=found.only,
            shared=self._shared,
            is_live=self._is_live[place],
        )
        log.is_named = found.is_named
        return log

    def freeze(self) -> None:
        """Open all files of a snapshot, as far as there are descriptors."""
        left = _raised_descriptor_limit() - _SPARE_DESCRIPTORS
        for log in self.partitions().values():
            try:
                left -= log.freeze(left)
            except (DamagedFileError, OSError) as error:
                log.problems.add_error(DamageKind.UNREADABLE, log.folder, error)


def open_source(
    paths: str | Sequence[str],
    *,
    snapshot: bool = False,
    cross_device: bool = False,
    cut: LogCut | None = None,
    budgets: Budgets = DEFAULT_BUDGETS,
    join: Join | None = None,
) -> LogSource:
    """Open the paths of an operator for reading.

    Args:
        paths: log dirs, partition folders, .log files or tiered copies.
        snapshot: show the files as they are now, even when they are changed or deleted later.
        cross_device: enter other file systems mounted in the source.
        cut: shows the logs as they were at some moment; None for now.
        budgets: limits for reads.
        join: joins the copies of a partition in log dirs of several nodes; without it each log dir is its own, and the
            first one of a name is the log.

    Raises:
        SourceError: a path is missing, cannot be read, is empty, or has no files of Kafka.
    """
    if not (names := list(map(STORES.local, [paths] if isinstance(paths, str) else paths))):
        raise SourceError("no source was named", hint=HINT)
    problems = Problems()
    directories = []
    for name in names:
        with readable(name):
            found = identify(name, open_files=most_open(budgets), cross_device=cross_device)
            directories.append(SourceDirectory(found, problems, snapshot, budgets))
            directories[-1].look(monotonic())
    source = LogSource(
        directories, problems, snapshot=snapshot, cut=cut, budgets=budgets, join=join
    )
    if snapshot:
        source.freeze()
    return source


def _raised_descriptor_limit() -> int:
    """Raise this process's limit of descriptors as far as possible, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 20
    if hard == resource.RLIM_INFINITY or hard > soft:
        wanted = 1 << 20 if hard == resource.RLIM_INFINITY else hard
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
        return wanted
    return soft
