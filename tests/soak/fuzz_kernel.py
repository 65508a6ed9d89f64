"""Targets of the kernel: each of its functions on hostile batches, and often the pure-Python twin beside it.

Bytes are given in memory of exactly their size, so that AddressSanitizer sees a read behind them.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import ModuleType
from typing import Any
from zlib import crc32

import numpy as np

from engine.arrays import npt
from engine.budgets import DEFAULT_BUDGETS
from engine.coding.compression import CompressionType, compress
from engine.coding.hashed_slots import BYTES_PER_SLOT
from engine.columns.batch_table import BATCH_ROW, Problem
from engine.columns.columns import RECORD_ROW, Columns
from engine.columns.matching import Automaton
from engine.kernel import compiled, python as twin
from engine.lines.dump_text import DumpShape
from engine.lines.json_text import Values
from engine.lines.lines_result import NO_BOUND
from engine.lines.record_line import LineOptions
from engine.record.attributes import COMPRESSION_MASK
from tests import builders
from tests.soak.fuzz_batches import BASE, HEADER, RECORDS, Batches, sealed
from tests.soak.mutator import EDGE_NUMBERS, EDGE_TEXTS, Mutator, changed
from tests.soak.targets import Target

Said = list[Any]
Say = Callable[[ModuleType, memoryview, Random], Said]
ROOM = 8
AT = 5
"""Position of the bytes in their file."""
TIGHT = dataclasses.replace(
    DEFAULT_BUDGETS, inflated_bytes=4000, records_per_batch=40, headers_per_record=5
)
ALL = DumpShape.BATCHES | DumpShape.METADATA | DumpShape.CONTENTS
MODES = ("auto", "text", "json", "base64", "hex", "none")
TOPICS = ("t", "t", "t", "__consumer_offsets", "__cluster_metadata")
NEEDLES = (b"a", b"Plain", b"", b"key", b"\xff", b"x" * 60, b"null", b"\x00")
AUTOMATON = Automaton(
    np.array([[0] * 256, [512] + [256] * 255, [512] * 97 + [0] + [256] * 158], np.uint32).ravel(),
    np.array([1, 0, 1], np.uint8),
)
"""Accepts a field with a zero byte before an "a", or at the end."""


def exact(data: bytes) -> memoryview:
    """The bytes in memory of their own."""
    made = np.empty(len(data), np.uint8)
    made[:] = np.frombuffer(data, np.uint8)
    return memoryview(made)


def rows_of(kernel: ModuleType, data: memoryview) -> npt.NDArray[np.void]:
    """A row for each of the first batches."""
    table = np.zeros(ROOM, BATCH_ROW.dtype)
    rows = kernel.walk(data, table, 0, AT, True)[0]
    return table[:rows].copy()


def columns_of(kernel: ModuleType, data: memoryview) -> tuple[npt.NDArray[np.void], Columns]:
    """The batches and their records."""
    table = rows_of(kernel, data)
    read = kernel.decode(data, table, 0, len(table), start_position=AT, budgets=TIGHT)
    return table, read


def shown(columns: Columns) -> Said:
    """Columns, to be compared."""
    return [columns.table.tolist(), bytes(columns.arena), columns.problems, columns.next_row]


def answer(call: Callable[[], Any]) -> Any:
    """What a call returns, or the name of what it refuses its arguments by."""
    try:
        return call()
    except (ValueError, OverflowError, IndexError) as error:
        return type(error).__name__


def walk(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    table = np.zeros(ROOM, BATCH_ROW.dtype)
    start = chance.randrange(len(data) + 1)
    largest = chance.choice((2**31 - 1, 100, 400))
    said = [
        kernel.walk(data, table, at, AT, crc, largest=largest)
        for at in (0, start)
        for crc in (True, False)
    ]
    said.append(kernel.walk(data, table, 0, AT, True))
    said.append(table.tolist())
    rows = said[-2][0]
    said += [kernel.good_rows(table, row, rows) for row in range(rows + 1)]
    said += [
        kernel.find_batch(data, at, 0, least) for at in (0, start) for least in (0, 3, BASE + 1)
    ]
    said.append(kernel.batch_facts(data))
    return said


def decode(kernel: ModuleType, data: memoryview, _: Random) -> Said:
    table, columns = columns_of(kernel, data)
    return [table.tolist(), *shown(columns)]


def summaries(kernel: ModuleType, data: memoryview, _: Random) -> Said:
    table = rows_of(kernel, data)
    rows, problems = kernel.summarize(data, table, start_position=AT, budgets=TIGHT)
    said = [rows.tolist(), problems]
    for row in table:
        start = int(row["position"]) - AT
        batch = data[start : start + int(row["size"])]
        said.append(kernel.record_facts(batch, budgets=TIGHT))
    return said


def options_of(chance: Random) -> dict[str, Any]:
    """How lines are written."""
    options = LineOptions(
        chance.choice(TOPICS), 1, values=chance.choice(MODES), committed=chance.random() < 0.3
    )
    if chance.random() < 0.4:
        first = chance.randrange(-1, 60)
        options = dataclasses.replace(options, from_offset=first, to_offset=first + 3)
    return {
        "options": options,
        "fates": np.array(chance.choices(range(4), k=ROOM), np.uint8),
        "enough": chance.choice((NO_BOUND, 0, 200, 700)),
        "first_record": chance.choice((0, 0, 1, 2)),
    }


def lines(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    asked = options_of(chance)
    table = rows_of(kernel, data)
    asked["fates"] = asked["fates"][: len(table)]
    asked |= {"start_position": AT, "budgets": TIGHT}
    said = [
        kernel.lines(data, table, 0, len(table), measure=measure, **asked)
        for measure in (False, True)
    ]
    # What is large is for each kernel to say, but not what the lines before it are.
    most = chance.choice((100, 1000, 5000))
    bounded = kernel.lines(data, table, 0, len(table), most=most, **asked)
    assert (said[0].text or b"").startswith(bounded.text or b""), most
    return said


def column_lines(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    table, columns = columns_of(kernel, data)
    asked = options_of(chance)
    asked["fates"] = asked["fates"][: len(table)]
    return [kernel.column_lines(table, columns, **asked)]


def search(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    table, columns = columns_of(kernel, data)
    said: Said = []
    for fold in (False, True):
        needle = chance.choice(NEEDLES)
        how: dict[str, Any] = {"start_position": AT, "budgets": TIGHT, "fold": fold}
        said.append(kernel.contains(data, table, 0, len(table), needle, **how).tolist())
        said += shown(kernel.decode(data, table, 0, len(table), needle=needle, **how))
        said.append(kernel.matching(columns, chance.randrange(8), needle, fold=fold).tolist())
    said.append(kernel.matching(columns, 7, automaton=AUTOMATON).tolist())
    return said


@contextmanager
def file_of(data: memoryview) -> Iterator[int]:
    """A descriptor of a file with the bytes."""
    descriptor = os.memfd_create("log")
    try:
        os.write(descriptor, data)
        yield descriptor
    finally:
        os.close(descriptor)


def look_ups(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    said: Said = []
    end = chance.choice((len(data), len(data) // 2, len(data) + 100))
    target = chance.choice((0, BASE, BASE + 1, BASE + 2, BASE + 900, 2**62))
    options = LineOptions("t", 1, values=chance.choice(MODES))
    with file_of(data) as fd:
        found = located(kernel, fd, end, target)
        said.append(found)
        read = kernel.read_batch(fd, 0, end, target)
        said.append(None if read is None else (bytes(read[0]), read[1], bytes(read[2])))
        record = kernel.read_record(fd, 0, end, target, budgets=TIGHT)
        said.append(None if record is None else shown(record))
        said.append(kernel.read_line(fd, 0, end, target, options, most=3000, budgets=TIGHT))
        table = rows_of(kernel, data)
        size = sum(int(row["size"]) for row in table)
        plain: dict[str, Any] = {"options": options, "budgets": TIGHT}
        text = kernel.lines(
            data, table, 0, len(table), start_position=AT, measure=True, **plain
        ).size
        made = kernel.read_lines(fd, 0, size, len(table), text, **plain)
        said.append(None if made is None else bytes(made))
    return said


def located(kernel: ModuleType, fd: int, end: int, target: int) -> Any:
    """Where a batch was found, or what is said of a broken frame."""
    scratch = bytearray(256)
    try:
        found = kernel.locate(fd, 0, end, target, scratch)
    except Exception as error:  # noqa: BLE001 - a refusal of the twin is compared with ours
        return type(error).__name__, str(error)
    if found is None:
        return None
    position, size, *facts, index = found
    if index >= 0:
        assert scratch[index : index + size] == os.pread(fd, size, position), found
    return position, size, *facts


def dump(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    table, columns = columns_of(kernel, data)
    new = np.flatnonzero(table["magic"] == 2)
    if len(new) < len(table):
        return [kernel.dump_rows(table, 0, len(table), None, shape=DumpShape.BATCHES)]
    first = chance.choice((-(2**63), 0, BASE + 1))
    return [
        kernel.dump_rows(table, 0, len(table), columns, shape=shape, from_offset=first)
        for shape in (ALL, chance.randrange(8))
    ]


def gather(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    _, columns = columns_of(kernel, data)
    count = len(columns)
    indices = np.array([chance.randrange(count) for _ in range(min(count * 2, 9))], np.int64)
    if chance.random() < 0.1:
        indices = np.append(indices, chance.choice((-1, count, 2**62)))
    said = [
        answer(lambda name=name: kernel.gather(columns, indices, name)) for name in ("key", "value")
    ]
    return [*said, answer(lambda: kernel.gather_headers(columns, indices))]


def compaction(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    table, columns = columns_of(kernel, data)
    slots = bytearray(BYTES_PER_SLOT * chance.choice((1, 4, 40)))
    limit = chance.randrange(len(slots) // BYTES_PER_SLOT + 1)
    said: Said = [kernel.put_keys(slots, 0, limit, columns, chance.choice((0, BASE + 1)))]
    said += [bytes(slots), kernel.offsets_of(slots, columns).tolist()]
    larger = bytearray(2 * len(slots))
    kernel.move_slots(slots, larger)
    said.append(bytes(larger))
    kept = np.array([chance.random() < 0.6 for _ in range(len(columns))], bool)
    said.append(kernel.encode_records(columns, kept, BASE, 1_700_000_000_000))
    if columns.problems or not all(table["magic"] == 2) or not all(table["crc_ok"]):
        return said  # the cleaner does not write such batches
    made = answer(
        lambda: kernel.keep_records(
            *(data, table, 0, len(table), columns, kept),
            start_position=AT,
            delete_horizon=chance.choice((-1, 1_800_000_000_000)),
            upper_bound=BASE + 2,
        )
    )
    return [*said, made if isinstance(made, str) else (made[0], made[1].tolist(), made[2])]


def text(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    said: Said = []
    for mode in Values:
        kind = kernel.how_shown(data, int(mode))
        said.append(kind)
        if mode is Values.NONE:
            continue
        at, in_string, most = 0, False, chance.choice((16, 33, 5000))
        shown = b""
        while at < len(data):
            piece = kernel.text_piece(data, at, most, kind, in_string)
            measured = kernel.text_piece(data, at, most, kind, in_string, True)
            assert measured == (None, *piece[1:]), (piece, measured)
            assert (piece[1], piece[2] > at) == (len(piece[0]), True), piece
            shown += piece[0]
            at, in_string = piece[2], piece[3]
        said += [shown, in_string]
    return said


def slots(kernel: ModuleType, data: memoryview, chance: Random) -> Said:
    said = []
    for size, key, is_long in ((8, 0, False), (8, 4, False), (12, 0, True), (12, 8, False)):
        count = len(data) // size
        target = chance.choice((*EDGE_NUMBERS[:12], 0, 5, 2**62))
        if not is_long:
            target = max(-(2**31), min(target, 2**31 - 1))
        said.append(kernel.floor_slot(data, count, size, key, is_long, target))
        said.append(answer(lambda n=count, s=size: kernel.floor_slot(data, n + 1, s, 0, False, 0)))
    return said


WILD_FIELDS = [name for name in RECORD_ROW.dtype.names or () if not name.startswith("headers")]
"""The bytes of headers are trusted by those who did not gather them: only a kernel that has read them states them."""


def _columns_gone_wild(columns: Columns, chance: Random) -> Columns:
    """The records with some numbers that lead out of the arena."""
    table = columns.table.copy()
    for _ in range(chance.choice((1, 1, 2, 5))):
        if len(table):
            name = chance.choice(WILD_FIELDS)
            size = RECORD_ROW.dtype[name].itemsize * 8 - 1
            number = chance.choice(EDGE_NUMBERS)
            table[name][chance.randrange(len(table))] = max(-(2**size), min(number, 2**size - 1))
    return Columns(table, columns.arena, [], 0)


def wild_columns(data: bytes) -> None:
    """Functions that are given columns by Python refuse those that lead out of their arena; no comparison."""
    chance = Random(crc32(data))
    view = exact(data)
    table, good = columns_of(compiled, view)
    columns = _columns_gone_wild(good, chance)
    kept = np.ones(len(columns), bool)
    indices = np.arange(len(columns), dtype=np.int64)
    asked = {**options_of(chance), "options": LineOptions("t", 1)}
    asked["fates"] = asked["fates"][: len(table)]
    room = bytearray(BYTES_PER_SLOT * 8)
    for call in (
        lambda: compiled.gather(columns, indices, "key"),
        lambda: compiled.gather(columns, indices, "value"),
        lambda: compiled.gather_headers(columns, indices),
        lambda: compiled.matching(columns, 7, b"a"),
        lambda: compiled.matching(columns, 7, automaton=AUTOMATON),
        lambda: compiled.column_lines(table, columns, **asked),
        lambda: compiled.dump_rows(table, 0, len(table), columns, shape=ALL),
        lambda: compiled.put_keys(room, 0, 8, columns, 0),
        lambda: compiled.offsets_of(room, columns),
        lambda: compiled.move_slots(room, bytearray(len(room))),
        lambda: compiled.encode_records(columns, kept, BASE, 0),
        lambda: compiled.keep_records(
            *(view, table, 0, len(table), columns, kept),
            start_position=AT,
            delete_horizon=-1,
            upper_bound=BASE,
        ),
    ):
        answer(call)


def checksums(data: bytes) -> None:
    """All ways to the same checksum."""
    from engine.coding import checksums as reference

    view = exact(data)
    assert compiled.checksum("crc32c", view) == reference.crc32c(view)
    assert compiled.checksum("crc32c by table", view) == reference.crc32c(view)
    assert compiled.checksum("crc32", view) == reference.crc32(view)
    assert compiled.checksum("xxh32", view) == reference.xxh32(view)


def compared(say: Say, every: int) -> Callable[[bytes], None]:
    """Reads bytes with the compiled kernel, and some of them with its twin too, which must say the same."""

    def read(data: bytes) -> None:
        number = crc32(data)
        ours = say(compiled, exact(data), Random(number))
        if number % every == 0:
            theirs = say(twin, exact(data), Random(number))
            assert ours == theirs or libraries_differ(data), difference(ours, theirs)

    return read


def libraries_differ(data: bytes) -> bool:
    """Whether one of the kernels' libraries of Zstandard takes a frame that the other, newer one calls corrupt."""
    refused = []
    for kernel in (compiled, twin):
        table, columns = columns_of(kernel, exact(data))
        refused.append(
            {
                problem.row
                for problem in columns.problems
                if problem.code == Problem.DECOMPRESSION
                and table["attributes"][problem.row] & COMPRESSION_MASK == CompressionType.ZSTD
            }
        )
    return refused[0] != refused[1]


