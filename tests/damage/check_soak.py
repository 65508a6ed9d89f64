"""Random single hits on partitions, and whether `check` finds them: python -m tests.damage.check_soak --hits 10000.

Whether a hit changes any meaning is worked out apart from the checks (tests/damage/meaning.py). Of those that do, each
must be found, at the right place; and all batches that were not hit must still be read. A few can be proven by
nothing that is there: batches gone from a compacted log, an id of which there is no other copy. They are counted.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from engine.check.log_dir_check import CheckOptions, SourceCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from tests.damage import meaning
from tests.damage.check_partitions import Partition, partitions
from tests.damage.hits import LOG_HITS, Batch, Hit, side_hit

SLOW = 10.0
INDEXES = (".index", ".timeindex", ".txnindex")
META_PROPERTIES = "meta.properties"
CLUSTER_METADATA_LOG = "__cluster_metadata-0"
ENTRY_SIZES = {".index": 8, ".timeindex": 12, ".txnindex": 34}


@dataclass
class Tally:
    """What became of many hits."""

    hits: int = 0
    silent: int = 0
    unprovable: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    records: int = 0
    reached: int = 0
    slowest: float = 0.0

    def text(self) -> str:
        """The numbers."""
        found = sum(self.found.values())
        share = 100 * found / max(found + len(self.missed), 1)
        reached = 100 * self.reached / max(self.records, 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return (
            f"{self.hits} hits: {found + len(self.missed)} change a meaning, {found} found ({share:.2f} %),"
            f" {len(self.misplaced)} of them elsewhere; {self.silent} change none;"
            f" nothing there proves {sum(self.unprovable.values())} {dict(self.unprovable)};"
            f" {self.reached} of {self.records} records not hit were read ({reached:.4f} %);"
            f" {len(self.broken)} broke; slowest {self.slowest:.2f} s, peak {peak} MiB; {dict(self.found)}"
        )


@dataclass
class Try:
    """One hit: which file, what was done, its new bytes, and which other files are gone with it."""

    path: str
    what: str
    data: bytes | None
    touched: set[int] = field(default_factory=set)
    gone: frozenset[str] = frozenset()

    def now(self, path: str, before: bytes) -> bytes | None:
        """What a file holds after the hit."""
        if path == self.path:
            return self.data
        return None if path in self.gone else before


def choose(partition: Partition, random: Random) -> Try:
    """A hit on any file of a partition or its log dir; on the records more often than not."""
    logs = [path for path in partition.logs if partition.rows[path]]
    others = sorted(path for path in partition.files if path not in partition.rows)
    kind = random.random()
    if META_PROPERTIES in others and kind < 0.08:
        others = [META_PROPERTIES]
    elif logs and kind < 0.14:
        return segment_hit(partition, logs, random)
    elif logs and kind < 0.65:
        path = random.choice([*logs, logs[0], logs[-1]])
        rows = partition.rows[path]
        batches = [Batch(row.position, row.end, row.magic, False, ()) for row in rows]
        hit: Hit = random.choice(LOG_HITS)(partition.files[path], batches, random)
        return Try(path, hit.what, hit.data, hit.touched)
    path = random.choice(others)
    data = partition.files[path]
    if Path(path).suffix in INDEXES and data and random.random() < 0.6:
        what, changed = entry_hit(data, ENTRY_SIZES[Path(path).suffix], random)
        return Try(path, what, changed)
    like = [each for each in others if each[-9:] == path[-9:]]
    hit = side_hit(data, partition.files[random.choice(like)], random)
    return Try(path, hit.what, hit.data)


def segment_hit(partition: Partition, logs: list[str], random: Random) -> Try:
    """A segment is gone, with the files beside its records or without; or all of them."""
    which = random.choice(["first", "first", "last", "last", "all", "some"])
    chosen = {"first": logs[:1], "last": logs[-1:], "all": logs}.get(which, [random.choice(logs)])
    with_indexes = random.random() < 0.5
    stems = {path[:-4] for path in chosen}
    gone = frozenset(
        path
        for path in partition.files
        if path in chosen or (with_indexes and path.rpartition(".")[0] in stems)
    )
    path = chosen[0]
    beside = "with" if with_indexes else "without"
    touched = set(range(len(partition.rows[path])))
    return Try(path, f"{which} segment gone, {beside} its other files", None, touched, gone)


def entry_hit(data: bytes, size: int, random: Random) -> tuple[str, bytes]:
    """Damage to single entries of an index: a bit, an entry gone, doubled, swapped or zero."""
    count = max(len(data.rstrip(b"\0")) // size, 1)
    at = random.randrange(count) * size
    entry = data[at : at + size]
    kind = random.randrange(6)
    if kind == 0:
        return f"entry at {at} removed", data[:at] + data[at + size :]
    if kind == 1:
        return f"entry at {at} doubled", data[: at + size] + data[at:]
    if kind == 2:
        other = random.randrange(count) * size
        changed = bytearray(data)
        changed[at : at + size], changed[other : other + size] = data[other : other + size], entry
        return f"entries at {at} and {other} swapped", bytes(changed)
    if kind == 3:
        return f"entry at {at} zeroed", data[:at] + bytes(len(entry)) + data[at + size :]
    changed = bytearray(data)
    place = min(at + random.randrange(size), len(data) - 1)
    changed[place] ^= 1 << random.randrange(8)
    return f"bit at {place}", bytes(changed)


@contextmanager
def struck(partition: Partition, hit: Try) -> Iterator[None]:
    """The partition with its file as the hit leaves it, for a while."""
    path = partition.log_dir / hit.path
    try:
        if hit.data is None:
            path.unlink()
        else:
            path.write_bytes(hit.data)
        for other in hit.gone - {hit.path}:
            (partition.log_dir / other).unlink()
        yield
    finally:
        for changed in {hit.path, *hit.gone}:
            (partition.log_dir / changed).write_bytes(partition.files[changed])


# -- what a hit changes


def changes_meaning(partition: Partition, hit: Try) -> bool:
    """Whether anything means something else than before."""
    old, new = partition.files[hit.path], hit.data
    suffix, name = Path(hit.path).suffix, Path(hit.path).name
    if old == new:
        return False
    if suffix == ".log":
        return meaning.log_changed(old, new or b"")
    if suffix == ".snapshot":
        return new is not None
    if suffix in (".index", ".timeindex"):
        return index_changed(partition, hit)
    if suffix == ".txnindex":
        return txn_changed(partition, hit)
    if name == "leader-epoch-checkpoint":
        rows = partition.all_rows
        return meaning.epochs(old, rows) != meaning.epochs(new, rows)
    if name.endswith("offset-checkpoint"):
        topic, _, number = partition.name.rpartition("-")
        return meaning.offsets(old, topic, number) != meaning.offsets(new, topic, number)
    if name == "meta.properties":
        return meaning.properties(old) != meaning.properties(new)
    if name == ".kafka_cleanshutdown":
        return new is not None and meaning.words(old) != meaning.words(new)
    if name == "bootstrap.checkpoint":
        return new is not None and meaning.log_changed(old, new)
    if name == "partition.metadata" and partition.name == CLUSTER_METADATA_LOG:
        # Its topic id is the same in each cluster, and a broker writes a missing file again.
        return new is not None and meaning.words(old) != meaning.words(new)
    return meaning.words(old) != meaning.words(new)


def index_changed(partition: Partition, hit: Try) -> bool:
    """Whether a look-up by offset or time gives another batch."""
    before = partition.segments()
    after = partition.segments({hit.path: hit.data})
    base = int(Path(hit.path).stem)
    if hit.path.endswith(".index"):
        for old, new in zip(before, after, strict=True):
            if old.base == base and meaning.offset_answers(old) != meaning.offset_answers(new):
                return True
    times = meaning.times_to_ask(before, after)
    return meaning.time_answers(before, times) != meaning.time_answers(after, times)


def txn_changed(partition: Partition, hit: Try) -> bool:
    """Whether readers of committed records get others."""
    paths = partition.beside(".txnindex")
    old = [partition.files[path] for path in paths]
    new = [(hit.data or b"") if path == hit.path else partition.files[path] for path in paths]
    rows, aborts = partition.all_rows, partition.aborts
    return meaning.hidden(old, rows, aborts) != meaning.hidden(new, rows, aborts)


def unprovable(partition: Partition, hit: Try, notes: list[str]) -> str:
    """Why nothing that is there can prove a hit; an empty text when something can."""
    name = Path(hit.path).name
    if hit.path.endswith(".log") and partition.is_compacted:
        if not hit.touched or only_removes(partition, hit):
            return "whole batches gone from a compacted log"
        if only_offset(partition, hit):
            return "a batch of a compacted log moved into a gap"
    if name.endswith("offset-checkpoint"):
        topic, _, number = partition.name.rpartition("-")
        stated = meaning.offsets(hit.data, topic, number)
        end = partition.all_rows[-1].last + 1 if partition.all_rows else 0
        if hit.data is None or stated == [] or not hit.data.strip():
            return f"{name} gone or without the partition"
        if isinstance(stated, list) and 0 <= stated[-1] <= end:
            return f"another offset in {name} that the log has"
    if name == META_PROPERTIES:
        return unprovable_property(partition, hit)
    if name == "partition.metadata" and not partition.has_metadata:
        return f"an id in {name} of which there is no copy"
    if name in (".kafka_cleanshutdown", "quorum-state"):
        return f"another number in {name}, or it is gone"
    was_open = ".kafka_cleanshutdown" not in partition.files
    if was_open and hit.path == partition.logs[-1] and only_removes(partition, hit):
        return "the last batches of a log that a broker had open"
    if name == "leader-epoch-checkpoint" and hit.data is None and not partition.all_rows:
        return "epochs of an empty log"
    if was_open and name == "leader-epoch-checkpoint" and "epochs-start" in notes:
        return "a later first epoch of a log that a broker had open: DeleteRecords leaves the same"
    return ""


def unprovable_property(partition: Partition, hit: Try) -> str:
    """Which id changed of which there is no other copy; nothing else is taken for unprovable."""
    old = meaning.stated_properties(partition.files[hit.path])
    new = meaning.stated_properties(hit.data or b"")
    changed = {key for key in old | new if old.get(key) != new.get(key)}
    ids = {"cluster.id"}
    if not partition.has_metadata:
        ids |= {"node.id", "broker.id", "directory.id"}
    if new.keys() == old.keys() and changed <= ids:
        return f"another {' and '.join(sorted(changed))} in {META_PROPERTIES} of which there is no copy"
    if changed == {"directory.id"} and not partition.has_metadata:
        return f"no directory.id in {META_PROPERTIES}, and no copy of it"
    return ""


def only_removes(partition: Partition, hit: Try) -> bool:
    """Whether the new file is some of the old one's batches, unchanged and in order."""
    old, data = partition.files[hit.path], hit.data or b""
    at = 0
    for row in partition.rows[hit.path]:
        batch = old[row.position : row.end]
        if data.startswith(batch, at):
            at += len(batch)
    return not any(data[at:])


