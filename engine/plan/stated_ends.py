"""Find the offsets that a broker assigns again: other files prove a log end above that of the records files.

At its start a broker takes the end of the records files as the log end. If the last records are missing, their
offsets go to new records, and consumers that committed past them notice nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource, open_source
from engine.log.view.proven_end import ProvenEnd, proven_end
from engine.units import Offset


class StatedEnds:
    """Proven ends of logs in several log dirs; a log dir is opened at its first use."""

    def __init__(self) -> None:
        self._sources: dict[str, LogSource | None] = {}

    def close(self) -> None:
        """Close the sources."""
        for source in self._sources.values():
            if source is not None:
                source.close()
        self._sources.clear()

    def proven(self, path: str, folder: str, held: Offset) -> ProvenEnd:
        """Return the proven end of a log; `held` if the log cannot be read.

        Args:
            path: path of the log dir, or of the partition's folder.
            folder: name of the partition's folder.
            held: end of the log's records files.
        """
        try:
            source = self._opened(path)
            log = None if source is None else source.partitions().get(folder)
            return ProvenEnd(held) if log is None else proven_end(log.view(), held)
        except (OSError, KafkaStorageError):
            return ProvenEnd(held)

    def _opened(self, path: str) -> LogSource | None:
        if path not in self._sources:
            self._sources[path] = None  # a log dir that cannot be opened is not tried again
            self._sources[path] = open_source(path)
        return self._sources[path]


def sentences(end: ProvenEnd, held: Offset) -> Iterator[str]:
    """Yield a sentence on the offsets between the records' end and the proven end."""
    if end.offset > held:
        last = end.offset - 1
        offsets, them = (
            (f"offset {held} was", "it")
            if last == held
            else (f"offsets {held} to {last} were", "them")
        )
        proofs = ", ".join(proof.says for proof in end.proofs)
        yield (
            f"{offsets} assigned before ({proofs}), and no records file has {them}:"
            f" a leader assigns {them} to new records"
        )
