"""Blocks at a wrong place, and what readers and a rebuild keep: python -m tests.damage.moved_blocks --cases 2000 --seed 1.

A block of this log or of another one is written over a segment, put into it, doubled, or changes places with another.
The generator knows every batch that it wrote and finds each whole copy of it in the changed files. Of these, the
chain with the most records is worked out by comparing all of them with each other. All readers give one such chain:
exactly its records, with their values, in bulk as one by one, and the log ends behind it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from engine.coding.compression import CompressionType
from engine.errors import KafkaStorageError
from engine.log.log_directory import open_source
from engine.log.segment.orders import SOON_DECIDED
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import rebuild
from tests.builders import CODECS, Rec, any_batch, message, segment_files
from tests.damage.moved_faces import differences_of_faces
from tests.damage.moved_truth import Bytes, Case, Copy, Made, Segment, contradict

NAME = "moved-0"
START = 1_700_000_000_000
CODECS_OF = {
    0: (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY),
    1: (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4),
    2: CODECS,
}


def made_log(
    random: Random, base: int, name: bytes, *, compacted: bool
) -> tuple[list[Segment], int]:
    magic = random.choice((0, 1, 2, 2))
    codec = random.choice(CODECS_OF[magic])
    most = random.choice((1, 3, 12))
    size = random.choice((5, 60, 60, 400, 400, 3000))
    has_one_size = random.random() < 0.2
    segments, offset = [], base
    for _ in range(3):
        segment = Segment(offset)
        wanted = random.choice((3_000, 20_000, 20_000, 20_000, 60_000, 60_000, 150_000))
        stored = 0
        while stored < wanted:
            count = most if has_one_size else random.randint(1, most)
            records = []
            for number in range(count):
                rest = size if has_one_size else random.randint(0, size)
                value = name + b"%12d " % (offset + number) + random.randbytes(rest)
                records.append(
                    Rec(value, timestamp=START + offset + number, offset=offset + number)
                )
            for few in [records] if codec or magic == 2 else [[each] for each in records]:
                data = any_batch(few, few[0].offset or 0, codec, magic=magic)
                values = {int(each.offset or 0): bytes(each.value or b"") for each in few}
                inner = inner_messages(few, magic) if codec and magic < 2 else ()
                segment.batches.append(Made(data, values, inner))
                stored += len(data)
            offset += count
            if compacted and random.random() < 0.5:
                offset += random.randint(1, 9)
        segment.data = b"".join(each.data for each in segment.batches)
        segments.append(segment)
    return segments, offset


def inner_messages(records: Sequence[Rec], magic: int) -> tuple[tuple[bytes, int], ...]:
    """The messages in a wrapper, and the offsets that they state: those of magic 1 are relative."""
    first = (records[0].offset or 0) if magic else 0
    offsets = [(each.offset or 0) - first for each in records]
    return tuple(
        (message(offset, each.key, each.value, magic=magic, timestamp=each.timestamp), offset)
        for offset, each in zip(offsets, records, strict=True)
    )


def block_of(random: Random, data: bytes, starts: Sequence[int], size: int) -> tuple[int, int]:
    """Start and end of a block: at sectors, at batches, or anywhere."""
    how = random.randrange(3)
    at = random.randrange(max(len(data) - size // 2, 1))
    if how == 0:
        at -= at % 512
    elif how == 1:
        at = random.choice(list(starts) or [0])
        later = [each for each in [*starts, len(data)] if each > at]
        return at, random.choice(later[:8]) if later else len(data)
    return at, min(at + size, len(data))


def made_case(random: Random) -> Case:
    compacted = random.random() < 0.3
    base = random.choice((0, 0, 1000, 1 << 33))
    segments, end = made_log(random, base, b"own", compacted=compacted)
    near = random.random() < 0.5
    other, _ = made_log(random, base if near else base + 50_000, b"other", compacted=compacted)
    case = Case("", segments, other, end, compacted)
    if random.random() < 0.2:
        with_values_of_batches(random, case)
    for _ in range(random.choice((1, 1, 2))):
        change(random, case)
    return case


def with_values_of_batches(random: Random, case: Case) -> None:
    """A batch of the log gets a value that holds whole batches, and one bit of that batch is hit."""
    segment = random.choice(case.segments)
    place = random.randrange(len(segment.batches))
    old = segment.batches[place]
    others = [each for each in case.segments if each is not segment]
    carried = random.choice([*others, *case.other]).batches
    first = random.randrange(len(carried))
    value = b"".join(each.data for each in carried[first : first + random.randint(1, 4)])
    magic = old.data[16]
    new = Made(
        any_batch(
            [Rec(value, timestamp=START + old.first, offset=old.first)], old.first, magic=magic
        ),
        {old.first: value},
    )
    segment.batches[place] = new
    segment.data = b"".join(each.data for each in segment.batches)
    if random.random() < 0.7:
        at = segment.starts[place] + len(new.data) - 1 - random.randrange(3)
        hit = bytes([segment.data[at] ^ 1])
        segment.data = segment.data[:at] + hit + segment.data[at + 1 :]
        case.what += f"bit of {new.first} with batches in its value; "


def change(random: Random, case: Case) -> None:
    number = random.randrange(3)
    segment = case.segments[number]
    data, size = segment.data, random.choice((512, 1024, 4096, 4096, 4096, 65536))
    kind = random.choice(("over", "over", "insert", "double", "swap", "zero", "shift", "cut"))
    start, end = block_of(random, data, segment.starts, size)
    which = random.randrange(3)
    source = case.segments[(number + random.choice((0, 1, 2))) % 3] if which else case.other[number]
    low, high = block_of(random, source.data, source.starts, size)
    block = source.data[low:high]
    case.has_foreign |= not which and kind in ("over", "insert")
    if kind == "over":
        segment.data = data[:start] + block + data[start + len(block) :]
    elif kind == "insert":
        segment.data = data[:start] + block + data[start:]
    elif kind == "double":
        segment.data = data[:end] + data[start:end] + data[end:]
    elif kind == "swap":
        other_start, other_end = block_of(random, data, segment.starts, end - start)
        (a, b), (c, d) = sorted(((start, end), (other_start, other_end)))
        if b <= c:
            segment.data = data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]
    elif kind == "zero":
        segment.data = data[:start] + bytes(end - start) + data[end:]
    elif kind == "shift":
        segment.data = data[:start] + random.randbytes(random.choice((512, 4096))) + data[start:]
    else:
        segment.data = data[:start] + data[end:]
    own = "its own" if which else "another log's"
    case.what += f"{kind} {start}..{end} of segment {segment.base} ({own} {low}..{high}); "


def torn_offset(random: Random, case: Case) -> None:
    """A block ends, or begins, inside of a batch's base offset: the rest of the batch is whole."""
    number = random.randrange(3)
    segment, kept = case.segments[number], random.randrange(1, 8)
    source = random.choice([segment, segment, *case.segments, *case.other])
    start, low = random.choice(segment.starts), random.choice(source.starts)
    size = random.choice((512, 4096))
    torn = random.choice((bytes(size), random.randbytes(size), b"\xff" * size))[: start + kept]
    behind = b""
    if source is not segment:
        behind = source.data[low + kept : low + size]
        case.has_foreign = True
    data, at = segment.data, start + kept
    segment.data = data[: at - len(torn)] + torn + behind + data[at + len(behind) :]
    case.what += f"{at - len(torn)}..{at} of segment {segment.base} torn, then {len(behind)} bytes of {low}; "