def only_offset(partition: Partition, hit: Try) -> bool:
    """Whether nothing but batches' base offsets changed."""
    old, data = partition.files[hit.path], hit.data or b""
    places = {
        at for row in partition.rows[hit.path] for at in range(row.position, row.position + 8)
    }
    return len(old) == len(data) and all(
        at in places for at in range(len(old)) if old[at] != data[at]
    )


# -- what is found


def findings_of(partition: Partition) -> list[Finding]:
    """All that `check` says of the partition's log dir."""
    source = open_source(str(partition.log_dir))
    try:
        check = SourceCheck(source, CheckOptions())
        return [event for event in check.run() if isinstance(event, Finding)]
    finally:
        source.close()


def identity(finding: Finding) -> tuple[object, ...]:
    """What makes it the same as one of before."""
    return *finding.identity, finding.sentence


def span(partition: Partition, hit: Try) -> tuple[int, int]:
    """Which bytes of the new file a finding may name: the hit ones and the batches or entries around them."""
    old, new = partition.files[hit.path], hit.data or b""
    limit = min(len(old), len(new))
    start = next((at for at in range(limit) if old[at] != new[at]), limit)
    same = 0
    while same < limit - start and old[-1 - same] == new[-1 - same]:
        same += 1
    end = max(len(new) - same, start + 1)
    for row in partition.rows.get(hit.path, ()):
        if row.position <= start < row.end:
            start = row.position
        if len(old) == len(new) and row.position < end <= row.end:
            end = row.end
    size = ENTRY_SIZES.get(Path(hit.path).suffix, 0)
    return start - 2 * size, end + 2 * size


