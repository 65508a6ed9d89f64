"""Random single hits on real partitions, thousands of them: python -m tests.damage.soak --seed 1 --hits 10000.

After each hit the partition is read anew. All records outside the hit batches must be served by the same lines
and found by offset and by time, an error line must stand where a batch was broken, and nothing may raise what is
not meant to be raised, or take long.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
import traceback
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from engine import kernel
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from kafkafs.decode.shown_text import plain_json
from kafkafs.tree.tree import Tree
from tests import fixtures_data
from tests.damage.hits import LOG_HITS, Batch, Hit, side_hit
from tests.damage.survey import MEANT

MOST_BYTES = 130_000
SLOW = 10.0
_OFFSET = re.compile(rb'"offset":(\d+),"timestamp":(-?\d+)')
_TRANSACTION = re.compile(rb'"transaction":\{[^}]*\},?')
_ERROR = re.compile(rb'"position":(\d+),"length":(\d+)')
KINDS = ("current", "legacy", "live", "crashed")


@dataclass
class Partition:
    """A clean partition: its folder in a working copy, and what it shows.

    Attributes:
        log_dir, name: where the copy is.
        segments: batches by the name of the .log file.
        files: the bytes of each file.
        committed: the lines of committed/.
    """

    log_dir: Path
    name: str
    segments: dict[str, list[Batch]]
    files: dict[str, bytes]
    committed: list[bytes]

    @property
    def has_transactions(self) -> bool:
        """Whether any of its lines has a transaction's state."""
        return any(batch.is_control for batches in self.segments.values() for batch in batches)


def partitions(work: Path) -> list[Partition]:
    """Working copies of the small partitions in tests/data."""
    found = []
    for kind in KINDS:
        for name in fixtures_data.partitions(kind):
            size = sum(path.stat().st_size for path in fixtures_data.logs(kind, name))
            if 0 < size <= MOST_BYTES:
                copied = fixtures_data.copy_of(kind, work / f"{kind}-{len(found)}", [name])
                found.append(clean(copied, name))
    return found


def clean(log_dir: Path, name: str) -> Partition:
    """What a partition holds that nothing has hit yet."""
    source = open_source(str(log_dir))
    view = source.partitions()[name].view()
    tree = Tree(source)
    options = tree.root().partitions.find(name).options  # type: ignore[union-attr]
    options = kernel.LineOptions(
        options.topic, options.partition, log_start_offset=view.log_start_offset
    )
    segments = {}
    for segment in view.segments_from(0):
        batches: list[Batch] = []
        for item in segment.scan():
            assert isinstance(item, BatchRun), item
            fates = view.fates(segment, item)
            for number, row in enumerate(item.table):
                batches.append(batch_of(item, number, row, fates, options))
        segments[segment.name] = batches
        shown = read(tree, f"{name}/records/{segment.base_offset:020}.jsonl")
        assert shown == b"".join(line for batch in batches for line in batch.lines)
    folder = log_dir / name
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    committed = lines_of(tree, name, "committed")
    source.close()
    return Partition(log_dir, name, segments, files, committed)


def batch_of(
    run: BatchRun, number: int, row: np.void, fates: Any, options: kernel.LineOptions
) -> Batch:
    text = kernel.lines(
        *(run.buffer, run.table, number, number + 1),
        start_position=run.start_position,
        options=options,
        fates=fates,
    ).text
    start = int(row["position"])
    is_control = bool(row["attributes"] & 0x20) and row["magic"] == 2
    lines = tuple((text or b"").splitlines(keepends=True))
    return Batch(start, start + int(row["size"]), int(row["magic"]), is_control, lines)


def read(tree: Tree, path: str) -> bytes:
    """A file's bytes."""
    content = tree.follow(tree.resolve(path)).open()  # type: ignore[attr-defined]
    try:
        data: bytes = content.read(0, content.size)
        return data
    finally:
        content.close()


def lines_of(tree: Tree, name: str, view: str) -> list[bytes]:
    """All lines of records/ or committed/."""
    folder: Any = tree.resolve(f"{name}/{view}")
    files = [read(tree, f"{name}/{view}/{entry.name}") for entry in folder.entries()]
    return b"".join(files).splitlines(keepends=True)


# -- one hit


