"""One of the paths of a source: a log dir, or a part of one, with its entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from time import monotonic
from typing import NamedTuple

from engine.budgets import Budgets
from engine.checkpoint.meta_properties import MetaProperties, parse_meta_properties
from engine.errors import DamagedFileError, InvalidNameError
from engine.files.change_watch import FolderWatch
from engine.files.file_names import META_PROPERTIES, FolderState, parse_file_name, parse_folder_name
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceRoot
from engine.files.source_presence import gone
from engine.log.log_dirs_below import LOG_DIR_FILES
from engine.log.partition_log import Placed
from engine.log.segment.problems import Problems
from engine.log.source_checkpoints import SourceCheckpoints
from engine.log.source_identity import Identified

NOT_FOLLOWED = "a symbolic link, not followed"
_LIVE_MAX_AGE = 1.0


class OtherEntry(NamedTuple):
    """An entry of a log dir that is neither a partition nor a file of the log dir, and the reason."""

    root: SourceRoot
    name: str
    kind: EntryKind
    reason: str


class SourceDirectory:
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

    @cached_property
    def node(self) -> int | None:
        """The node id of meta.properties, read once; None if unknown."""
        meta = self.meta_properties()
        return None if meta is None else meta.node_id

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
