"""Files named to a dump: the kind of each by its name, and the other files of its segment.

Names are parsed more leniently than a log parses them, because dumps are made of copies with odd names:
`5.log`, `backup.index` and `00000000000000000000.log.deleted` count by their suffix.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from engine.errors import InvalidNameError
from engine.files.file_names import FileKind, FileState, parse_file_name, parse_folder_name
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.tiered.copies import open_decoded
from engine.units import MAX_INT64, Offset

_BY_SUFFIX = {
    kind.value: kind
    for kind in (
        *(FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX),
        *(FileKind.PRODUCER_SNAPSHOT, FileKind.KRAFT_CHECKPOINT),
    )
}
SEGMENT_KINDS = frozenset(_BY_SUFFIX.values())
"""Kinds of files with an offset at the start of their names."""
STATES = tuple(state.value for state in FileState if state.value)
_TIERED_EPOCHS = ".leader_epoch_checkpoint"
_LEAST_OFFSET = -(1 << 63)
_OFFSET = re.compile(r"([0-9]{1,40})(?:[-_][^/]*)?", re.ASCII)
_SNAPSHOT = re.compile(r"([0-9]{1,40})-([0-9]{1,10})(?:-[^/]*)?", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class DumpFile:
    """One file to dump.

    Attributes:
        root, name: the source root, and the path below it.
        shown: path as the operator named it, or as it was found.
        kind: kind of the file; None for a file that is not Kafka's.
        state: suffix such as ".deleted" or ".swap"; "" for none.
        first, last: the offsets to show, both inclusive; None for no bound.
        is_named: whether the operator named the file itself, not a folder above it.
    """

    root: SourceRoot
    name: str
    shown: str
    kind: FileKind | None
    state: str = ""
    first: Offset | None = None
    last: Offset | None = None
    is_named: bool = True

    @property
    def shown_offsets(self) -> tuple[Offset, Offset]:
        """The first and the last offset to show: all offsets where there is no bound."""
        first = _LEAST_OFFSET if self.first is None else self.first
        return first, MAX_INT64 if self.last is None else self.last

    def open(self) -> SourceFile:
        """Open the file; decode one of tiered copies. Raises OSError, SourceRefusedError."""
        return open_decoded(self.root, self.name)

    @property
    def base_name(self) -> str:
        """Name without folders."""
        return self.name.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """Name up to the first dot."""
        return self.base_name.partition(".")[0]

    @property
    def folder(self) -> str:
        """Path of the folder of the file, as shown."""
        return os.path.dirname(self.shown)

    @property
    def absolute(self) -> str:
        """Absolute path, with links unresolved, as java.io.File has it."""
        is_whole = self.shown.startswith("/") or "://" in self.shown
        return self.shown if is_whole else f"{os.getcwd()}/{self.shown}"

    @property
    def topic(self) -> str:
        """Topic of the folder; empty for a file outside a partition's folder."""
        folder = self.absolute.rpartition("/")[0].rpartition("/")[2]
        try:
            return parse_folder_name(folder).topic_partition.topic
        except InvalidNameError:
            return ""

    @property
    def base_offset(self) -> Offset | None:
        """Offset at the start of the name; None for a name without one, or for a file of no segment."""
        match = _OFFSET.fullmatch(self.stem) if self.kind in SEGMENT_KINDS else None
        offset = int(match[1]) if match else None
        return offset if offset is None or offset <= MAX_INT64 else None

    @property
    def snapshot_id(self) -> tuple[Offset, int] | None:
        """End offset and epoch in the name of a KRaft snapshot; None for another name."""
        match = _SNAPSHOT.fullmatch(self.stem)
        return (int(match[1]), int(match[2])) if match else None

    def sibling(self, kind: FileKind) -> SourceFile | None:
        """Open the file of another kind of the same segment, if possible in the same state.

        Return None when there is no such file. Raises OSError when the file cannot be opened.
        """
        above = self.name[: len(self.name) - len(self.base_name)]
        for state in dict.fromkeys((self.state, "")):
            try:
                return self.root.open_fresh(f"{above}{self.stem}{kind.value}{state}")
            except FileNotFoundError:
                continue
        return None

    def sibling_path(self, kind: FileKind) -> str:
        """Return the path of a file of the same segment, as shown."""
        return f"{os.path.join(self.folder, self.stem)}{kind.value}"


def kind_of(name: str) -> tuple[FileKind | None, str]:
    """Return the kind of a file and its state suffix, from its name.

    >>> kind_of("00000000000000000035.index.deleted")
    (<FileKind.OFFSET_INDEX: '.index'>, '.deleted')
    >>> kind_of("leader-epoch-checkpoint")[0]
    <FileKind.LEADER_EPOCH_CHECKPOINT: 'leader-epoch-checkpoint'>
    """
    parsed = parse_file_name(name)
    if parsed is not None:
        return parsed.kind, parsed.state.value
    state = next((state for state in STATES if name.endswith(state)), "")
    rest = name.removesuffix(state)
    _, dot, suffix = rest.rpartition(".")
    if dot + suffix == _TIERED_EPOCHS:
        return FileKind.LEADER_EPOCH_CHECKPOINT, state
    return _BY_SUFFIX.get(dot + suffix), state
