"""Random sectors that cannot be read, and the records that commands lose to them: those of the batches there, and no others.

`python -m tests.damage.sectors SEED COUNT` tries COUNT sectors of all fixtures: a search, the plan of a rebuild, and
a rebuild that is written, read again, and held to what it says.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from click.testing import CliRunner

from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import rebuild
from kafkafs.cli import cli
from kafkafs.tree.node import File
from kafkafs.tree.tree import Tree
from tests.fixtures_data import KINDS, log_dir, partitions
from tests.unreadable import Faults, sector, unreadable_bytes

_TRANSACTION = re.compile(rb'"transaction":\{[^}]*\},?')


class Batch(NamedTuple):
    """A batch's place, its first and last offset, and the offsets of its records."""

    path: Path
    start: int
    end: int
    first: int
    last: int
    offsets: frozenset[int]


def segments() -> list[Path]:
    """All records files of the fixtures that hold something, but for folders on their way out."""
    return sorted(
        path
        for kind in KINDS
        for name in partitions(kind)
        if not name.endswith("-delete")
        for path in (log_dir(kind) / name).glob("*.log")
        if path.stat().st_size
    )


@cache
def batches(folder: Path) -> tuple[Batch, ...]:
    """The batches of a partition."""
    found = []
    with closing(open_source(str(folder))) as source:
        (log,) = source.partitions().values()
        view = log.view()
        first = view.base_offsets[0]
        for segment, run in view.runs(first):
            if not isinstance(run, BatchRun):
                continue
            for place, row in enumerate(run.table):
                offsets: set[int] = set()
                for columns in run.columns(run.table[place : place + 1]):
                    offsets |= set(columns.offset.tolist())
                start = int(row["position"])
                path = folder / segment.name
                # The base offset of a compressed batch of magic 0 or 1 is its last.
                spanned = int(row["base_offset"]), int(row["last_offset"]), *offsets
                found.append(
                    Batch(
                        path,
                        start,
                        start + int(row["size"]),
                        min(spanned),
                        max(spanned),
                        frozenset(offsets),
                    )
                )
    return tuple(found)


def searched(folder: Path) -> tuple[frozenset[int], int]:
    """The offsets of the records that grep finds for a pattern that matches all, and its exit status."""
    arguments = ["grep", "-j", "1", "--values", "none", "", str(folder)]
    result = CliRunner().invoke(cli, arguments)
    return frozenset(
        json.loads(line)["offset"] for line in result.stdout.splitlines()
    ), result.exit_code


@cache
def searched_before(folder: Path) -> frozenset[int]:
    """The same of the sound partition."""
    return searched(folder)[0]


def kept(folder: Path) -> tuple[frozenset[Batch], dict[str, Any]]:
    """The batches that a rebuild keeps, and its report."""
    result = rebuild(str(folder), None, RebuildOptions(allow_empty=True))
    (report,) = result.partitions
    places = [(Path(each["file"]), each["position"], each["size"]) for each in report["kept"]]
    found = {
        batch
        for batch in batches(folder)
        for path, position, size in places
        if path == batch.path and position <= batch.start and batch.end <= position + size
    }
    return frozenset(found), report


@cache
def kept_before(folder: Path) -> frozenset[Batch]:
    """The same of the sound partition."""
    return kept(folder)[0]


def lines(source: Path) -> dict[int, bytes]:
    """The lines of a partition's records from its log start on, without the fate of transactions."""
    found = {}
    with closing(open_source(str(source))) as opened:
        ((name, log),) = opened.partitions().items()
        view = log.view()
        node = Tree(opened).resolve(f"{name}/offset/{view.log_start_offset}..")
        assert isinstance(node, File)
        for line in b"".join(node.chunks()).splitlines():
            offset = int(line[line.index(b'"offset":') + 9 : line.index(b',"timestamp"')])
            found[offset] = _TRANSACTION.sub(b"", line)
    return found


@cache
def lines_before(folder: Path) -> dict[int, bytes]:
    """The same of the sound partition."""
    return lines(folder)


class Written(NamedTuple):
    """A rebuild: its exit status, what it printed, its manifest, and the lines of the records in its target."""

    status: int
    output: str
    report: dict[str, Any]
    lines: dict[int, bytes]


