"""What an export has written, beside what it wrote: by this it is resumed, and restored.

`_export/manifest.json` says how, and each `_export/chunk-<number>.json` what a chunk gave. A chunk is there from
the moment its record is: its files are whole and on the device by then, and are moved to their places after, again
if need be. Names that begin with "_" are no data to Spark.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from engine.units import Offset, TopicPartition
from engine.writing.disk import TEMPORARY_SUFFIX
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.files.target_files import TargetFiles

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
    """How the files of an export are written, which stays as it is when it goes on.

    Attributes:
        form: of the files.
        values: how JSON and CSV hold bytes.
        filters: what records had to be, by option; nothing when all were taken.
    """

    form: str
    values: str
    filters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Moved:
    """A file of a chunk: where Spark wrote it, where it belongs, its bytes."""

    staged: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Done:
    """A chunk that was written.

    Attributes:
        number: from 1.
        ranges: the offsets [start, stop) of each partition, by its name.
        records: of each topic.
        files: of records, and of damage.
        damaged: places that could not be read.
        source_bytes: what was read for it.
        topic_ids: of partitions, by their names, where they are known.
    """

    number: int
    ranges: Mapping[str, tuple[Offset, Offset]]
    records: Mapping[str, int]
    files: tuple[Moved, ...]
    damaged: int
    source_bytes: int
    topic_ids: Mapping[str, str] = field(default_factory=dict)


class Ledger:
    """The record of an export.

    Args:
        files: of its target.
    """

    def __init__(self, files: TargetFiles) -> None:
        self._files = files
        self._run = secrets.token_hex(4)

    def check(self, manifest: Manifest, *, resume: bool) -> None:
        """Refuse a target that this export cannot have; nothing is written.

        Raises:
            OptionError: it holds something else, or an export that is not to go on, or of other settings.
        """
        uri = self._files.uri
        if self._files.exists(MANIFEST):
            if not resume:
                raise OptionError(
                    f"{uri} holds an export already: resume it, or choose another target"
                )
            _check_same(self.manifest(), manifest)
            return
        others = [name for name in self._files.names() if name != FOLDER]
        own = (LOCK, MANIFEST + TEMPORARY_SUFFIX)  # a run that was stopped at once left them
        others += [name for name in self._files.names(FOLDER) if f"{FOLDER}/{name}" not in own]
        if others:
            raise OptionError(f"{uri} is not empty: choose another target, or move it away")

    def begin(self, manifest: Manifest) -> list[Done]:
        """Begin an export that was checked, or go on with one; the chunks that are written already."""
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
        """How the export is written.

        Raises:
            OptionError: the target is no export, or of a later version.
        """
        if not self._files.exists(MANIFEST):
            raise OptionError(f"{self._files.uri} is no export: it has no {MANIFEST}")
        facts = _parsed(self._files, MANIFEST)
        try:
            if (facts["kind"], facts["version"]) != (_KIND, _VERSION):
                raise OptionError(
                    f"{self._files.uri}/{MANIFEST} is of version {facts['version']!r}, and this is {_VERSION}"
                )
            return Manifest(facts["form"], facts["values"], facts["filters"])
        except (KeyError, TypeError) as error:
            raise OptionError(f"{self._files.uri}/{MANIFEST} is not what was written") from error

    def done(self) -> list[Done]:
        """The chunks that are written, in order."""
        names = [name for name in self._files.names(FOLDER) if _CHUNK.fullmatch(name)]
        return [self._chunk(name) for name in sorted(names, key=lambda name: (len(name), name))]

    def is_whole(self) -> bool:
        """Whether the last run came to its end."""
        return self._files.exists(WHOLE)

    def staging(self, number: int) -> str:
        """The folder for what Spark writes of a chunk, relative to the target.

        Each run has its own: executors of one that was killed may write for a moment longer.
        """
        return f"{FOLDER}/staging-{number:06}-{self._run}"

    def record(self, chunk: Done) -> None:
        """Make a chunk count, and move its files to their places."""
        for moved in chunk.files:
            self._files.sync(moved.staged)
        facts = asdict(chunk)
        self._files.write(f"{FOLDER}/chunk-{chunk.number:06}.json", _rendered(facts))
        self._finish(chunk)
        self._files.remove(self.staging(chunk.number))

    def end(self) -> None:
        """Say that all is written."""
        self._files.write(WHOLE, b"")

    def moved(self, number: int, staged: str, place: str) -> Iterator[Moved]:
        """What becomes of the files that Spark wrote below a folder, which are to lie below `place`."""
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
            raise OptionError(
                f"{self._files.uri}/{FOLDER}/{name} is not what was written"
            ) from error


def offsets_done(done: list[Done]) -> dict[TopicPartition, Offset]:
    """Where each partition goes on."""
    return {_partition(name): stop for chunk in done for name, (_, stop) in chunk.ranges.items()}


def topic_ids_done(done: list[Done]) -> dict[TopicPartition, str]:
    """The topic id of each partition, where it is known."""
    return {
        _partition(name): topic_id for chunk in done for name, topic_id in chunk.topic_ids.items()
    }


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
            f"the export that is there was begun with {'; '.join(differing)}: resume it as it was"
        )


def _parsed(files: TargetFiles, path: str) -> dict[str, Any]:
    try:
        found = json.loads(files.read(path))
    except ValueError as error:
        raise OptionError(f"{files.uri}/{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise OptionError(f"{files.uri}/{path} is not what was written")
    return found


def _rendered(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, indent=1).encode() + b"\n"