def try_hit(partition: Partition, random: Random) -> tuple[str, list[str]]:
    """Hit, read and put back: what was done, and what of the promises was broken."""
    folder = partition.log_dir / partition.name
    logs = [name for name, batches in partition.segments.items() if batches]
    side = [name for name in partition.files if name not in partition.segments]
    name = random.choice(logs)
    is_log = random.random() < 0.75 or not side
    if is_log:
        hit = random.choice(LOG_HITS)(partition.files[name], partition.segments[name], random)
    else:
        name = random.choice(side)
        others = [partition.files[each] for each in side if each[-9:] == name[-9:]]
        if name.endswith(
            ".snapshot"
        ):  # one of another offset can be right in all that can be proven
            others = [b""]
        hit = side_hit(partition.files[name], random.choice(others), random)
    done = f"{partition.log_dir.parent.name} {partition.name}/{name}: {hit.what}"
    path = folder / name
    try:
        if hit.data is None:
            path.unlink()
        else:
            path.write_bytes(hit.data)
        start = time.monotonic()
        broken = judge(partition, name if is_log else "", hit, random)
        if time.monotonic() - start > SLOW:
            broken.append(f"took {time.monotonic() - start:.1f} s")
    except Exception:  # noqa: BLE001  that is what is looked for
        broken = [traceback.format_exc()]
    finally:
        path.write_bytes(partition.files[name])
    return done, broken


def judge(partition: Partition, log: str, hit: Hit, random: Random) -> list[str]:
    """What is wrong with what is shown after a hit on a .log file ("": on another one)."""
    source = open_source(str(partition.log_dir))
    try:
        tree = Tree(source)
        shown = lines_of(tree, partition.name, "records")
        records = [line for line in shown if not line.startswith(b'{"error":')]
        errors = [line for line in shown if line.startswith(b'{"error":')]
        wrong = judge_lines(partition, log, hit, records)
        wrong += judge_errors(log, hit, errors)
        wrong += judge_look_ups(tree, partition, log, hit, records, random)
        if not hit.touched:
            committed = lines_of(tree, partition.name, "committed")
            if [line for line in committed if not line.startswith(b'{"error":')] != (
                partition.committed
            ):
                wrong.append("committed/ shows other lines")
        plain_json(source.problems)
        return wrong
    finally:
        source.close()


def untouched(partition: Partition, log: str, hit: Hit) -> list[tuple[bytes, ...]]:
    """The lines of each batch that was not hit."""
    return [
        batch.lines
        for name, batches in partition.segments.items()
        for number, batch in enumerate(batches)
        if name != log or number not in hit.touched
    ]


def comparable(partition: Partition, log: str, hit: Hit, lines: list[bytes]) -> list[bytes]:
    """The lines as far as they must be the same: an end of a transaction that was hit decides nothing.

    A broken one is seen, and the index of aborted transactions stands in for it: what was aborted stays so,
    and what was committed is at worst open. Where it is missing or elsewhere nobody can tell.
    """
    decides = partition.has_transactions and not hit.keeps_order
    if log and not decides:
        decides = any(partition.segments[log][number].is_control for number in hit.touched)
    if not decides:
        return lines
    if hit.errors and not hit.altered and hit.what.startswith(("flip", "burst")):
        return [line.replace(b'"state":"open"', b'"state":"committed"') for line in lines]
    return [_TRANSACTION.sub(b"", line) for line in lines]


def judge_lines(partition: Partition, log: str, hit: Hit, records: list[bytes]) -> list[str]:
    wanted = [line for lines in untouched(partition, log, hit) for line in lines]
    wanted = comparable(partition, log, hit, wanted)
    shown = comparable(partition, log, hit, records)
    present = set(shown)
    wrong = [f"missing: {line!r:.200}" for line in wanted if line not in present][:3]
    if not wrong and hit.keeps_order:
        chosen = set(wanted)
        if list(dict.fromkeys(line for line in shown if line in chosen)) != list(
            dict.fromkeys(wanted)
        ):
            wrong.append("the lines come in another order")
    known = set(wanted)
    for number in hit.extra if log else ():
        known.update(comparable(partition, log, hit, list(partition.segments[log][number].lines)))
    if not hit.altered:
        wrong += [f"not written by anybody: {line!r:.200}" for line in present - known][:3]
    return wrong


def judge_errors(log: str, hit: Hit, errors: list[bytes]) -> list[str]:
    places = [tuple(map(int, _ERROR.search(line).groups())) for line in errors]  # type: ignore[union-attr]
    wrong = [
        f"no error between {start} and {end}: {errors!r:.600}"
        for start, end in hit.errors
        if not any(at < end and at + length > start for at, length in places)
    ]
    if errors and not log:
        wrong.append(f"a false alarm: {errors!r:.600}")
    return wrong


