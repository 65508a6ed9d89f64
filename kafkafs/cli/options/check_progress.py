"""The file of --resume: the partitions that a check has finished, so that a stopped check goes on.

One JSON object a line: first the check, then each finished partition with its findings. A line that was cut when the check
was stopped is ignored. A partition whose files have changed since is checked again.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections import Counter
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

import click

from engine.check.evidence import FileRead, FileStatus, ReadState
from engine.check.log_check import PartitionSummary
from engine.check.log_dir_check import PartitionDone, fingerprint_of
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.clock import SYSTEM_CLOCK
from engine.errors import SourceError
from engine.files.unreadable import Stretch
from engine.lines.json_text import time_json
from engine.log.segment.damage import Elsewhere, ElsewhereKind
from engine.verdict.holes import Hole
from engine.verdict.loss import Loss, LossKind
from engine.version import __version__
from kafkafs.cli.printing.terminal.output import say
from kafkafs.decode.shown_text import printable

if TYPE_CHECKING:
    from engine.check.log_dir_check import Event
    from engine.log.partition_log import PartitionLog

_HINT = "--resume"
_FORMAT = "kafkafs check 1"


class Finished(NamedTuple):
    """A finished partition: its result, and the files that were hashed; None if no hashes were asked for."""

    fingerprint: str
    findings: list[Finding]
    summary: PartitionSummary
    files: list[FileRead] | None


class CheckProgressFile:
    """The progress of a check in a file.

    Args:
        path: the file; made if it does not exist.
        hashes: whether the check hashes its files; an earlier result without hashes does not hold then.

    Attributes:
        started: when the check in the file began.

    Raises BadParameter for another program's file and for a file that another check uses, SourceError if it cannot be
    written.
    """

    def __init__(self, path: str, *, hashes: bool) -> None:
        self.path = path
        self.started = _now()
        self._known: dict[str, Finished] = {}
        self._hashes = hashes
        self._pending: dict[str, list[Event]] = {}
        self._files: list[FileRead] = []
        try:
            self._file: IO[bytes] = os.fdopen(
                os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b"
            )
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.BadParameter(f"another check uses {path}", param_hint=_HINT) from None
        except OSError as error:
            raise SourceError(f"cannot write {path}: {error.strerror}") from error
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def holds(self, log: PartitionLog) -> bool:
        """Return whether an earlier run finished a partition whose files are still the same."""
        known = self._known.get(log.name)
        if known is None or (self._hashes and known.files is None):
            return False
        return known.fingerprint == fingerprint_of(log)

    def result(self, partition: str) -> Finished:
        """Return the result of a finished partition. Raises KeyError."""
        return self._known[partition]

    def take(self, event: Event) -> None:
        """Take an event of the check; a finished partition is written with its findings."""
        if isinstance(event, Finding | PartitionSummary):
            self._pending.setdefault(event.partition, []).append(event)
        elif isinstance(event, FileRead):
            self._files.append(event)
        elif isinstance(event, PartitionDone):
            self._write(
                _line_of(event, self._pending.pop(event.partition, []), self._taken_files())
            )
            self._files = []

    def _taken_files(self) -> list[FileRead] | None:
        return self._files if self._hashes else None

    def end(self) -> None:
        """Note that the check is whole: the next one with this file begins anew."""
        self._write({"type": "end", "endedAt": _now()})

    def _write(self, entry: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(entry).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise SourceError(f"cannot write {self.path}: {error.strerror}") from error

    def _read(self) -> None:
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        lines = [_parsed(line) for line in whole.splitlines()]
        head = lines[0] if lines else {}
        if data and head.get("type") != _FORMAT:
            raise click.BadParameter(
                f"{self.path} is not a file of a stopped check: it is not touched", param_hint=_HINT
            )
        begins_anew = ""
        if any(line.get("type") == "end" for line in lines):
            begins_anew = "the check in it was finished"
        elif lines and head.get("kafkafs") != __version__:
            begins_anew = f"it is of kafkafs {head.get('kafkafs')}"
        if not lines or begins_anew:
            self._file.seek(0)
            self._file.truncate()
            self._write({"type": _FORMAT, "kafkafs": __version__, "startedAt": self.started})
            if begins_anew:
                say(
                    f"kafkafs: {printable(self.path)}: {begins_anew}; the check begins anew",
                    err=True,
                )
            return
        self.started = str(head.get("startedAt"))
        self._file.truncate(len(whole))
        self._file.seek(0, os.SEEK_END)
        for line in lines[1:]:
            try:
                self._known[line["summary"]["partition"]] = _finished(line)
            except (KeyError, TypeError, ValueError, AttributeError):
                continue  # the partition is checked again


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _line_of(
    done: PartitionDone, events: list[Event], files: list[FileRead] | None
) -> dict[str, Any]:
    summary = next(each for each in events if isinstance(each, PartitionSummary))
    return {
        "type": "partition",
        "fingerprint": done.fingerprint,
        "checkedAt": _now(),
        "findings": [_plain(each) for each in events if isinstance(each, Finding)],
        "summary": {
            **{field.name: getattr(summary, field.name) for field in dataclasses.fields(summary)},
            "holes": [dataclasses.asdict(hole) for hole in summary.holes],
            "losses": [dataclasses.asdict(loss) for loss in summary.losses],
            "statistics": None,
        },
        "files": None if files is None else [_plain(each) for each in files],
    }


def _plain(each: Finding | FileRead) -> dict[str, Any]:
    return {field.name: getattr(each, field.name) for field in dataclasses.fields(each)}


def _finished(line: Mapping[str, Any]) -> Finished:
    """Raises KeyError, TypeError, ValueError, AttributeError if it is none."""
    holes = [
        Hole(**{**hole, "kinds": tuple(hole["kinds"]), "stated": tuple(map(tuple, hole["stated"]))})
        for hole in line["summary"]["holes"]
    ]
    losses = [
        Loss(
            **{
                **loss,
                "kind": LossKind(loss["kind"]),
                "elsewhere": tuple(
                    Elsewhere(ElsewhereKind(kind), name) for kind, name in loss["elsewhere"]
                ),
            }
        )
        for loss in line["summary"]["losses"]
    ]
    found = Counter(line["summary"]["found"])
    summary = {**line["summary"], "holes": holes, "losses": losses, "found": found}
    findings = [
        Finding(**{**finding, "severity": Severity(finding["severity"])})
        for finding in line["findings"]
    ]
    files = None
    if line["files"] is not None:
        files = [
            FileRead(
                **{
                    **file,
                    "state": ReadState(file["state"]),
                    "status": None if file["status"] is None else FileStatus(*file["status"]),
                    "stretches": tuple(Stretch(*each) for each in file["stretches"]),
                }
            )
            for file in line["files"]
        ]
    return Finished(str(line["fingerprint"]), findings, PartitionSummary(**summary), files)


def _now() -> str:
    text: str = json.loads(time_json(SYSTEM_CLOCK.now_ms()))
    return text
