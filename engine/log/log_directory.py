"""Sources as an operator names them: log dirs, one partition's folder, one records file, tiered copies.

Opening a source lists only its top folder; the folder of a partition is listed when its view is asked for.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from threading import Lock
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.checkpoint.meta_properties import MetaProperties, parse_meta_properties
from engine.errors import DamagedFileError, InvalidNameError, SourceError, SourceGoneError
from engine.files.change_watch import FolderWatch
from engine.files.file_names import META_PROPERTIES, FolderState, parse_file_name, parse_folder_name
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.read_failures import REFUSED, error_name, reason_of, way_out
from engine.files.silent_reads import SilentReads
from engine.files.source_files import SourceRoot
from engine.files.source_presence import NO_ANSWER, gone, no_answer
from engine.log.held_up import unless_held_up
from engine.log.log_dirs_below import LOG_DIR_FILES, is_partition_name
from engine.log.partition_log import PartitionLog, Shared, most_open
from engine.log.segment.damage import DamageKind
from engine.log.segment.problems import ProblemEntry, Problems
from engine.log.source_checkpoints import SourceCheckpoints
from engine.log.source_identity import HINT, Identified, Placed, identify, readable
from engine.units import Timestamp

MAX_AGE = 0.2
NOT_FOLLOWED = "a symbolic link, not followed"
_LIVE_MAX_AGE = 1.0
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


class OtherEntry(NamedTuple):
    """An entry of a log dir that is neither a partition nor a file of the log dir, and the reason."""

    root: SourceRoot
    name: str
    kind: EntryKind
    reason: str


class _Directory:
    """One of a source's paths: a log dir, or a part of one.

    Attributes:
        root: the folder of the path.
        log_dir: the log dir that the path is or is in; None without one.
        fixed: the one partition, when the path is not a log dir.
    """

    def __init__(
        self, found: Identified, problems: Problems, frozen: bool, budgets: Budgets
    ) -> None:
        self.root, self.log_dir, self.fixed = found
        self.checkpoints = SourceCheckpoints(self.log_dir, problems, frozen=frozen, budgets=budgets)
        self.no_checkpoints = SourceCheckpoints(None, problems)
        self._problems = problems
        self._budgets = budgets
        self._watch = FolderWatch(self.root, "")
        self._live: tuple[float, int | None] | None = None
        self._is_emptied = False
        self.entries: Sequence[SourceEntry] = ()

    def look(self, now: float) -> bool:
        """List the log dir if it may have changed; return whether its entries have changed.

        Raises SourceGoneError, and keeps the last entries.
        """
        if self.fixed is not None or not self._watch.must_list(now):
            return False
        before, entries = self.entries, sorted(self.root.list())
        # A broker deletes partitions one by one, and never meta.properties.
        self._is_emptied = not entries and len(self.entries) > 1
        self.entries = self.entries if self._is_emptied else entries
        self.check_there()
        return self.entries != before

    def check_there(self) -> None:
        """Raise SourceGoneError when the folder or all its entries were deleted."""
        self.root.check_there()
        if self._is_emptied:
            raise gone("everything in the source folder was deleted", self.root.path)

    def broker_pid(self) -> int | None:
        """Return the process that holds the log dir's lock, at most a second old."""
        now, known = monotonic(), self._live
        if known is None or now - known[0] > _LIVE_MAX_AGE:
            pid = None if self.log_dir is None else self.log_dir.broker_pid()
            self._live = known = now, pid
        return known[1]

    def is_live(self) -> bool:
        """Return whether a broker has the log dir open."""
        return self.broker_pid() is not None

    def meta_properties(self) -> MetaProperties | None:
        """Return the log dir's meta.properties; None when it is missing or broken."""
        if self.log_dir is None:
            return None
        try:
            data = self.log_dir.read(META_PROPERTIES, limit=self._budgets.checkpoint_bytes)
            return parse_meta_properties(data, path=META_PROPERTIES)
        except FileNotFoundError:
            return None
        except (DamagedFileError, OSError) as error:
            self._problems.add_error(
                "meta_properties", self.log_dir.display(META_PROPERTIES), error
            )
            return None

    def placed(self) -> Iterator[Placed | OtherEntry]:
        """Yield the partitions and the other entries."""
        if self.fixed is not None:
            yield self.fixed
        for entry in self.entries:
            found = self._place(entry)
            if found is not None:
                yield found

    def _place(self, entry: SourceEntry) -> Placed | OtherEntry | None:
        name, kind = entry
        if kind is EntryKind.SYMLINK:
            return OtherEntry(self.root, name, kind, NOT_FOLLOWED)
        if kind is EntryKind.OTHER:
            return OtherEntry(self.root, name, kind, "neither a file nor a folder")
        if kind is EntryKind.FILE:
            parsed = parse_file_name(name)
            if parsed is not None and parsed.kind in LOG_DIR_FILES:
                return None
            return OtherEntry(self.root, name, kind, "no file of a log dir has such a name")
        try:
            parsed_folder = parse_folder_name(name)
            is_log = parsed_folder.state is FolderState.LOG
            return Placed(name, name, parsed_folder.topic_partition, is_log=is_log)
        except InvalidNameError:
            return OtherEntry(self.root, name, kind, "not the name of a partition's folder")