def difference(ours: Said, theirs: Said) -> str:
    """The first thing that the kernels say differently."""
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return f"answer {number}: compiled {one!r:.600}\npython {other!r:.600}"
    return f"compiled has {len(ours)} answers, python {len(theirs)}"


def frames(codec: CompressionType) -> Callable[[Random], bytes]:
    """Batches whose compressed bytes are hostile."""
    sections = [
        builders.records_section(RECORDS[:count], BASE, RECORDS[0].timestamp) for count in (1, 4, 7)
    ]
    sections.append(builders.records_section(RECORDS * 40, BASE, RECORDS[0].timestamp))
    mutate = Mutator([compress(codec, section) for section in sections])
    header = builders.batch(RECORDS[:4], BASE, codec, section=b"")

    def make(random: Random) -> bytes:
        return sealed(header[:HEADER] + mutate(random))

    return make


def _texts(random: Random) -> bytes:
    parts = [random.choice(EDGE_TEXTS) for _ in range(random.randrange(6))]
    parts.append(changed(RECORDS[0].value or b"", random, is_text=True))
    parts.append("".join(chr(random.choice((random.randrange(0x80), random.randrange(0xD800)))) for _ in range(9)).encode())  # fmt: skip
    random.shuffle(parts)
    return b"".join(parts[: random.randrange(1, 6)])


