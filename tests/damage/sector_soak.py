"""Random unreadable sectors in real partitions: python -m tests.damage.sector_soak --seed 1 --sectors 1000.

For each sector the partition is read anew. The records that are lost must be exactly those whose batch touches the
sector, in the segment's lines, in a search and in look-ups; the error must name the sector, and the disk must be
asked for it a few times only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from engine import kernel
from engine.errors import DamagedFileError
from engine.files.unreadable import UNREADABLE_FILES
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from kafkafs.decode.searching.search import Match
from kafkafs.records.conditions.pattern import Query
from kafkafs.tree.node import File
from kafkafs.tree.tree import Tree
from tests import fixtures_data
from tests.kafkafs.decode.searching.searched import search
from tests.unreadable import FailingDisk, sector

MOST_BYTES = 2_000_000
MOST_FAILED_READS = 40
LOOK_UPS = 12
SIZES = (4096, 4096, 4096, 512, 8192, 16384)
_FOLDER = "SECTOR_SOAK_FOLDER"
_TRANSACTION = re.compile(rb'"transaction":\{[^}]*\},?')


@dataclass
class Segment:
    """A records file as it is whole.

    Attributes:
        path, partition: where it is.
        batches: start, end, and the records' offsets of each batch.
        lines: record lines by offset, without the fate of transactions: the sector may hold a marker.
        searchable: the offsets that a search for anything finds.
    """

    path: Path
    partition: str
    batches: list[tuple[int, int, list[int]]]
    lines: dict[int, bytes]
    searchable: set[int]

    @property
    def source(self) -> Path:
        """The log dir."""
        return self.path.parent.parent

    @property
    def lines_path(self) -> str:
        """The path of its lines in the tree."""
        return f"{self.partition}/records/{self.path.stem}.jsonl"


def segments_of(log_dir: Path) -> list[Segment]:
    """All segments with records of a log dir."""
    source = open_source(str(log_dir))
    tree = Tree(source)
    found = []
    for name, log in source.partitions().items():
        view = log.view()
        for place in range(len(view)):
            segment = view.segment_at(place)
            batches = []
            for item in segment.scan():
                if isinstance(item, BatchRun):
                    batches += batches_of(item)
            path = log_dir / segment.path
            if batches and path.stat().st_size <= MOST_BYTES:
                made = Segment(path, name, batches, {}, set())
                made.lines = lines_of(tree, made)[0]
                if made.lines:
                    made.searchable = set(searched(view, made))
                    found.append(made)
    source.close()
    return found


def batches_of(run: BatchRun) -> list[tuple[int, int, list[int]]]:
    """Start, end and offsets of a run's batches."""
    found = []
    for row in range(len(run.table)):
        columns = kernel.decode(
            run.buffer, run.table, row, row + 1, start_position=run.start_position
        )
        start = int(run.table["position"][row])
        found.append((start, start + int(run.table["size"][row]), columns.offset.tolist()))
    return found


def lines_of(tree: Tree, segment: Segment) -> tuple[dict[int, bytes], list[dict[str, object]]]:
    """The record lines by offset, and the error lines."""
    node = tree.resolve(segment.lines_path)
    assert isinstance(node, File)
    lines: dict[int, bytes] = {}
    errors = []
    for line in b"".join(node.chunks()).splitlines():
        if line.startswith(b'{"error":'):
            errors.append(json.loads(line)["error"])
        else:
            offset = int(line[line.index(b'"offset":') + 9 : line.index(b',"timestamp"')])
            lines[offset] = _TRANSACTION.sub(b"", line)
    return lines, errors


def failures_of(segment: Segment, bad: tuple[int, int], random: Random) -> list[str]:
    """What is wrong with reading a segment in which these bytes cannot be read."""
    size = segment.path.stat().st_size
    lost = {
        offset
        for start, end, offsets in segment.batches
        if start < bad[1] and bad[0] < end
        for offset in offsets
    }
    source = open_source(str(segment.source))
    try:
        tree = Tree(source)
        lines, errors = lines_of(tree, segment)
        expected = {offset: line for offset, line in segment.lines.items() if offset not in lost}
        wrong = differences("lines", lines, expected)
        stretch = {"position": bad[0], "length": min(bad[1], size) - bad[0]}
        named = [each for error in errors for each in error.get("unreadable", ())]  # type: ignore[attr-defined]
        if not named or any(each != stretch for each in named):
            wrong.append(f"the errors name {named}, not {stretch}")
        view = source.partitions()[segment.partition].view()
        searchable = dict.fromkeys(segment.searchable - lost, b"")
        wrong += differences("search", searched(view, segment), searchable)
        wrong += look_up_failures(view, segment, lost, random)
        return wrong
    finally:
        source.close()


