"""Our dumps beside those of Kafka's own DumpLogSegments, on what a broker has just written and on damage.

Kafka's tool gets copies: it writes to the files that it reads.
"""

from __future__ import annotations

import random
import re
import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fixtures_data
from tests.kafka import jars
from tests.kafka.conftest import SEED, Written
from tests.kafka.dump_peer import Dumped, DumpPeer
from tests.kafkafs.dump.dumped import Dumped as Ours, dump
from tests.kafkafs.dump.truth_text import DECODERS, without_false_alarms

DAMAGES = 150
TRIMS_NOT = jars.release(jars.CURRENT) >= (4, 4)
"""An index of an odd length, which it reads: mended in 4.4."""
KNOWN_BUGS = {
    "-1 is followed by N": "said of each segment whose base offset is not 0",
    "dies": "an exception ends the dump; ours says it in a line and goes on",
    "stops": "a length that is too large ends the dump: the rest is called invalid, ours goes on",
    "astray": "a length that is wrong leads into the middle of a batch, and bytes there are batches",
    "half line": "a line is printed up to what throws",
    "wrapper": "messages of a broken wrapper of magic 1 are given offsets before all were looked at",
    "padding": "a preallocated index without an entry is compared with the log",
    "trims": "an index of an odd length is cut while it is read; nothing is said of the length",
}
"""Where Kafka 4.3.1 prints something else than we do, and why."""

OPTIONS = {
    "batches": [],
    "records": ["--deep-iteration"],
    "contents": ["--print-data-log"],
    "short": ["--print-data-log", "--skip-record-metadata"],
    "verify": ["--verify-index-only"],
    "sanity": ["--index-sanity-check"],
    "prefix": ["--max-bytes", "5000", "--print-data-log"],
}
READ = re.compile(r".*\.(log|index|timeindex|txnindex|snapshot|checkpoint)")


@pytest.fixture(scope="module")
def peer() -> Iterator[DumpPeer]:
    with DumpPeer() as made:
        yield made


MOST_LOG = 1 << 20
CASES = [
    (kind, name)
    for kind in ("current", "legacy", "live", "crashed")
    for name in OPTIONS
    if kind in ("current", "legacy") or name in ("contents", "verify")
]


def is_padding(path: Path) -> bool:
    return path.suffix in (".index", ".timeindex") and not any(path.read_bytes())


def is_too_slow(path: Path) -> bool:
    """Kafka's check of a time index takes time with the square of the log's size."""
    return path.suffix == ".timeindex" and path.with_suffix(".log").stat().st_size > MOST_LOG


