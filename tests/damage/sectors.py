"""Random sectors that cannot be read, and the records that commands lose to them: those of the batches there, and no others.

`python -m tests.damage.sectors SEED COUNT` tries COUNT sectors of all fixtures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from click.testing import CliRunner

from engine.log.log_directory import open_source
from engine.log.scan import BatchRun
from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import rebuild
from kafkafs.cli import cli
from tests.fixtures_data import KINDS, log_dir, partitions
from tests.unreadable import Faults, sector, unreadable_bytes


class Batch(NamedTuple):
    """A batch's place, and the offsets of its records."""

    path: Path
    start: int
    end: int
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
                found.append(Batch(path, start, start + int(row["size"]), frozenset(offsets)))
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
    wrong = list(run(int(sys.argv[1]), int(sys.argv[2])))
    print(*wrong, f"{sys.argv[2]} sectors, {len(wrong)} contradictions", sep="\n")