def lost_offsets(partition: Partition, hit: Try) -> tuple[int, int]:
    """The offsets of the batches that were hit, those next to them included."""
    gone = [row for path in hit.gone for row in partition.rows.get(path, [])]
    if gone:
        return min(row.base for row in gone), max(row.last for row in gone) + 1
    rows = partition.rows.get(hit.path, [])
    touched = [rows[number] for number in hit.touched]
    if not touched:
        return (rows[0].base, rows[-1].last + 1) if rows else (0, meaning.FAR)
    return min(row.base for row in touched), max(row.last for row in touched) + 1


def is_near(partition: Partition, hit: Try, finding: Finding) -> bool:
    """Whether a finding names the right place."""
    if finding.file.endswith("/" + hit.path):
        start, end = span(partition, hit)
        if finding.position is None:
            return True
        return finding.position <= end and finding.position + (finding.length or 1) >= start
    if finding.rule in (
        "log-start-epochs",
        "log-start-short",
        "epochs-start",
    ) and not hit.path.endswith(
        ".log"
    ):  # two files contradict each other: nothing tells which is wrong
        return hit.path.endswith(("leader-epoch-checkpoint", "log-start-offset-checkpoint"))
    if not hit.path.endswith(".log"):
        return hit.data is None and finding.partition == partition.name
    if hit.gone and Path(finding.file).stem == Path(hit.path).stem:
        return True
    first, last = lost_offsets(partition, hit)
    if finding.first_offset is None and finding.next_offset is None:
        return False
    low = finding.first_offset or 0
    return low <= last and (finding.next_offset or low + 1) >= first