def write(case: Case, folder: Path, index_interval: int) -> None:
    partition = folder / NAME
    partition.mkdir(parents=True)
    for segment in case.segments:
        files = segment_files(
            [each.data for each in segment.batches], segment.base, index_interval=index_interval
        )
        for name, data in files.items():
            (partition / name).write_bytes(segment.data if name.endswith(".log") else data)


# What readers give


def served(view: LogView) -> tuple[dict[int, bytes], dict[int, list[tuple[int, int]]], list[str]]:
    """Values by offset, positions and sizes of the batches by segment, and what is wrong with the order."""
    records: list[tuple[int, bytes]] = []
    places: dict[int, list[tuple[int, int]]] = {}
    for segment, item in view.runs():
        if not isinstance(item, BatchRun):
            continue
        for columns in item.columns():
            records += [
                (int(columns.offset[row]), columns.value(row) or b"") for row in range(len(columns))
            ]
        rows = zip(item.table["position"].tolist(), item.table["size"].tolist(), strict=True)
        places.setdefault(segment.base_offset, []).extend(rows)
    offsets = [offset for offset, _ in records]
    wrong = any(one >= other for one, other in itertools.pairwise(offsets))
    return dict(records), places, [f"offsets go back or repeat: {offsets}"] if wrong else []


def judged(case: Case, folder: Path, random: Random) -> Iterator[str]:
    """What is wrong with the answers about a changed log."""
    view = open_source(str(folder)).partitions()[NAME].view()
    is_first = random.random() < 0.5
    end = view.log_end_offset
    looked = dict(look_ups(case, view, random)) if is_first else {}
    records, places, wrong = served(view)
    yield from wrong
    chosen: list[Copy] = []
    expected: dict[int, bytes] = {}
    last = case.segments[2].base
    for number, segment in enumerate(case.segments):
        there = places.pop(segment.base, [])
        chosen, wrong = judged_segment(case, number, there)
        yield from wrong
        for copy in chosen:
            expected |= copy.batch.values
            last = max(last, copy.batch.last + 1)
    if records != expected:
        yield f"values differ at {sorted(dict(records.items() ^ expected.items()))}"
    if end != last and not ends_late(case, chosen):
        yield f"the log ends at {end}, its last record is {last - 1}"
    end = open_source(str(folder)).partitions()[NAME].view().log_end_offset
    if end != last:
        yield f"once read, the log ends at {end}, its last record is {last - 1}"
    looked = looked or dict(look_ups(case, view, random))
    for offset, value in looked.items():
        if value != records.get(offset):
            yield f"look-up of {offset}: {value!r:.40}, in bulk {records.get(offset)!r:.40}"
    for start, stop in (sorted(random.sample(range(case.segments[0].base, end + 1), 2)),) * 2:
        part = dict(range_of(view, start, stop))
        if part != {at: value for at, value in records.items() if start <= at < stop}:
            yield f"range {start}..{stop} has {sorted(part)}"
    for offset in random.sample(sorted(records), min(len(records), 5)):
        found = view.offset_for_time(START + offset)
        if has_times(case) and (found is None or found.offset != offset):
            yield f"look-up of the time of {offset}: {found}"