def written(folder: Path) -> Written:
    """Rebuild a partition."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "target"
        result = CliRunner().invoke(cli, ["rebuild", str(folder), str(target), "--allow-empty"])
        if not target.exists():
            return Written(result.exit_code, result.output, {}, {})
        (report,) = json.loads((target / "kafkafs-rebuild.json").read_text())["partitions"]
        output = result.output.replace(str(target), "TARGET")
        return Written(result.exit_code, output, report, lines(target))


@cache
def written_before(folder: Path) -> Written:
    """The same of the sound partition."""
    return written(folder)


def contradictions(path: Path, start: int, end: int) -> Iterator[str]:
    """What grep and rebuild lose to an unreadable stretch, where that is not what lies on it."""
    folder = path.parent
    whole, known = searched_before(folder), kept_before(folder)
    hit = {
        each
        for each in batches(folder)
        if each.path == path and each.start < end and each.end > start
    }
    lost = frozenset[int]().union(*(each.offsets for each in hit))
    with unreadable_bytes({path: [(start, end)]}) as faults:
        found, status = searched(folder)
        yield from _told(faults, status)
        if found != whole - lost:
            yield f"grep: {sorted(found ^ (whole - lost))[:5]} are lost or too many"
        left, report = kept(folder)
    if left != known - hit:
        yield f"rebuild: {[each[:3] for each in left ^ (known - hit)][:3]} are lost or too many"
    named = [each for each in report["dropped"] if each["kind"] == "unreadable"]
    if not any(
        each["position"] < end and each["position"] + each["size"] > start for each in named
    ):
        yield f"rebuild: does not name the place: {report['dropped'][:3]}"
    for sentence in _written_wrong(folder, (path, start, end), hit):
        yield f"written rebuild: {sentence}"


def _written_wrong(folder: Path, bad: tuple[Path, int, int], hit: set[Batch]) -> Iterator[str]:
    """What a rebuild over an unreadable stretch keeps, or says, that is not so."""
    path, start, end = bad
    before = written_before(folder)
    if before.lines != lines_before(folder):
        yield f"of the sound log: {_differing(before.lines, lines_before(folder))}"
    with unreadable_bytes({path: [(start, end)]}):
        made = written(folder)
    lost = frozenset[int]().union(*(each.offsets for each in hit))
    left = {offset: line for offset, line in before.lines.items() if offset not in lost}
    if made.lines != left:
        yield _differing(made.lines, left)
    if not made.report:
        yield f"nothing is there: {made.output}"
        return
    known = kept_before(folder)
    is_harmed = not hit or bool(hit & known)
    if made.status != (3 if is_harmed else 0):
        yield f"exit status {made.status}"
    log_start, log_end = made.report["logStartOffset"], made.report["logEndOffset"]
    if log_start != before.report["logStartOffset"]:
        yield f"starts at {log_start} instead of {before.report['logStartOffset']}"
    if log_end != before.report["logEndOffset"]:
        told = f"the end of the log cannot be read: if the log had offset {log_end} or higher ones"
        if told not in made.output or any(each.last >= log_end for each in known - hit):
            yield f"ends at {log_end} instead of {before.report['logEndOffset']}: {made.output}"
    missing = {
        offset
        for gap in made.report["losses"]
        for offset in range(gap["firstOffset"], gap["nextOffset"])
    }
    gone = {
        offset
        for each in hit
        for offset in range(max(each.first, log_start), min(each.last + 1, log_end))
    }
    served = {offset for each in known - hit for offset in each.offsets}
    if not missing >= gone or missing & served:
        yield f"missing {sorted(missing)[:5]}, and {sorted(missing ^ gone)[:5]} are or are not"
    left_records = before.report["records"] - sum(len(each.offsets) for each in hit & known)
    closing = f"TARGET: {_counted(left_records, 'record')} in 1 partition; "
    if missing:
        up_to = "" if made.report["lossTotals"]["certain"] else "up to "
        closing += f"missing: {up_to}{_counted(len(missing), 'offset')} in 1 partition"
    elif is_harmed:
        closing += "damage in 1 partition may have cost records; synced and verified\n"
    else:
        closing += "nothing is missing that was asked for; synced and verified\n"
    if closing not in made.output:
        yield f"says {made.output!r} and not {closing!r}"
    ending = "the result goes without it" if is_harmed else "nothing is missing because of it"
    if f"kafkafs: 1 place could not be read; {ending}\n" not in made.output:
        yield f"does not say {ending!r}: {made.output!r}"
    place = f"{path}: {min(end, path.stat().st_size) - start} bytes at byte {start} cannot be read"
    if place not in made.output:
        yield f"does not say {place!r}: {made.output!r}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _differing(found: dict[int, bytes], wanted: dict[int, bytes]) -> str:
    offsets = sorted(
        offset for offset in found.keys() | wanted.keys() if found.get(offset) != wanted.get(offset)
    )
    return f"{len(offsets)} records differ, {offsets[:5]}"


def _told(faults: Faults, status: int) -> Iterator[str]:
    if not faults.failed:
        yield "grep: did not read it"
    elif status != 3:
        yield f"grep: exit status {status}"


def run(seed: int, count: int) -> Iterator[str]:
    """Try so many sectors; what is wrong."""
    random, paths = Random(seed), segments()
    for _ in range(count):
        path = random.choice(paths)
        start, end = sector(random.randrange(path.stat().st_size), random.choice((512, 4096)))
        for sentence in contradictions(path, start, end):
            yield f"{path} [{start}, {end}): {sentence}"


if __name__ == "__main__":
    wrong = 0
    for sentence in run(int(sys.argv[1]), int(sys.argv[2])):
        wrong += 1
        print(sentence, flush=True)
    print(f"seed {sys.argv[1]}: {sys.argv[2]} sectors, {wrong} contradictions")