def _slots(random: Random) -> bytes:
    step = random.choice((0, 1, 1000, 2**28))
    numbers = sorted(random.randrange(0, 1 + step * 20) for _ in range(random.randrange(30)))
    made = b"".join((number & 0xFFFFFFFF).to_bytes(4, "big") for number in numbers)
    return changed(made, random) if random.random() < 0.5 else made


def _bytes(random: Random) -> bytes:
    return random.randbytes(random.choice((0, 1, 3, 4, 15, 16, 17, 63, 64, 255, 4096)))


def _batches(say: Say, every: int, **kinds: Any) -> Callable[[], Target]:
    return lambda: Target(Batches(**kinds), compared(say, every))


def _frames(codec: CompressionType) -> Callable[[], Target]:
    return lambda: Target(frames(codec), compared(decode, 6))


TARGETS: dict[str, Callable[[], Target]] = {
    "walk": _batches(walk, 24),
    "records-v0": _batches(decode, 12, magics=(0,), codecs=tuple(CompressionType)[:4]),
    "records-v1": _batches(decode, 12, magics=(1,), codecs=tuple(CompressionType)[:4]),
    "records-v2": _batches(decode, 12, magics=(2,)),
    **{f"frame-{codec.name.lower()}": _frames(codec) for codec in tuple(CompressionType)[1:]},
    "summaries": _batches(summaries, 24),
    "lines": _batches(lines, 24),
    "column-lines": _batches(column_lines, 24),
    "search": _batches(search, 32),
    "look-ups": _batches(look_ups, 24),
    "dump-text": _batches(dump, 24),
    "gather": _batches(gather, 24, magics=(2,)),
    "compaction": _batches(compaction, 24, magics=(2,)),
    "wild-columns": lambda: Target(Batches(magics=(2,)), wild_columns),
    "text": lambda: Target(_texts, compared(text, 8)),
    "slots": lambda: Target(_slots, compared(slots, 8)),
    "checksums": lambda: Target(_bytes, checksums),
}
"""What makes each target, by name."""
