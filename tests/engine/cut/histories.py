"""Generated histories of a cluster: what was written when, by which clock, and the logs that hold it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.builders import Producer, Rec, batch, end_marker, write_segment

START = 1_700_000_000_000
FREEZE = 60_000
"""Milliseconds without a write at a freeze point."""
PARTITIONS = [f"{topic}-{number}" for topic in ("orders", "payments") for number in range(3)]


@dataclass
class Transaction:
    """A transaction: the offsets and timestamps of its records, and the true time of its first marker."""

    commits: bool
    records: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class History:
    """What was written; a freeze point has its time and the end of each log."""

    folder: Path
    transactions: list[Transaction]
    freezes: list[tuple[int, dict[str, int]]]
    end: int


class _Writing:
    def __init__(self, random: Random, *, bumps: bool) -> None:
        self.random, self.bumps = random, bumps
        self.now = START
        self.batches: dict[str, list[bytes]] = defaultdict(list)
        self.ends: dict[str, int] = defaultdict(int)
        self.skews = {name: random.randint(-150, 150) for name in PARTITIONS}
        self.epochs: dict[int, int] = defaultdict(int)

    def data(self, name: str, producer: int | None, transaction: Transaction | None) -> None:
        """Append a batch by a producer's clock."""
        first, count = self.ends[name], self.random.randint(1, 4)
        stamp = self.now + (0 if producer is None else (producer * 37) % 60)
        who = {} if producer is None else {
            "producer": Producer(id=producer, epoch=self.epochs[producer], sequence=0),
            "transactional": True,
        }  # fmt: skip
        records = [Rec(b"x" * 20, timestamp=stamp)] * count
        self.batches[name].append(batch(records, first, **who))
        self.ends[name] += count
        if transaction is not None:
            transaction.records[name] += [(first + at, stamp) for at in range(count)]

    def marker(self, name: str, producer: int, epoch: int, *, commit: bool) -> None:
        """Append an end marker by the clock of the partition's leader."""
        stamp = self.now + self.skews[name]
        who = Producer(id=producer, epoch=epoch)
        self.batches[name].append(end_marker(self.ends[name], who, commit=commit, timestamp=stamp))
        self.ends[name] += 1


def make_history(folder: Path, seed: int, *, transactions: int = 60) -> History:
    """Write the logs of a random history: transactions over several partitions, markers that are late, other writes."""
    random = Random(seed)
    writing = _Writing(random, bumps=bool(seed % 2))
    done: list[Transaction] = []
    freezes: list[tuple[int, dict[str, int]]] = []
    queue: list[tuple[int, int, int, str]] = []
    count = 0
    pending: dict[int, tuple[Transaction, list[str]] | None] = dict.fromkeys(range(1, 5))
    free_at = dict.fromkeys(pending, START)
    frozen_at = 0
    while count < transactions or queue or any(pending.values()):
        writing.now += random.randint(1, 40)
        for due in sorted(each for each in queue if each[0] <= writing.now):
            queue.remove(due)
            _, producer, epoch, where = due
            name, kind = where.split()
            writing.marker(name, producer, epoch, commit=kind == "commit")
        if random.random() < 0.4:
            writing.data(random.choice(PARTITIONS), None, None)
        producer = random.choice(list(pending))
        state = pending[producer]
        if state is None:
            is_draining = count - frozen_at >= 20
            if count < transactions and not is_draining and writing.now > free_at[producer]:
                count += 1
                found = Transaction(random.random() < 0.8)
                done.append(found)
                pending[producer] = found, random.sample(PARTITIONS, random.randint(2, 4))
        elif random.random() < 0.6:
            writing.data(random.choice(state[1]), producer, state[0])
        elif set(state[0].records) != set(state[1]):
            for name in sorted(set(state[1]) - set(state[0].records)):
                writing.data(name, producer, state[0])
        else:
            epoch = writing.epochs[producer] + writing.bumps
            kind = "commit" if state[0].commits else "abort"
            late = [writing.now + random.choice((1, 3, 20, 400, 900)) for _ in state[1]]
            queue += [
                (at, producer, epoch, f"{name} {kind}")
                for at, name in zip(late, state[1], strict=True)
            ]
            free_at[producer] = max(late) + 400
            writing.epochs[producer] = epoch
            pending[producer] = None
        if not queue and not any(pending.values()) and count - frozen_at >= 20:
            frozen_at = count
            freezes.append((writing.now + FREEZE // 2, dict(writing.ends)))
            writing.now += FREEZE
    for name in PARTITIONS:
        write_segment(folder / name, writing.batches[name] or [batch([Rec()])], index_interval=200)
    return History(folder, done, freezes, writing.now)