def differences(what: str, found: dict[int, bytes], expected: dict[int, bytes]) -> list[str]:
    """One sentence each for records that are missing, too many, or other ones."""
    missing, extra = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    changed = [
        offset for offset in found.keys() & expected.keys() if found[offset] != expected[offset]
    ]
    facts = {"missing": missing, "extra": extra, "changed": changed}
    return [f"{what}: {name} {offsets[:10]}" for name, offsets in facts.items() if offsets]


def searched(view: LogView, segment: Segment) -> dict[int, bytes]:
    """The offsets of the segment's records that a search for anything finds: those with some bytes."""
    first, last = min(segment.lines), max(segment.lines)
    options = kernel.LineOptions(
        *view.partition,
        log_start_offset=view.log_start_offset,
        from_offset=first,
        to_offset=last + 1,
    )
    results = search(view, Query.compile(""), options)
    lines = [line for each in results if isinstance(each, Match) for line in each.text.splitlines()]
    found = {
        int(line[line.index(b'"offset":') + 9 : line.index(b',"timestamp"')]) for line in lines
    }
    return dict.fromkeys(found, b"")


def look_up_failures(view: LogView, segment: Segment, lost: set[int], random: Random) -> list[str]:
    """Lost records end with an error that tells why, all others are given."""
    known = sorted(segment.lines)
    near = [offset for offset in known if offset in lost]
    chosen = set(random.sample(known, min(LOOK_UPS, len(known))))
    chosen |= set(near[:2]) | set(near[-2:])
    chosen |= {
        other for offset in (*near[:1], *near[-1:]) for other in known if abs(other - offset) == 1
    }
    wrong = []
    for offset in sorted(chosen):
        if not view.log_start_offset <= offset < view.log_end_offset:
            continue
        try:
            found = view.record(offset) is not None
        except DamagedFileError as error:
            found = False
            if "cannot be read" not in str(error):
                wrong.append(f"look-up of {offset}: {error}")
        if found == (offset in lost):
            wrong.append(f"look-up of {offset}: {'served' if found else 'not served'}")
    return wrong


def soak(seed: int, count: int, folder: Path) -> list[str]:
    """Hit so many sectors; what went wrong. Runs in a process that reads from a FailingDisk in `folder`."""
    random = Random(seed)
    disk = FailingDisk(folder)
    segments = [
        segment
        for kind in fixtures_data.KINDS
        for segment in segments_of(fixtures_data.copy_of(kind, folder))
    ]
    weights = [min(segment.path.stat().st_size, 200_000) for segment in segments]
    failures, lost_sectors, started = [], Counter[str](), time.monotonic()
    for number in range(count):
        (segment,) = random.choices(segments, weights)
        start, end = sector(random.randrange(segment.path.stat().st_size))
        length = random.choice(SIZES)
        if length < 4096:
            start += random.randrange(0, end - start, length)
        bad = start, start + length
        if start >= segment.batches[-1][1]:
            continue
        UNREADABLE_FILES.forget()
        disk.set({segment.path: [bad]})
        try:
            wrong = failures_of(segment, bad, random)
        except Exception as error:  # noqa: BLE001 - whatever it is, the soak goes on
            wrong = [f"{type(error).__name__}: {error}"]
        if disk.failed_reads > MOST_FAILED_READS:
            wrong.append(f"{disk.failed_reads} failed reads")
        place = f"sector {number}: {segment.path.relative_to(folder)} {bad}"
        failures += [f"{place}: {each}" for each in wrong]
        lost_sectors[segment.path.relative_to(folder).parts[0]] += 1
    seconds = time.monotonic() - started
    places = ", ".join(f"{kind} {hits}" for kind, hits in sorted(lost_sectors.items()))
    print(
        f"seed {seed}: {lost_sectors.total()} sectors ({places}), {len(failures)} failures, {seconds:.0f} s"
    )
    return failures


def main(arguments: list[str] | None = None) -> int:
    """Run the soak in a process whose reads can fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sectors", type=int, default=1000)
    parser.add_argument("--kernel", choices=("compiled", "python"), default="compiled")
    options = parser.parse_args(arguments)
    given = os.environ.get(_FOLDER)
    if given is None:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**FailingDisk(Path(folder)).environment, _FOLDER: folder}
            command = [
                sys.executable,
                "-m",
                "tests.damage.sector_soak",
                *(arguments or sys.argv[1:]),
            ]
            return subprocess.run(command, env=environment, check=False).returncode
    kernel.use(options.kernel)
    failures = soak(options.seed, options.sectors, Path(given))
    print("\n".join(failures[:50]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