def judge_look_ups(
    tree: Tree, partition: Partition, log: str, hit: Hit, records: list[bytes], random: Random
) -> list[str]:
    first = {}
    for line in records:
        if b"belowLogStart" not in line:
            first.setdefault(offset_of(line), line)
    good = {offset_of(line) for lines in untouched(partition, log, hit) for line in lines}
    end = json.loads(read(tree, f"{partition.name}/state/offsets.json"))["logEndOffset"]
    served = sorted(offset for offset in good & first.keys() if offset < end)
    wrong = []
    for offset in look_ups(served, partition, log, hit, random):
        try:
            line = read(tree, f"{partition.name}/offset/{offset}")
        except MEANT as error:
            line = repr(error).encode()
        fits = [first[offset]]
        if hit.altered or hit.extra:  # other batches may state the same offset
            fits = [each for each in records if offset_of(each) == offset]
        if not set(comparable(partition, log, hit, [line])) <= set(
            comparable(partition, log, hit, fits)
        ):
            wrong.append(f"offset/{offset} gives {line!r:.200}")
    lost = [offset_of(line) for n in hit.lost for line in partition.segments[log][n].lines[:1]]
    for offset in lost[:2]:
        if offset not in first:
            try:
                line = read(tree, f"{partition.name}/offset/{offset}")
                wrong.append(f"offset/{offset} is lost and gives {line!r:.200}")
            except MEANT:
                pass
    if len(served) > 1 and not hit.altered:
        low, high = sorted(random.sample(served, 2))
        text = read(tree, f"{partition.name}/offset/{low}..{high}").splitlines(keepends=True)
        if not {first[offset] for offset in served if low <= offset < high} <= set(text):
            wrong.append(f"offset/{low}..{high} leaves out records")
    if served and hit.keeps_order and not hit.altered and not hit.extra:
        wrong += judge_time(tree, partition, first, random)
    return wrong


def judge_time(
    tree: Tree, partition: Partition, first: dict[int, bytes], random: Random
) -> list[str]:
    times = {offset: int(_OFFSET.search(line)[2]) for offset, line in first.items()}  # type: ignore[index]
    wanted = times[random.choice(sorted(times))]
    if wanted < 0:
        return []
    expected = min(offset for offset, when in times.items() if when >= wanted)
    try:
        found: Any = tree.resolve(f"{partition.name}/time/{wanted}")
        target = found.target
    except MEANT as error:
        target = repr(error)
    return [] if target == f"../offset/{expected}" else [f"time/{wanted}: {target}, not {expected}"]


def look_ups(
    served: list[int], partition: Partition, log: str, hit: Hit, random: Random
) -> set[int]:
    """Offsets to look up: some anywhere, and those nearest to the hit."""
    chosen = set(random.sample(served, min(4, len(served))))
    if log and hit.touched and served:
        for number in (min(hit.touched), max(hit.touched)):
            lines = partition.segments[log][number].lines
            for line in lines[:1] + lines[-1:]:
                at = bisect_left(served, offset_of(line))
                chosen.update(served[max(at - 1, 0) : at + 2])
    return chosen


def offset_of(line: bytes) -> int:
    """The offset that a record line states."""
    return int(_OFFSET.search(line)[1])  # type: ignore[index]


# -- many hits


def soak(seed: int, hits: int, *, first: int = 0, which: str | None = None) -> list[str]:
    """Try hits; what went wrong, one text each."""
    failures = []
    work = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        known = partitions(work)
        for number in range(first, first + hits):
            random = Random(f"{seed}-{number}")
            partition = random.choice(known)
            kernel.use(which or ("python" if random.random() < 0.05 else "compiled"))
            done, wrong = try_hit(partition, random)
            if wrong:
                failures.append(f"seed {seed} hit {number}: {done}\n  " + "\n  ".join(wrong))
                print(failures[-1], flush=True)
    finally:
        kernel.use("compiled")
        shutil.rmtree(work)
    return failures


def main() -> int:
    """Run from the command line; exit status 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hits", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first hit")
    parser.add_argument("--kernel", choices=["compiled", "python"], default=None)
    given = parser.parse_args()
    start = time.monotonic()
    failures = soak(given.seed, given.hits, first=given.first, which=given.kernel)
    spent = time.monotonic() - start
    print(f"{given.hits} hits, {len(failures)} broken promises, {spent:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
