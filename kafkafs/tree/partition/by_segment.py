"""`records/` and `committed/`: every segment decoded, one line per record.

`records/` lists files. `committed/` shows the same records again, so it lists links: a walk over the mount, which does
not follow links, finds each record once. A link has the name of the file in `records/`, 20 digits, and leads to
the same name without leading zeros.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from engine.units import MAX_INT64
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import FIRST_COOKIE, entry
from kafkafs.tree.lookups import segment_with_base
from kafkafs.tree.node import Entry, Kind, Node
from kafkafs.tree.partition.line_files import LineFile
from kafkafs.tree.partition.link_targets import target_link, target_name
from kafkafs.tree.partition.partition import Partition
from kafkafs.tree.partition.record_folder import RecordFolder
from kafkafs.tree.streams import LineSource

SUFFIX = ".jsonl"
_NAME = re.compile(r"([0-9]{1,20})\.jsonl")


class DecodedFolder(RecordFolder):
    """`records/`; with `committed`, the records that a read_committed consumer gets."""

    __slots__ = ("_committed",)

    def __init__(self, path: str, partition: Partition, *, committed: bool) -> None:
        super().__init__(path, partition)
        self._committed = committed

    @property
    def slow(self) -> bool:
        return True

    def lookup(self, name: str) -> Node:
        match = _NAME.fullmatch(name)
        base = int(match[1]) if match else -1
        view = self.partition.view()
        if base < 0 or segment_with_base(view, base) is None:
            raise NotFound(self.child(name))
        if self._committed and name == target_name(base) + SUFFIX:
            return target_link(self.child(name), self.partition, view, f"{base}{SUFFIX}")
        source = LineSource(self.partition.name, base, committed=self._committed)
        return LineFile(self.child(name), self.partition, lambda _view: source)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        bases = self.partition.view().base_offsets
        kind = Kind.LINK if self._committed else Kind.FILE
        for place in range(bisect_left(bases, after - FIRST_COOKIE + 1), len(bases)):
            base = bases[place]
            cookie = min(base + FIRST_COOKIE, MAX_INT64)
            if cookie > after:
                yield entry(self, target_name(base) + SUFFIX, kind, cookie)
