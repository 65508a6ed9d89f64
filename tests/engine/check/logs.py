"""Partitions for tests of the check: written batch by batch, broken, and looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from engine.check.log_check import PartitionSummary
from engine.check.log_dir_check import CheckOptions, SourceCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import RULES, Severity
from engine.log.log_directory import open_source
from tests.builders import Producer, Rec, batch, write_segment

NOW = 1_700_000_100_000
SIDE_FILE_RULES = {
    rule.id
    for rule in RULES.values()
    if rule.group not in ("batches", "records", "offsets", "epochs and producers", "files")
}
"""The rules for files beside the batches, and for copies of a partition."""
SIDE_GROUPS = ("indexes", "snapshots", "checkpoints")


class Clock:
    """A clock that stands still shortly after the records' timestamps."""

    def now_ms(self) -> int:
        """The time."""
        return NOW

    def sleep(self, milliseconds: int) -> None:
        """Not at all."""


def keyed(*offsets: int) -> list[Rec]:
    """Records with a key each, at these offsets."""
    return [Rec(b"value %05d" % at, b"key %05d" % at, offset=at) for at in offsets]


def plain(base: int, count: int = 5, **facts: int) -> bytes:
    """A batch of records with keys; `facts` are the builder's."""
    return batch(keyed(*range(base, base + count)), base, **facts)


def numbered(
    base: int, sequence: int, count: int = 5, *, epoch: int = 0, producer: int = 7
) -> bytes:
    """A batch of a producer."""
    whose = Producer(id=producer, epoch=epoch, sequence=sequence)
    return batch(keyed(*range(base, base + count)), base, producer=whose)


def write(folder: Path, segments: Mapping[int, Sequence[bytes]]) -> Path:
    """A partition's folder with segments by base offset; its path."""
    for base, batches in segments.items():
        write_segment(folder, batches, base)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n", encoding="ascii")
    return folder


def look(path: Path, *, jobs: int = 1) -> tuple[list[Finding], list[PartitionSummary]]:
    """All that is found in a source, and the summaries."""
    events = list(SourceCheck(open_source(str(path)), CheckOptions(jobs=jobs, clock=Clock())).run())
    findings = [event for event in events if isinstance(event, Finding)]
    return findings, [event for event in events if isinstance(event, PartitionSummary)]


def found(path: Path, *, jobs: int = 1) -> list[Finding]:
    """All that is found in a source."""
    return look(path, jobs=jobs)[0]


def bad(findings: Iterable[Finding]) -> list[Finding]:
    """Those that are no notes."""
    return [finding for finding in findings if finding.severity is not Severity.NOTE]


def of_rule(findings: Iterable[Finding], rule: str) -> list[Finding]:
    """Those of one rule."""
    return [finding for finding in findings if finding.rule == rule]


def change(path: Path, edit: Callable[[bytearray], object]) -> None:
    """Edit a file's bytes."""
    data = bytearray(path.read_bytes())
    edit(data)
    path.write_bytes(data)


def log_of(folder: Path, base: int = 0) -> Path:
    """A segment's records file."""
    return folder / f"{base:020}.log"
