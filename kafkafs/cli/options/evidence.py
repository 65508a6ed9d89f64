"""The file of --evidence: what a check has read, for people who were not there.

Lines that begin with "# {" are facts in JSON; the others have the form of sha256sum, which ignores the facts. The file
appears whole at the end of the check, and never in place of another one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from engine.clock import SYSTEM_CLOCK
from engine.files.stores import STORES
from engine.json_facts import facts_of
from engine.lines.json_text import time_json
from engine.version import __version__
from kafkafs.amounts import counted
from kafkafs.cli.completing import names
from kafkafs.cli.options.outputs import StagedFile, refuse_inside
from kafkafs.cli.printing.terminal.output import say
from kafkafs.decode.shown_text import printable

if TYPE_CHECKING:
    from engine.check.evidence import FileRead
    from engine.log.log_directory import LogSource, Unread

_TITLE = "# kafkafs evidence, format 1: `sha256sum -c` reads this file; lines that begin with # are facts in JSON"
_HINT = "--evidence"
_SHOWN = {
    "changed": "changed while they were read",
    "unreadable": "could not be read whole",
    "gone": "were gone before they were hashed",
}
evidence_option = click.option(
    _HINT,
    "evidence",
    metavar="FILE",
    shell_complete=names.files,
    help="Write each file that was read, with its SHA-256, size, times and inode, to the new FILE, which "
    "sha256sum -c understands. Reads every file once more.",
)


class EvidenceFile:
    """Writes the evidence of one check.

    Args:
        path: the new file.
        source: what is checked.
        paths: the source, as named.

    Raises BadParameter if the file exists or is inside of the source, SourceError if it cannot be written.
    """

    def __init__(self, path: str, source: LogSource, paths: Sequence[str]) -> None:
        refuse_inside(source, path, _HINT)
        if os.path.lexists(path):
            raise click.BadParameter(
                f"{path} exists already: evidence is never overwritten", param_hint=_HINT
            )
        self.path = path
        self._states: Counter[str] = Counter()
        self._hashed = 0
        self._unreadable: set[str] = set()
        self._began = time.monotonic()
        self._file = StagedFile(path)
        self._line(_TITLE.encode())
        self._fact("check", _circumstances(paths))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.__exit__(kind, value, trace)

    def add(self, file: FileRead) -> None:
        """Write one file: its facts, and its line for sha256sum if the hash is that of what was checked."""
        self._states[file.state.value] += 1
        if file.state.value == "unreadable":
            self._unreadable.add(file.path)
        facts: dict[str, Any] = {"path": file.path}
        if file.status is not None:
            facts |= facts_of(
                file,
                "size=status.size mtimeNs=status.mtime_ns ctimeNs=status.ctime_ns "
                "inode=status.inode device=status.device",
            )
        if file.reason:
            facts["reason"] = file.reason
        if file.stretches:
            facts["stretches"] = [
                facts_of(each, "position length errno") for each in file.stretches
            ]
        if file.state.value != "read":
            if file.sha256:
                facts |= {"hashedBytes": file.hashed, "sha256OfThem": file.sha256}
            self._fact(file.state.value, facts)
            return
        self._hashed += file.hashed
        self._fact("file", facts)
        self._line(checksum_line(file.sha256, os.fsencode(file.path)))

    def finish(self, unread: Iterable[Unread], findings: Mapping[str, Any]) -> None:
        """Write the end, and give the file its name; say so on standard error.

        Args:
            unread: all that could not be read, also what could not even be opened.
            findings: their numbers, for JSON.

        Raises SourceError if the file cannot be written, or if another file has its name by now.
        """
        for place in unread:
            if place.path not in self._unreadable:
                self._states["unreadable"] += 1
                self._fact("unreadable", {"path": place.path, "reason": place.reason})
        self._fact("findings", findings)
        self._fact(
            "end",
            {
                "ended": _now(),
                "seconds": round(time.monotonic() - self._began, 3),
                "files": dict(self._states),
                "hashedBytes": self._hashed,
            },
        )
        self._file.appear(0o444)
        words = f"{counted(self._states['read'], 'file')} with SHA-256"
        for state, meaning in _SHOWN.items():
            if self._states[state]:
                words += f"; {self._states[state]:,} {meaning}, and have no line for sha256sum"
        say(f"kafkafs: evidence in {printable(self.path)}: {words}", err=True)

    def _fact(self, kind: str, facts: Mapping[str, Any]) -> None:
        self._line(f"# {json.dumps({'type': kind, **facts})}".encode())

    def _line(self, line: bytes) -> None:
        self._file.write(line + b"\n")


def checksum_line(digest: str, path: bytes) -> bytes:
    """Return the line of sha256sum for a file; one with special characters in its name begins with a backslash."""
    escaped = path.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    lead = b"\\" if escaped != path else b""
    return lead + digest.encode() + b"  " + escaped


def _circumstances(paths: Sequence[str]) -> dict[str, Any]:
    """Return who checked what, where, when, and with what."""
    from engine import kernel
    from engine.plan.loading.broker_versions import CURRENT
    from kafkafs.process_facts import host_and_user

    return {
        "kafkafs": __version__,
        "kernel": kernel.name,
        "kafka": CURRENT,
        "command": ["kafkafs", *sys.argv[1:]],
        "sources": [STORES.shown(os.path.abspath(path)) for path in paths],
        "workingDirectory": os.getcwd(),
        **host_and_user(),
        "uid": os.getuid(),
        "sudoUser": os.environ.get("SUDO_USER"),
        "started": _now(),
    }


def _now() -> str:
    text: str = json.loads(time_json(SYSTEM_CLOCK.now_ms()))
    return text