def readable(partition: Partition, hit: Try) -> tuple[int, int]:
    """Records in batches that were not hit: how many there are, and how many of them are read."""
    wanted: dict[bytes, int] = {}
    for path in partition.logs:
        data = partition.files[path]
        for number, row in enumerate(partition.rows[path] if path not in hit.gone else ()):
            if path != hit.path or number not in hit.touched:
                wanted[data[row.position : row.end]] = max(row.count, 0)
    source = open_source(str(partition.log_dir))
    reached = 0
    try:
        view = source.partitions()[partition.name].view()
        total = sum(wanted.values())
        for segment in (view.segment_at(place) for place in range(len(view))):
            for item in segment.scan(0, segment.tail_end):
                if isinstance(item, BatchRun):
                    for row in item.table:
                        at = int(row["position"]) - item.start_position
                        reached += wanted.pop(item.buffer[at : at + int(row["size"])], 0)
        return total, reached
    finally:
        source.close()


class Soak:
    """Many hits; `serious` is what is wrong before any."""

    def __init__(self, work: Path) -> None:
        self.partitions = partitions(work)
        found = {id(each): findings_of(each) for each in self.partitions}
        self.before = {key: {identity(each) for each in known} for key, known in found.items()}
        self.serious = [
            f"{each.rule} {each.file}: {each.sentence}"
            for known in found.values()
            for each in known
            if each.severity is not Severity.NOTE
            and each.rule != "partition-lost"  # a copy has one partition
        ]
        self.tally = Tally()

    def run(self, seed: int, numbers: range) -> Tally:
        """Try the hits of these numbers."""
        for number in numbers:
            random = Random(f"{seed}-{number}")
            partition = random.choice(self.partitions)
            hit = choose(partition, random)
            label = f"{number}: {partition.log_dir.name}/{hit.path}: {hit.what}"
            try:
                with struck(partition, hit):
                    self.judge(partition, hit, label)
            except Exception:  # noqa: BLE001  that is what is looked for
                self.tally.broken.append(f"{label}\n{traceback.format_exc()}")
        return self.tally

    def judge(self, partition: Partition, hit: Try, label: str) -> None:
        """Check a partition that was hit."""
        tally = self.tally
        tally.hits += 1
        start = time.monotonic()
        known = self.before[id(partition)]
        new = [each for each in findings_of(partition) if identity(each) not in known]
        spent = time.monotonic() - start
        tally.slowest = max(tally.slowest, spent)
        if spent > SLOW:
            tally.broken.append(f"{label}: took {spent:.1f} s")
        if hit.path.endswith(".log"):
            total, reached = readable(partition, hit)
            tally.records += total
            tally.reached += reached
            if reached < total:
                tally.broken.append(f"{label}: {total - reached} records are not read")
        if not changes_meaning(partition, hit):
            tally.silent += 1
            return
        serious = [each for each in new if each.severity is not Severity.NOTE]
        if not serious:
            notes = [each.rule for each in new]
            why = unprovable(partition, hit, notes)
            if why:
                tally.unprovable[why] += 1
            else:
                tally.missed.append(f"{label} {notes}")
            return
        tally.found[Path(hit.path).suffix or Path(hit.path).name] += 1
        if not any(is_near(partition, hit, each) for each in serious):
            places = [(each.rule, each.file[-40:], each.position) for each in serious]
            tally.misplaced.append(f"{label} {span(partition, hit)} {places}")


def soak(seed: int, hits: int, first: int = 0) -> Tally:
    """Try hits on fresh copies."""
    work = Path(tempfile.mkdtemp(prefix="check-soak-"))
    try:
        return Soak(work).run(seed, range(first, first + hits))
    finally:
        shutil.rmtree(work)


def main() -> int:
    """Run from the command line; exit status 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hits", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first hit")
    given = parser.parse_args()
    start = time.monotonic()
    tally = soak(given.seed, given.hits, given.first)
    for what in ("missed", "misplaced", "broken"):
        for line in getattr(tally, what):
            print(f"{what} {line}")
    print(f"{tally.text()}; {time.monotonic() - start:.0f} s")
    return 1 if tally.missed or tally.misplaced or tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
