"""A partition's log as its views know it: where it lies, what it is called, what is shared with other views."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine.budgets import Budgets
from engine.errors import InvalidNameError
from engine.files.file_names import FolderState, parse_folder_name
from engine.files.source_files import SourceRoot
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.problems import Problems
from engine.log.source_checkpoints import SourceCheckpoints
from engine.log.transactions import MarkerCache
from engine.units import Offset, TopicPartition


class LogContext(NamedTuple):
    """What the views of one partition have in common.

    Attributes:
        root, folder: the source and the partition's folder in it, "" for the source itself.
        name: what the partition is called.
        topic_partition: whose log it is; the number is -1 when the folder's name does not tell.
        only: the one records file to see, when it is not the whole folder.
        checkpoints: of its log dir.
        problems: where to note what is wrong.
        markers: the ends of transactions that were read.
        budgets: for what is read.
        is_live: whether somebody writes to the log, as far as can be told.
        make_segment: makes the segment of a base offset that is complete.
    """

    root: SourceRoot
    folder: str
    name: str
    topic_partition: TopicPartition
    only: str | None
    checkpoints: SourceCheckpoints
    problems: Problems
    markers: MarkerCache
    budgets: Budgets
    is_live: Callable[[], bool]
    make_segment: Callable[[Offset], LogSegment]

    def relative(self, name: str) -> str:
        """Return the path in the source of a file of the folder."""
        return f"{self.folder}/{name}" if self.folder else name

    def read_side_file(self, name: str) -> bytes:
        """Return a checkpoint, snapshot or the like of the partition's folder, whole.

        Raises FileNotFoundError, other OSError, LimitExceededError.
        """
        return self.root.read(self.relative(name), limit=self.budgets.checkpoint_bytes)

    def is_current(self) -> bool:
        """Whether the checkpoints are about this folder, and not about a newer one of the same partition."""
        try:
            return parse_folder_name(self.name.partition("@")[0]).state is FolderState.LOG
        except InvalidNameError:
            return True

    def end_of_clean_stop(self) -> Offset | None:
        """Where the log ended when its broker stopped cleanly; None when it did not, or nothing says where."""
        if not self.checkpoints.stopped_cleanly() or not self.is_current():
            return None
        return self.checkpoints.recovery_point(self.topic_partition)