def ends_late(case: Case, chosen: list[Copy]) -> bool:
    """Whether a look at the log end may take a batch for the last one that only a scan of the file leaves out."""
    segment, found = case.segments[2], Bytes(case, 2).found
    return len(segment.data) > SOON_DECIDED and found[-1] not in chosen


def has_times(case: Case) -> bool:
    """Whether each record has a timestamp of its own."""
    return not case.has_foreign and all(
        each.data[16] for segment in case.segments for each in segment.batches
    )


def range_of(view: LogView, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    for _, item in view.runs(start, stop):
        for columns in item.columns() if isinstance(item, BatchRun) else ():
            for row, offset in enumerate(columns.offset.tolist()):
                if start <= offset < stop:
                    yield offset, columns.value(row) or b""


def look_ups(case: Case, view: LogView, random: Random) -> Iterator[tuple[int, bytes | None]]:
    every = range(case.segments[0].base, case.next_offset)
    for offset in random.sample(every, min(len(every), 120)):
        try:
            found = view.record(offset)
        except KafkaStorageError:
            found = None
        yield offset, None if found is None else found[0].value(found[1]) or b""


def judged_segment(
    case: Case, number: int, places: list[tuple[int, int]]
) -> tuple[list[Copy], list[str]]:
    """The copies at the places that were served, and what is wrong with the choice."""
    segment, truth = case.segments[number], Bytes(case, number)
    by_place = {(copy.position, len(copy.batch.data)): copy for copy in truth.found}
    chosen = [by_place[place] for place in places if place in by_place]
    wrong = []
    unknown = [place for place in places if place not in by_place]
    if unknown:
        wrong.append(f"segment {segment.base}: {unknown} are no batches that count")
    kept = [place for place, copy in enumerate(truth.found) if copy in chosen]
    size, most = truth.records(kept), truth.largest()
    if size != most:
        wrong.append(f"segment {segment.base}: {size} records, and a chain has {most}")
    for copy in truth.found:
        if copy not in chosen and not any(contradict(copy, each) for each in chosen):
            where = f"{copy.batch.first} to {copy.batch.last} at {copy.position}"
            wrong.append(f"segment {segment.base}: {where} is left out")
    return chosen, wrong


def judged_rebuild(case: Case, folder: Path, target: Path) -> Iterator[str]:
    """What is wrong with a rebuilt log: it has all that readers give, and nothing that is nowhere."""
    wanted, _, _ = served(open_source(str(folder)).partitions()[NAME].view())
    rebuild(str(folder), str(target), RebuildOptions())
    records, _, wrong = served(open_source(str(target)).partitions()[NAME].view())
    yield from (f"rebuilt: {each}" for each in wrong)
    lost = [at for at, value in wanted.items() if records.get(at) != value]
    if lost:
        yield f"not rebuilt: {lost}"
    stated = {item for made in case.every() for item in made.values.items()}
    for number in range(len(case.segments)):  # also by a base offset that a block tore
        stated |= {item for copy in Bytes(case, number).found for item in copy.batch.values.items()}
    made_up = [item for item in records.items() if item not in stated]
    if made_up:
        yield f"rebuilt at offsets that nobody wrote: {made_up}"


def failures_of(
    seed: int, number: int, *, faces: bool | None = None, torn: bool = False
) -> list[str]:
    """What is wrong with case `number` of a seed; `torn` asks for blocks that end in a base offset."""
    random = Random(f"{seed} {number}")
    case = made_case(random)
    if torn:
        torn_offset(random, case)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "source")
        write(case, folder, random.choice((4096, 4096, 512, 1 << 30)))
        try:
            wrong = list(judged(case, folder, random))
            if number % 5 == 0:
                wrong += judged_rebuild(case, folder, Path(name, "target"))
            if number % 10 == 0 if faces is None else faces:
                records = served(open_source(str(folder)).partitions()[NAME].view())[0]
                wrong += differences_of_faces(folder, NAME, records)
        except Exception:  # noqa: BLE001 - a finding like any other
            wrong = [traceback.format_exc()]
    return [f"seed {seed} case {number}: {case.what}\n  {each:.4000}" for each in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--torn", action="store_true")
    options = parser.parse_args()
    wrong = 0
    for number in range(options.first, options.first + options.cases):
        found = failures_of(options.seed, number, torn=options.torn)
        wrong += bool(found)
        for each in found:
            print(each, flush=True)
    print(f"{options.cases} cases of seed {options.seed}: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
