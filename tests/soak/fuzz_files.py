"""Targets of the files of a log dir: indexes, snapshots, checkpoints, and whole folders through check, dump and the tree."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from random import Random
from zlib import crc32

from engine.budgets import DEFAULT_BUDGETS
from engine.check.log_dir_check import SourceCheck
from engine.checkpoint.clean_shutdown import parse_clean_shutdown
from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.checkpoint.meta_properties import parse_meta_properties
from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.checkpoint.quorum_state import parse_quorum_state
from engine.coding.checksums import crc32c
from engine.index.abstract_index import AbstractIndex
from engine.index.offset_index import OffsetIndex
from engine.index.time_index import TimeIndex
from engine.index.transaction_index import TransactionIndex
from engine.log.log_directory import open_source
from engine.rebuild.target.manifest import parse_manifest, render_manifest
from engine.record.memory_records import MemoryRecords
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.state.producer_snapshot import ENTRY, HEADER, ProducerSnapshot
from kafkafs.dump.dump import dump_json, dump_text
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.inputs import expand
from kafkafs.dump.report import DumpReport
from tests import fixtures_data, golden_logs
from tests.damage.survey import survey
from tests.soak.fuzz_batches import Batches, sealed
from tests.soak.mutator import Mutator, Repair, put
from tests.soak.targets import REFUSALS, Target
from tests.tiered_folders import TieredWriter, aiven_copy

SMALL = 1200
"""Bytes of a good file that are taken."""
SNAPSHOT_CHECKED_FROM = 6
FEW_BYTES = 3000
ENTRY_SIZES = {".index": 8, ".timeindex": 12, ".txnindex": 34}


@cache
def files_like(ending: str) -> tuple[bytes, ...]:
    """The beginnings of all files in tests/data whose names end so."""
    found = {
        path.read_bytes()[:SMALL]
        for path in sorted(fixtures_data.DATA.rglob(f"*{ending}"))
        if path.is_file() and "truth" not in path.relative_to(fixtures_data.DATA).parts
    }
    for theme in golden_logs.cases():
        found |= {
            data[:SMALL]
            for name, data in golden_logs.files_of(theme).items()
            if name.endswith(ending)
        }
    return tuple(sorted(found))


def reader_of(parse: Callable[[bytes], object], ending: str, *more: bytes) -> Callable[[], Target]:
    """A target that reads small text files."""
    return lambda: Target(Mutator((*files_like(ending), *more), is_text=True), parse)


# Indexes


def _index(kind: type[AbstractIndex], ending: str) -> Callable[[], Target]:
    size = ENTRY_SIZES[ending]

    def make() -> Target:
        good = [data[: len(data) // size * size] for data in files_like(ending)]
        return Target(Mutator([*good, b"", bytes(size * 3)]), lambda data: read_index(kind, data))

    return make


def read_index(kind: type[AbstractIndex], data: bytes) -> None:
    """All questions to an index; what its slots say in memory it says from a file too."""
    chance = Random(crc32(data))
    base = chance.choice((0, 5, 2**31, 2**63 - 2**31))
    index = kind(data, base)
    entries = []
    for call in (index.check, lambda: entries.extend(index), lambda: index[len(index) - 1]):
        try:
            call()
        except (*REFUSALS, IndexError):
            pass
    target = chance.choice((0, base, base + chance.randrange(2000), 2**63 - 1))
    if isinstance(index, OffsetIndex):
        found = index.lookup(target)
        assert found.offset <= target or found == (base, 0)
        index.entries_around(target)
        index.upper_bound_for_fetch(found, chance.choice((0, 1, 2**31 - 1)))
        assert index.last_offset == index.last_entry.offset
    elif isinstance(index, TimeIndex):
        index.lookup(target)
        assert index.last_entry is not None
    elif isinstance(index, TransactionIndex):
        index.aborted_between(min(base, target), max(base, target))
        assert not index.is_empty or not entries


# Producer snapshots and leader epochs


def _seal_snapshot(data: bytes, random: Random) -> bytes:
    count = max(len(data) - HEADER.size, 0) // ENTRY.size
    data = put(data, SNAPSHOT_CHECKED_FROM, ">i", count) if random.random() < 0.7 else data
    return put(data, 2, ">I", crc32c(memoryview(data)[SNAPSHOT_CHECKED_FROM:]))


def read_snapshot(data: bytes) -> None:
    """A snapshot that is taken is written again as it was, but for what its reader gives up."""
    producers = ProducerSnapshot.parse(data)
    again = ProducerSnapshot.parse(ProducerSnapshot.render(producers))
    assert again == producers


def read_epochs(data: bytes) -> None:
    """Leader epochs, and the questions to their cache."""
    entries = parse_leader_epochs(data)
    if any(number < 0 for entry in entries for number in entry):
        return  # the cache's callers leave such entries out
    cache_ = LeaderEpochCache(entries)
    chance = Random(crc32(data))
    for _ in range(3):
        epoch, offset = chance.choice((-1, 0, 3, 2**31 - 1)), chance.choice((0, 7, 2**62))
        cache_.epoch_for(offset)
        cache_.end_offset_for(epoch, offset)
        cache_.entries_between(0, offset)


def _count_lines(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    if len(lines) > 1 and random.random() < 0.7:
        lines[1] = str(len([line for line in lines[2:] if line.strip()])).encode()
    return b"\n".join(lines)


def _counted(parse: Callable[[bytes], object], *endings: str) -> Callable[[], Target]:
    def make() -> Target:
        good = [data for ending in endings for data in files_like(ending)]
        return Target(Mutator(good, _count_lines, is_text=True), parse)

    return make


# Batches as objects, and whole folders


def read_batches(data: bytes) -> None:
    """Every batch and record by the classes that look-ups use, under tight budgets."""
    from tests.soak.fuzz_kernel import TIGHT

    records = MemoryRecords(data)
    assert 0 <= records.valid_bytes <= len(data)
    for batch in records.batches():
        for name in (
            "computed_crc",
            "timestamp_type",
            "base_offset",
            "last_offset",
            "max_timestamp",
        ):
            getattr(batch, name)
        for call in (batch.ensure_valid, lambda b=batch: list(b.records(TIGHT))):
            with contextlib.suppress(REFUSALS):
                call()


def first_batches(data: bytes) -> bytes:
    """The whole batches in the first few thousand bytes: a whole folder is read for each input."""
    end = 0
    for batch in MemoryRecords(data).batches():
        end += batch.size
        if end > FEW_BYTES:
            break
    return data[:end]


class Folder:
    """A log dir in memory with one partition, whose files are one input.

    An input is the number of the file, and the file's bytes.
    """

    PARTITION = "topic-0"

    def __init__(self) -> None:
        shm = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(prefix="soak-", dir=shm if shm.is_dir() else None))
        self.log_dir = self.root / "data"
        source = fixtures_data.log_dir("current") / "txn-0"
        shutil.copytree(source, self.log_dir / self.PARTITION)
        shutil.copy(fixtures_data.log_dir("current") / "meta.properties", self.log_dir)
        self.files = sorted(path for path in self.log_dir.rglob("*") if path.is_file())
        for log in self.log_dir.rglob("*.log"):
            log.write_bytes(first_batches(log.read_bytes()))
        self.good = {path: path.read_bytes() for path in self.files}
        self._batches = Batches()

    def make(self, random: Random) -> bytes:
        """One file, hurt."""
        number = random.randrange(len(self.files))
        path = self.files[number]
        data = self.good[path]
        if path.suffix == ".log" and random.random() < 0.7:
            hurt = Mutator([data[: random.randrange(len(data))]])(random)
            made = random.choice((self._batches(random), hurt, hurt + self._batches(random)))
        else:
            made = Mutator([data], _sealer(path), is_text=not path.suffix)(random)
        return bytes([number]) + made

    def put(self, data: bytes) -> None:
        """Write an input into the log dir, and the other files as they were."""
        for path, good in self.good.items():
            if path.read_bytes() != good:
                path.write_bytes(good)
        self.files[data[0] % len(self.files) if data else 0].write_bytes(data[1:])


def _sealer(path: Path) -> Repair | None:
    if path.suffix == ".snapshot":
        return _seal_snapshot
    return _count_lines if path.name.endswith("checkpoint") else None


def _whole(read: Callable[[Path], None]) -> Callable[[], Target]:
    def make() -> Target:
        folder = Folder()

        def read_one(data: bytes) -> None:
            folder.put(data)
            read(folder.log_dir)

        return Target(folder.make, read_one)

    return make


def check_folder(log_dir: Path) -> None:
    """`check` finds or is content; it does not fail."""
    source = open_source(str(log_dir))
    try:
        for event in SourceCheck(source).run():
            str(event)
    finally:
        source.close()


def dump_folder(log_dir: Path) -> None:
    """Both forms of a dump, to nowhere; each line of the second is JSON."""
    files = list(expand([str(path) for path in sorted((log_dir / Folder.PARTITION).iterdir())]))
    for options in (DumpOptions(print_data_log=True), DumpOptions(verify_index_only=True)):
        dump_text(files, options, DumpReport(lambda _: None, lambda _: None))
    said: list[bytes] = []
    dump_json(files, DumpOptions(print_data_log=True), DumpReport(said.append, lambda _: None))
    for line in b"".join(said).splitlines():
        json.loads(line)


def read_folder(log_dir: Path) -> None:
    """The whole tree, file by file."""
    found = survey(str(log_dir))
    strays = [each for each in found.wrong if each.startswith(("stray", "size"))]
    assert not strays, "\n".join(strays[:3])


# Copies of tiered storage and backups


def tiered() -> Target:
    """The files beside a tiered segment: manifest, indexes, snapshot, epochs."""
    root = Path(tempfile.mkdtemp(prefix="soak-tiered-"))
    partition = fixtures_data.log_dir("current") / "txn-0"
    (root / "kafka").mkdir()
    (root / "aiven").mkdir()
    TieredWriter(root / "kafka", "txn-0").copy_all(partition)
    for number, log in enumerate(sorted(partition.glob("*.log"))):
        aiven_copy(root / "aiven", partition, int(log.stem), number=number + 1)
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".log")
    good = {path: path.read_bytes() for path in files}

    def make(random: Random) -> bytes:
        number = random.randrange(len(files))
        path = files[number]
        if random.random() < 0.3:
            number = files.index(random.choice([p for p in files if p.suffix == ".rsm-manifest"]))
            path = files[number]
        is_text = path.suffix in (".rsm-manifest", ".leader_epoch_checkpoint")
        return bytes([number]) + Mutator([good[path]], _sealer(path), is_text=is_text)(random)

    def read(data: bytes) -> None:
        path = files[data[0] % len(files) if data else 0]
        path.write_bytes(data[1:])
        try:
            source = open_source(str(root / path.relative_to(root).parts[0]))
            try:
                for log in source.partitions().values():
                    view = log.view()
                    assert view.log_end_offset >= view.log_start_offset
                    view.batch(view.log_end_offset - 1)
            finally:
                source.close()
        finally:
            path.write_bytes(good[path])

    return Target(make, read)


def _manifest() -> Target:
    facts = {
        "format": 1,
        "state": "complete",
        "target": "/data/é",
        "sources": ["/a", "/b\udcff"],
        "files": [{"path": "orders-0/00000000000000000000.log", "size": 5, "sha256": "0" * 64}],
    }
    good = [render_manifest(facts), render_manifest({**facts, "state": "staging"})]
    return Target(Mutator(good, is_text=True), lambda data: parse_manifest(data, path="manifest"))


def _plain(lines: Iterable[str]) -> bytes:
    return "\n".join(lines).encode() + b"\n"


def _snapshots() -> Target:
    return Target(Mutator(files_like(".snapshot"), _seal_snapshot), read_snapshot)


def _batch_objects() -> Target:
    return Target(Batches(), read_batches)


def _kraft_batches() -> Target:
    """Snapshots of the metadata log: control batches and framed records, as objects and as a dump."""
    from engine.record.control_records import describe_control

    good = [
        path.read_bytes()[:4000]
        for path in sorted(fixtures_data.DATA.rglob("*.checkpoint"))
        if path.is_file()
    ]
    log = fixtures_data.log_dir("current") / "__cluster_metadata-0" / "00000000000000000000.log"
    batches = list(MemoryRecords(log.read_bytes()).batches())
    good += [bytes(batch.raw) for batch in batches if batch.is_control or batch.size < 1000][:60]

    def read(data: bytes) -> None:
        for batch in MemoryRecords(data).batches():
            try:
                for record in batch.records(DEFAULT_BUDGETS):
                    json.dumps(describe_control(record))
            except REFUSALS:
                pass

    return Target(Mutator(good, lambda data, _: sealed(data)), read)


TARGETS: dict[str, Callable[[], Target]] = {
    "offset-index": _index(OffsetIndex, ".index"),
    "time-index": _index(TimeIndex, ".timeindex"),
    "transaction-index": _index(TransactionIndex, ".txnindex"),
    "producer-snapshot": _snapshots,
    "leader-epochs": _counted(read_epochs, "leader-epoch-checkpoint"),
    "offset-checkpoint": _counted(
        parse_offset_checkpoint,
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ),
    "partition-metadata": reader_of(parse_partition_metadata, "partition.metadata"),
    "meta-properties": reader_of(
        parse_meta_properties,
        "meta.properties",
        _plain(["version=0", "broker.id=3", "cluster.id=abc", "k\\u00e9y : v\\", "  more"]),
    ),
    "quorum-state": reader_of(parse_quorum_state, "quorum-state"),
    "clean-shutdown": reader_of(parse_clean_shutdown, ".kafka_cleanshutdown"),
    "rebuild-manifest": lambda: _manifest(),
    "batch-objects": _batch_objects,
    "kraft-snapshot": _kraft_batches,
    "tiered-files": tiered,
    "folder-check": _whole(check_folder),
    "folder-dump": _whole(dump_folder),
    "folder-tree": _whole(read_folder),
}
"""What makes each target, by name."""
