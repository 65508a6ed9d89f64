"""Ledger of an export, beside its files: a resumed export and a restore read it.

`_export/manifest.json` has the settings, and each `_export/chunk-<number>.json` describes a chunk. A chunk exists once
its description does: by then its files are complete and synced; they are moved to their places afterwards, again if
that was interrupted. Spark ignores names that begin with "_".
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from engine.disk.disk import TEMPORARY_SUFFIX
from engine.units import Offset, TopicPartition
from kafkafs.export.errors import OptionError
from kafkafs.export.target import TargetFiles

FOLDER = "_export"
MANIFEST = f"{FOLDER}/manifest.json"
LOCK = f"{FOLDER}/lock"
DAMAGE = f"{FOLDER}/damage"
WHOLE = "_SUCCESS"
_KIND, _VERSION = "kafkafs export", 1
_CHUNK = re.compile(r"chunk-([0-9]{6,})\.json")
_STAGING = re.compile(r"staging-[0-9]{6,}-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """Settings of an export, which stay the same when it is resumed.

    Attributes:
        form: format of the files.
        values: form of bytes in JSON and CSV.
        filters: filters on records, by option; empty if all were taken.
    """

    form: str
    values: str
    filters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Moved:
    """A file of a chunk: the path where it was written, its final path, its bytes."""

    staged: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Done:
    """A written chunk.

    Attributes:
        number: number, from 1.
        ranges: offsets [start, stop) by name of the partition.
        records: number of records by topic.
        files: files of records, and of damage.
        damaged: number of places that could not be read.
        source_bytes: bytes read for the chunk.
        topic_ids: known topic ids by name of the partition.
        types: types of the decoded columns by topic, if they have types: none where they are JSON.
        misfits: number of keys and values that do not fit these types, by topic.
        untimed: number of timestamps that are null because microseconds do not hold them, by topic.
        leftovers: bytes of the files and folders that a broker set aside, by their names.
    """

    number: int
    ranges: Mapping[str, tuple[Offset, Offset]]
    records: Mapping[str, int]
    files: tuple[Moved, ...]
    damaged: int
    source_bytes: int
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    misfits: Mapping[str, int] = field(default_factory=dict)
    untimed: Mapping[str, int] = field(default_factory=dict)
    leftovers: Mapping[str, int] = field(default_factory=dict)


class Ledger:
    """Ledger of an export.

    Args:
        files: files of the export's target.
    """

    def __init__(self, files: TargetFiles) -> None:
        self._files = files
        self._run = secrets.token_hex(4)

    def check(self, manifest: Manifest, *, resume: bool) -> None:
        """Check that this export can have a target; write nothing.

        Raises:
            OptionError: the target has other files, an export that is not to be resumed, or one with other settings.
        """
        uri = self._files.uri
        if self._files.exists(MANIFEST):
            if not resume:
                raise OptionError(
                    f"{uri} has an export already: resume it, or choose another target"
                )
            _check_same(self.manifest(), manifest)
            return
        others = [name for name in self._files.names() if name != FOLDER]
        own = (LOCK, MANIFEST + TEMPORARY_SUFFIX)  # leftovers of a run that was stopped at once
        others += [name for name in self._files.names(FOLDER) if f"{FOLDER}/{name}" not in own]
        if others:
            raise OptionError(f"{uri} is not empty: choose another target, or move it away")

    def is_begun(self) -> bool:
        """Return whether the target has an export."""
        return self._files.exists(MANIFEST)

    def begin(self, manifest: Manifest) -> list[Done]:
        """Begin or resume a checked export; return the chunks that are written already."""
        if not self._files.exists(MANIFEST):
            facts = {"kind": _KIND, "version": _VERSION, **asdict(manifest)}
            self._files.write(MANIFEST, _rendered(facts))
        self._files.remove(WHOLE)
        done = self.done()
        for chunk in done:
            self._finish(chunk)
        for name in self._files.names(FOLDER):
            if _STAGING.fullmatch(name):
                self._files.remove(f"{FOLDER}/{name}")
        return done

    def manifest(self) -> Manifest:
        """Read the settings of the export.

        Raises:
            OptionError: the target is not an export, or of a later version.
        """
        if not self._files.exists(MANIFEST):
            raise OptionError(f"{self._files.uri} is not an export: it has no {MANIFEST}")
        facts = _parsed(self._files, MANIFEST)
        try:
            if (facts["kind"], facts["version"]) != (_KIND, _VERSION):
                raise OptionError(
                    f"{self._files.uri}/{MANIFEST} has version {facts['version']!r}, not {_VERSION}"
                )
            return Manifest(facts["form"], facts["values"], facts["filters"])
        except (KeyError, TypeError) as error:
            raise OptionError(f"{self._files.uri}/{MANIFEST} is damaged") from error

    def done(self) -> list[Done]:
        """Return the written chunks, in order."""
        names = [name for name in self._files.names(FOLDER) if _CHUNK.fullmatch(name)]
        return [self._chunk(name) for name in sorted(names, key=lambda name: (len(name), name))]

    def is_whole(self) -> bool:
        """Return whether the last run finished."""
        return self._files.exists(WHOLE)

    def staging(self, number: int) -> str:
        """Return the folder in which a chunk is written, relative to the target.

        Each run has its own: executors of a killed run may go on writing for a moment.
        """
        return f"{FOLDER}/staging-{number:06}-{self._run}"

    def record(self, chunk: Done) -> None:
        """Make a chunk count: sync and describe its files, then move them to their places."""
        for moved in chunk.files:
            self._files.sync(moved.staged)
        self._files.sync_names({moved.staged.rpartition("/")[0] for moved in chunk.files})
        facts = asdict(chunk)
        for name in ("types", "misfits", "untimed", "leftovers"):
            if not facts[name]:
                del facts[name]
        self._files.write(f"{FOLDER}/chunk-{chunk.number:06}.json", _rendered(facts))
        self._finish(chunk)
        self._files.remove(self.staging(chunk.number))

    def end(self) -> None:
        """Mark the export as finished."""
        self._files.write(WHOLE, b"")

    def moved(self, number: int, staged: str, place: str) -> Iterator[Moved]:
        """Yield the files that were written below `staged`, with their final paths below `place`."""
        for found in self._files.files(staged):
            folder, _, name = found.path.rpartition("/")
            path = "/".join(part for part in (place, folder, f"chunk-{number:06}-{name}") if part)
            yield Moved(f"{staged}/{found.path}", path, found.size)

    def _finish(self, chunk: Done) -> None:
        folders = set()
        for moved in chunk.files:
            if self._files.exists(moved.staged):
                self._files.move(moved.staged, moved.path)
                folders.add(moved.path.rpartition("/")[0])
        self._files.sync_names(folders)

    def _chunk(self, name: str) -> Done:
        facts = _parsed(self._files, f"{FOLDER}/{name}")
        try:
            files = tuple(Moved(**each) for each in facts["files"])
            ranges = {key: (start, stop) for key, (start, stop) in facts["ranges"].items()}
            return replace(Done(**{**facts, "files": (), "ranges": ranges}), files=files)
        except (KeyError, TypeError, ValueError) as error:
            raise OptionError(f"{self._files.uri}/{FOLDER}/{name} is damaged") from error


def offsets_done(done: list[Done]) -> dict[TopicPartition, Offset]:
    """Return the offset to resume from, by partition."""
    return {_partition(name): stop for chunk in done for name, (_, stop) in chunk.ranges.items()}


def topic_ids_done(done: list[Done]) -> dict[TopicPartition, str]:
    """Return the known topic ids, by partition."""
    return {
        _partition(name): topic_id for chunk in done for name, topic_id in chunk.topic_ids.items()
    }


def leftovers_done(done: Sequence[Done]) -> set[tuple[str, int]]:
    """Return the names and sizes of the leftovers that are written."""
    return {each for chunk in done for each in chunk.leftovers.items()}


def types_done(done: Sequence[Done]) -> dict[str, Mapping[str, str]]:
    """Return the types of the decoded columns in the files, by topic."""
    return {topic: types for chunk in done for topic, types in chunk.types.items()}


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _check_same(before: Manifest, now: Manifest) -> None:
    if before != now:
        differing = [
            f"{name} {old!r}, not {new!r}"
            for name, old in asdict(before).items()
            if old != (new := asdict(now)[name])
        ]
        raise OptionError(
            f"the export was begun with {'; '.join(differing)}: resume it with the same settings"
        )


def _parsed(files: TargetFiles, path: str) -> dict[str, Any]:
    try:
        found = json.loads(files.read(path))
    except ValueError as error:
        raise OptionError(f"{files.uri}/{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise OptionError(f"{files.uri}/{path} is damaged")
    return found


def _rendered(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, indent=1).encode() + b"\n"
