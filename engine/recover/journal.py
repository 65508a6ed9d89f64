"""What is whole in a target that a killed run left unfinished, so that the same command goes on from there.

Beside the log dirs that are being made lies a file of JSON lines: first the time of the run, which appended records
have, then a line for each partition that is written and synced on all its replicas. A line names its partition's plan by
a hash over all that decides its bytes, with size and time of the source's files: another plan is written anew. What is
taken over is read again at the end, as all else is, and compared with the hashes of what was written.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from engine.disk.disk import Disk, WritableFile
from engine.files.file_names import LOCK
from engine.rebuild.target.manifest import MANIFEST, valid_name
from engine.rebuild.target.records_files import WrittenFile
from engine.recover.aside import aside_path
from engine.recover.partitions.saved_pieces import SavedPiece
from engine.recover.planning import PlannedPartition
from engine.units import Offset, Timestamp

JOURNAL = "kafkafs-recover.journal"
_LARGEST = 1 << 30


class WrittenPartition(NamedTuple):
    """A partition that was written.

    Attributes:
        start, end: bounds of the log as its loading found them.
        first_base: base offset of its first segment.
        files: its records files by name, equal in all replicas.
    """

    start: Offset
    end: Offset
    first_base: Offset
    files: dict[str, WrittenFile]


class Journal:
    """The journal of a target that is being made.

    Args:
        folder: the folder in which it is made.
        disk: disk to write with.
        now: time of the run, if it is a new one.
    """

    def __init__(self, folder: str, disk: Disk, now: Timestamp) -> None:
        self._folder = folder
        self._disk = disk
        self._lines = list(_lines(folder, disk))
        self._path = os.path.join(folder, JOURNAL)
        self._file: WritableFile | None = None
        if not self._lines:
            disk.remove(self._path, missing_ok=True)
            self._append({"now": now})

    def taken_over(self, planned: Iterable[PlannedPartition]) -> dict[int, WrittenPartition]:
        """Return what an interrupted run wrote of these partitions, by their places; remove all else that it left."""
        known = {each["key"]: each for each in self._lines if "key" in each}
        found: dict[int, WrittenPartition] = {}
        kept: set[str] = set()
        for at, each in enumerate(planned if known else ()):
            line = known.get(key_of(each))
            if line is None:
                continue
            files = {name: WrittenFile(*file) for name, file in line["files"].items()}
            found[at] = WrittenPartition(line["start"], line["end"], line["firstBase"], files)
            kept |= {f"{place.folder}/{each.partition}" for place in each.places}
            kept |= {os.path.dirname(aside_path(each.survey, tail)) for tail in each.survey.aside}
        self._remove_others("", kept)
        return found

    def note(self, planned: PlannedPartition, written: WrittenPartition) -> None:
        """Note that a partition is written and synced."""
        self._append(
            {
                "key": key_of(planned),
                "start": written.start,
                "end": written.end,
                "firstBase": written.first_base,
                "files": {name: list(file) for name, file in written.files.items()},
            }
        )

    def remove(self) -> None:
        """Remove the journal: the target is whole."""
        if self._file is not None:
            self._file.close()
        self._disk.remove(self._path)

    def _append(self, line: dict[str, Any]) -> None:
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        # A torn line of a killed run ends at this newline.
        self._file.write_at(self._file.size(), b"\n" + json.dumps(line).encode() + b"\n")
        self._file.sync()

    def _remove_others(self, below: str, kept: set[str]) -> None:
        folder = os.path.join(self._folder, below)
        for name in self._disk.list(folder):
            path = os.path.join(below, name)
            if path in kept or path in (MANIFEST, LOCK, JOURNAL):
                continue
            if any(each.startswith(f"{path}/") for each in kept):
                self._remove_others(path, kept)
            else:
                self._disk.remove_tree(os.path.join(folder, name))


def began(folder: str, disk: Disk) -> Timestamp | None:
    """Return when the run began whose journal is in a folder; None without a readable one."""
    first = next(_lines(folder, disk), {})
    return first.get("now")


def key_of(planned: PlannedPartition) -> str:
    """Return a hash over all that decides the bytes of a partition."""
    survey = planned.survey
    stated: dict[str, list[int] | None] = {}
    facts = [
        str(planned.partition),
        planned.topic_id,
        [place.folder for place in planned.places],
        [survey.start, planned.end, planned.leader_epoch, survey.epochs],
        [hashlib.sha256(piece.data).hexdigest() for piece in planned.appended],
        [_piece_facts(each, stated) for each in survey.pieces],
        [
            [aside_path(survey, tail), [_piece_facts(each, stated) for each in tail.pieces]]
            for tail in survey.aside
        ],
        stated,
    ]
    return hashlib.sha256(valid_name(json.dumps(facts)).encode()).hexdigest()


def _piece_facts(saved: SavedPiece, stated: dict[str, list[int] | None]) -> list[Any]:
    piece = saved.piece
    if saved.file is not None and saved.file.path not in stated:
        stated[saved.file.path] = None
        with suppress(OSError, ValueError):  # in an archive
            status = os.stat(saved.file.path)
            stated[saved.file.path] = [status.st_size, status.st_mtime_ns, status.st_ino]
    data = hashlib.sha256(piece.data).hexdigest()
    return [saved.file, data, *piece._replace(origin=None, data=b"")[1:-1]]


def _lines(folder: str, disk: Disk) -> Iterator[dict[str, Any]]:
    """Yield the lines of a journal that are whole."""
    with suppress(OSError), disk.open(os.path.join(folder, JOURNAL), writable=False) as file:
        for line in file.read_at(0, _LARGEST).split(b"\n"):
            with suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found
