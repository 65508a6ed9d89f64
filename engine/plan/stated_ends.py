"""The offsets that a broker gives again: a log ends below what the files beside it prove.

A broker that starts takes the end of the records files for the log end. When the last of them are gone, their
offsets go to other records, and consumers that committed past them see nothing wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource, open_source
from engine.log.proven_end import ProvenEnd, proven_end
from engine.units import Offset


class StatedEnds:
    """The proven ends of logs in several log dirs; a log dir is opened at its first look-up."""

    def __init__(self) -> None:
        self._sources: dict[str, LogSource | None] = {}

    def close(self) -> None:
        """Close the sources."""
        for source in self._sources.values():
            if source is not None:
                source.close()
        self._sources.clear()

    def proven(self, path: str, folder: str, held: Offset) -> ProvenEnd:
        """The proven end of a log that holds records below `held`; `held` itself where nothing can be read.

        Args:
            path: the log dir, or the partition's folder.
            folder: the name of the partition's folder.
            held: the end of the log's records files.
        """
        try:
            source = self._opened(path)
            log = None if source is None else source.partitions().get(folder)
            return ProvenEnd(held) if log is None else proven_end(log.view(), held)
        except (OSError, KafkaStorageError):
            return ProvenEnd(held)

    def _opened(self, path: str) -> LogSource | None:
        if path not in self._sources:
            self._sources[path] = None  # asked for once, also where it cannot be opened
            self._sources[path] = open_source(path)
        return self._sources[path]


def sentences(end: ProvenEnd, held: Offset) -> Iterator[str]:
    """What a broker does with the offsets between the records' end and the proven end."""
    if end.offset > held:
        last = end.offset - 1
        offsets, them = (
            (f"offset {held} was", "it")
            if last == held
            else (f"offsets {held} to {last} were", "them")
        )
        proofs = ", ".join(proof.says for proof in end.proofs)
        yield (
            f"{offsets} given before ({proofs}), and no records file holds {them}:"
            f" a leader gives {them} to other records"
        )
