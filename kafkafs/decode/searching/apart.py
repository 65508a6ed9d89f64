"""Records of files and folders that are not part of a log: which of them the log holds, and where their lines say from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from engine import kernel
from engine.lines.json_text import string_json
from engine.log.leftover_logs import leftover_logs
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from kafkafs.records.visible import Indices

_END = b"}\n"
Deleted: TypeAlias = Literal["all"] | bool
"""Whether what a broker set aside is read, too: without what the logs hold, or "all"."""


class Apart(NamedTuple):
    """A log beside another one.

    Attributes:
        name: file or folder that holds its records, which each line ends with as "leftover".
        held: the log whose records are left out; None to show all.
    """

    name: str
    held: LogView | None

    def only_here(self, columns: kernel.Columns, indices: Indices) -> Indices:
        """Return those of some records that, by their offset and timestamp, the log does not hold."""
        if self.held is None or not len(indices):
            return indices
        offsets = columns.offset[indices]
        pairs = list(zip(offsets.tolist(), columns.timestamp[indices].tolist(), strict=True))
        left = set(pairs)
        for _, run in self.held.runs(int(offsets.min()), int(offsets.max()) + 1):
            if isinstance(run, BatchRun):
                for some in run.columns():
                    held = zip(some.offset.tolist(), some.timestamp.tolist(), strict=True)
                    left.difference_update(held)
        return indices[np.array([pair in left for pair in pairs], np.bool_)]

    def named(self, texts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield record lines with the name; a line may come in several parts."""
        end = b',"leftover":' + string_json(self.name).encode("utf-8", "replace") + _END
        rest = b""
        for text in texts:
            whole = rest + text
            rest = whole[-1:] if whole.endswith(_END[:1]) else b""
            yield whole[: len(whole) - len(rest)].replace(_END, end)


def apart_logs(
    source: LogSource, takes: Callable[[PartitionLog], bool], *, all_shown: bool
) -> Iterator[tuple[PartitionLog, Apart]]:
    """Yield what a broker set aside, each with the log whose records are left out.

    Args:
        source: the source.
        takes: returns whether a log, or a folder beside one, is wanted.
        all_shown: whether records that the log holds, too, are shown.
    """
    for each in leftover_logs(source, takes):
        proper = None if all_shown else each.partition
        held = None if proper is None else proper.view_or_none()
        yield each.log, Apart(each.log.name, held)