class LogSource:
    """All paths of one source; safe from several threads. Made by `open_source`.

    Attributes:
        is_snapshot: whether the source shows the files as they were when it was opened.
        before: the time before which each log is shown; None for all of it.
        budgets: limits for reads.
        facts: what `engine.verdict` knows of the source; None until somebody asks for it.
    """

    def __init__(
        self,
        directories: Sequence[_Directory],
        problems: Problems,
        *,
        snapshot: bool,
        before: Timestamp | None,
        budgets: Budgets,
    ) -> None:
        self.is_snapshot = snapshot
        self.before = before
        self.budgets = budgets
        self.facts: object = None
        self._directories = directories
        self._problems = problems
        self._shared = Shared(budgets, before, self)
        for directory in directories:
            directory.root.when_exhausted = self._shared.open_segments.let_all_go
        self._lock = Lock()
        self._silence: SilentReads | None = None
        self._checked: float | None = None
        self._logs: dict[tuple[int, str], PartitionLog] = {}
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
        for log in list(self._logs.values()):
            if len(log.problems):
                found += log.problems.entries()
        return found

    def unread(self) -> list[Unread]:
        """Return the folders and files that could not be read so far."""
        return self._unread() + [
            Unread(log.display(entry["file"]), entry["reason"], entry["errno"])
            for log in list(self._logs.values())
            if len(log.problems)
            for entry in log.problems.entries()
            if "errno" in entry
        ]

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

    def _look_at(self, directory: _Directory, now: float) -> bool:
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
        for place, directory in enumerate(self._directories):
            is_live = directory.is_live  # one bound method for all partitions
            for found in directory.placed():
                if isinstance(found, OtherEntry):
                    others.append(found)
                    continue
                key = place, found.folder
                name = self._free_name(found.name, named, directory)
                log = self._logs.get(key)
                if log is None or log.name != name:
                    log = self._partition(directory, found, name, is_live)
                logs[key] = named[name] = log
        self._logs = logs
        self._others = tuple(others)
        self._partitions = MappingProxyType({name: named[name] for name in sorted(named)})

    def _free_name(
        self, name: str, taken: Mapping[str, PartitionLog], directory: _Directory
    ) -> str:
        if name not in taken:
            return name
        number = 2
        while f"{name}@{number}" in taken:
            number += 1
        reason = (
            f"{name} is also in {taken[name].root.path}, which comes first and is the log;"
            f" this one is shown as {name}@{number}"
        )
        self._problems.add("second_copy", directory.root.display(name), reason)
        return f"{name}@{number}"

    def _partition(
        self, directory: _Directory, found: Placed, name: str, is_live: Callable[[], bool]
    ) -> PartitionLog:
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
            is_live=is_live,
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
    before: Timestamp | None = None,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> LogSource:
    """Open the paths of an operator for reading.

    Args:
        paths: log dirs, partition folders, .log files or tiered copies.
        snapshot: show the files as they are now, even when they are changed or deleted later.
        cross_device: enter other file systems mounted in the source.
        before: show each log as it was before this time; None for all of it.
        budgets: limits for reads.

    Raises:
        SourceError: a path is missing, cannot be read, is empty, or has no files of Kafka.
    """
    names = [paths] if isinstance(paths, str) else list(paths)
    if not names:
        raise SourceError("no source was named", hint=HINT)
    problems = Problems()
    directories = []
    for name in names:
        with readable(name):
            found = identify(name, open_files=most_open(budgets), cross_device=cross_device)
            directories.append(_Directory(found, problems, snapshot, budgets))
            directories[-1].look(monotonic())
    source = LogSource(directories, problems, snapshot=snapshot, before=before, budgets=budgets)
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