def agree(kafka: Dumped, ours: Ours) -> None:
    """The same, but for the false alarm, and for what Kafka's tool did not live to print."""
    if kafka.thrown:
        assert ours.out.startswith(kafka.out[: kafka.out.rfind(b"\n") + 1])
        assert kafka.thrown.partition(": ")[2] in ours.err
        assert ours.status == 1
        return
    assert ours.out == kafka.out
    assert ours.err.strip() == without_false_alarms(kafka.err).strip()


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_text_of_what_a_broker_wrote_is_kafkas(
    kind: str,
    name: str,
    peer: DumpPeer,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    options = OPTIONS[name]
    written: Written = request.getfixturevalue(kind)
    copy = tmp_path / kind
    shutil.copytree(written.log_dir, copy)
    seen = 0
    for folder in sorted(path for path in copy.iterdir() if path.is_dir()):
        files = [path for path in sorted(folder.iterdir()) if READ.fullmatch(path.name)]
        files = [path for path in files if not is_padding(path) and not is_too_slow(path)]
        if not files:
            continue
        # Ours first: Kafka's tool changes what it reads.
        ours = dump(files, *options)
        agree(peer.dump(files, *options), ours)
        seen += 1
    assert seen > 5 or kind == "crashed"


@pytest.mark.parametrize("topic", DECODERS)
def test_decoded_topics_are_kafkas(
    topic: str, current: Written, peer: DumpPeer, tmp_path: Path
) -> None:
    seen = 0
    for folder in sorted(current.log_dir.glob(f"{topic}-*")):
        copy = tmp_path / folder.name
        shutil.copytree(folder, copy)
        files = sorted([*copy.glob("*.log"), *copy.glob("*.checkpoint")])
        ours = dump(files, DECODERS[topic])
        agree(peer.dump(files, DECODERS[topic]), ours)
        seen += sum(line.startswith("| ") for line in ours.lines)
    assert seen


class Damager:
    """Hits a file once; what it did is in `how`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.how = ""

    def records(self, data: bytes) -> bytes:
        starts = list(frames(data))
        ways = ("flip", "noise", "cut", "zeros", "twice", "without", "header", "length", "more")
        self.how = self.random.choice(ways)
        at = self.random.randrange(len(data))
        start, size = self.random.choice(starts)
        match self.how:
            case "flip":
                return self._over(data, at, bytes([data[at] ^ 1 << self.random.randrange(8)]))
            case "noise":
                return self._over(data, at, self.random.randbytes(self.random.randint(2, 40)))
            case "cut":
                return data[:at]
            case "zeros":
                return self._over(data, at, bytes(self.random.randint(1, 5000)))
            case "twice":
                return data[:start] + data[start : start + size] + data[start:]
            case "without":
                return data[:start] + data[start + size :]
            case "header":
                at = start + self.random.randrange(min(61, size))
                return self._over(data, at, self.random.randbytes(1))
            case "length":
                lengths = (-5, 0, 13, 14, 100, size - 11, size - 13, 2**31 - 1, 50000, size + 300)
                return self._over(data, start + 8, struct.pack(">i", self.random.choice(lengths)))
        return data[:at] + self.random.randbytes(self.random.randint(1, 50)) + data[at:]

    def index(self, data: bytes, width: int) -> bytes:
        entries = [data[at : at + width] for at in range(0, len(data) - width + 1, width)]
        self.how = self.random.choice(("flip", "swap", "twice", "without", "zeros", "entry"))
        at, other = (self.random.randrange(len(entries)) for _ in range(2))
        match self.how:
            case "flip":
                at = self.random.randrange(len(data))
                return self._over(data, at, bytes([data[at] ^ 1 << self.random.randrange(8)]))
            case "swap":
                entries[at], entries[other] = entries[other], entries[at]
            case "twice":
                entries.insert(at, entries[at])
            case "without":
                del entries[at]
            case "zeros":
                entries += [bytes(width)] * self.random.randint(1, 50)
            case "entry":
                entries[at] = self.random.randbytes(width)
        return b"".join(entries)

    @staticmethod
    def _over(data: bytes, at: int, new: bytes) -> bytes:
        return (data[:at] + new + data[at + len(new) :])[: len(data)]


def frames(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + 17 < len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        yield at, 12 + length
        at += 12 + length


def difference(kafka: Dumped, ours: Ours) -> str:
    """Which known bug the difference is, "same" when there is none; AssertionError for any other."""
    theirs, own = kafka.out.split(b"\n"), ours.out.split(b"\n")
    same = next(
        (at for at, (a, b) in enumerate(zip(theirs, own, strict=False)) if a != b),
        min(len(theirs), len(own)),
    )
    rest = [line for line in theirs[same:] if line]
    if not rest and not kafka.thrown:
        assert ours.out == kafka.out
        return "same"
    assert ours.status == 1
    if kafka.thrown and not rest:
        return "dies"
    if kafka.thrown and len(rest) == 1 and not kafka.out.endswith(b"\n"):
        return "half line"
    if len(rest) == 1 and b"invalid bytes at the end of" in rest[0]:
        assert len(own) > same + 1
        return "stops"
    if kafka.thrown and "Found invalid record structure" in ours.err:
        return "wrapper"
    # Only a length that is not true makes other batches; ours then says so.
    lost = any(b" invalid bytes at " in line for line in own[same:])
    assert lost or "the next one begins after" in ours.err
    return "astray"


def segments() -> list[Path]:
    found = [
        path
        for kind in ("current", "crashed", "legacy")
        for partition in fixtures_data.partitions(kind)
        for path in fixtures_data.logs(kind, partition)
    ]
    return [path for path in found if 1000 < path.stat().st_size < 200_000]


def test_damaged_logs_are_dumped_as_kafka_does_and_further(peer: DumpPeer, tmp_path: Path) -> None:
    damager = Damager(SEED)
    pool, seen = segments(), Counter[str]()
    for _ in range(DAMAGES):
        source = damager.random.choice(pool)
        path = tmp_path / source.name
        path.write_bytes(damager.records(source.read_bytes()))
        ours = dump(path, "--print-data-log")
        kafka = peer.dump([path], "--print-data-log")
        try:
            seen[difference(kafka, ours)] += 1
        except AssertionError as error:
            raise AssertionError(f"{source} with {damager.how}: {kafka.thrown}") from error
    assert set(seen) <= {"same", *KNOWN_BUGS}
    assert seen["same"] > DAMAGES // 5
    assert seen["dies"] > DAMAGES // 10


def _as_kafka_says(err: str) -> str:
    """Standard error without the bytes behind an index's last entry, which Kafka's tool passes over in silence."""
    lines = err.strip().split("\n")
    return "\n".join(line for line in lines if " are skipped: there is data at byte " not in line)


def test_damaged_indexes_are_verified_as_kafka_does(peer: DumpPeer, tmp_path: Path) -> None:
    damager = Damager(SEED)
    widths = {".index": 8, ".timeindex": 12}
    pool = [
        path.with_suffix(suffix)
        for path in segments()
        for suffix, width in widths.items()
        if path.with_suffix(suffix).exists() and path.with_suffix(suffix).stat().st_size >= width
    ]
    same = 0
    for _ in range(DAMAGES):
        source = damager.random.choice(pool)
        for suffix in (".log", ".index", ".timeindex"):
            shutil.copy(source.with_suffix(suffix), tmp_path)
        path = tmp_path / source.name
        path.write_bytes(damager.index(source.read_bytes(), widths[source.suffix]))
        if not path.stat().st_size or is_padding(path):
            continue
        ours = dump(path)
        kafka = peer.dump([path])
        if kafka.thrown:
            assert ours.out.startswith(kafka.out[: kafka.out.rfind(b"\n") + 1])
            assert ours.status == 1, (source, damager.how, kafka.thrown)
            continue
        assert ours.out == kafka.out, (source, damager.how)
        assert _as_kafka_says(ours.err) == kafka.err.strip(), (source, damager.how)
        same += 1
    assert same > DAMAGES // 3


def test_kafkas_known_bugs_are_still_there(peer: DumpPeer, tmp_path: Path) -> None:
    """When one is mended, the list and the documentation are to be changed."""
    source = fixtures_data.logs("current", "orders-0")[1]
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(source.with_suffix(suffix), tmp_path)
    log = tmp_path / source.name
    index = log.with_suffix(".index")
    assert "-1 is followed by 395" in peer.dump([log], "--deep-iteration").err
    size = index.stat().st_size
    index.write_bytes(index.read_bytes() + b"xyz")
    peer.dump([index], "--verify-index-only")
    assert index.stat().st_size == (size + 3 if TRIMS_NOT else size)
    index.unlink()
    assert peer.dump([log.with_suffix(".timeindex")]).thrown
    assert index.exists()
