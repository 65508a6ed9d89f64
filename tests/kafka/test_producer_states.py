"""Kafka's ProducerStateManager and ours do the same with the same appends, and write the same snapshots."""

from __future__ import annotations

import random
import subprocess
import zlib
from pathlib import Path

import pytest

from engine.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.state.producer_state_entry import ProducerStateEntry
from engine.units import MAX_INT32, LogOffsetMetadata, TopicPartition
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
    ProducerStateManagerConfig,
)
from tests.kafka import conftest, jars

TIMEOUT_MS = 60_000
EXPIRATION_MS = 2_000_000
ERRORS = {
    InvalidProducerEpochError: "InvalidProducerEpochException",
    OutOfOrderSequenceError: "OutOfOrderSequenceException",
    InvalidTxnStateError: "InvalidTxnStateException",
    TransactionCoordinatorFencedError: "TransactionCoordinatorFencedException",
}


def number(value: int | None) -> int:
    return -1 if value is None else value


def text(value: bool) -> str:
    return str(value).lower()


class Ours:
    """Does what ProducerStates.java does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open()

    def open(self) -> str:
        self.manager = ProducerStateManager(
            TopicPartition("test", 0),
            self.folder,
            TIMEOUT_MS,
            ProducerStateManagerConfig(EXPIRATION_MS),
        )
        return "-"

    def answer(self, line: str) -> str:
        name, *words = line.split()
        try:
            said = getattr(self, name)(*words[:-1])
        except tuple(ERRORS) as error:
            said = ERRORS[type(error)]
        return f"{said} | {self.state(int(words[-1]))}"

    def data(self, origin: str, *words: str) -> str:
        producer, epoch, first_sequence, last_sequence, when, first, last, transactional = map(
            int, words
        )
        info = self.manager.prepare_update(producer, AppendOrigin[origin])
        where = LogOffsetMetadata(first)
        info.append_data_batch(
            epoch,
            first_sequence,
            last_sequence,
            when,
            where,
            last,
            is_transactional=bool(transactional),
        )
        self.manager.update(info)
        self.manager.update_map_end_offset(last + 1)
        return "-"

    def marker(self, origin: str, producer: str, epoch: str, kind: str, *words: str) -> str:
        coordinator, offset, when, version = map(int, words)
        info = self.manager.prepare_update(int(producer), AppendOrigin[origin])
        marker = EndTransactionMarker(ControlRecordType[kind], coordinator)
        completed = info.append_end_marker(marker, int(epoch), offset, when, version)
        self.manager.update(info)
        said = "-"
        if completed is not None:
            stable = self.manager.last_stable_offset(completed)
            ended = f"{completed.first_offset} {completed.last_offset}"
            said = f"{ended} {text(completed.is_aborted)} {stable}"
            self.manager.complete_txn(completed)
        self.manager.update_map_end_offset(offset + 1)
        return said

    def watermark(self, offset: str) -> str:
        self.manager.on_high_watermark_updated(int(offset))
        return "-"

    def snapshot(self) -> str:
        path = self.manager.take_snapshot(sync=False)
        return f"{path.name} {zlib.crc32(path.read_bytes())}" if path else "-"

    def expire(self, now: str) -> str:
        self.manager.remove_expired_producers(int(now))
        return "-"

    def reload(self, *words: str) -> str:
        self.manager.truncate_and_reload(*map(int, words))
        return "-"

    def fully(self, offset: str) -> str:
        self.manager.truncate_fully_and_start_at(int(offset))
        return "-"

    def before(self, offset: str) -> str:
        self.manager.snapshots.delete_before(int(offset))
        return "-"

    def state(self, now: int) -> str:
        manager = self.manager
        unstable = manager.first_unstable_offset
        words = [
            manager.map_end_offset,
            number(manager.snapshots.oldest),
            number(manager.latest_snapshot_offset),
            number(manager.first_undecided_offset),
            unstable.offset if unstable else -1,
            text(manager.has_late_transaction(now)),
            text(manager.is_empty),
        ]
        producers = sorted(manager.active_producers.items())
        said = " ".join(map(str, words))
        return "; ".join([said, *(self.producer(*each) for each in producers)])

    @staticmethod
    def producer(producer_id: int, entry: ProducerStateEntry) -> str:
        said = (
            f"{producer_id} {entry.producer_epoch} {entry.coordinator_epoch}"
            f" {entry.last_timestamp} {number(entry.current_txn_first_offset)}"
        )
        batches = (
            f"{each.first_sequence} {each.last_sequence}"
            f" {each.first_offset} {each.last_offset} {each.timestamp}"
            for each in entry.batches
        )
        return ", ".join([said, *batches])


class Story:
    """Lines at random, most of which a broker would take."""

    def __init__(self, seed: int, producers: int) -> None:
        self.random = random.Random(seed)
        # Ids with equal low bits share a bucket of Kafka's HashMap. Nine in a bucket become a tree, with an order that
        # `ProducerMap` does not follow: these spreads are for few producers.
        crowded = [2**32 + 3] * (producers <= 40) + [2**16 + 1] * (producers <= 8)
        spread = self.random.choice([1, 7, 1000, *crowded])
        self.producers = [spread * each for each in range(producers)]
        self.end = self.start = 0
        self.now = 1_000
        self.epochs = dict.fromkeys(self.producers, 0)
        self.sequences = dict.fromkeys(self.producers, 0)
        self.open = dict.fromkeys(self.producers, 0)

    def lines(self, count: int) -> list[str]:
        kinds = {
            self.data: 60,
            self.marker: 20,
            self.watermark: 8,
            self.snapshot: 8,
            self.expire: 2,
            self.reload: 3,
            self.before: 1,
            self.reopen: 2,
            self.fully: 0.2,
        }
        chosen = self.random.choices([*kinds], [*kinds.values()], k=count)
        return [f"open {self.now}", *(self.line(each) for each in chosen)]

    def line(self, kind: object) -> str:
        self.now += self.random.choice([1, 10, 1000, 30_000])
        return f"{kind()} {self.now}"  # type: ignore[operator]

    def offset(self) -> int:
        return self.random.randint(self.start, self.end)

    def data(self) -> str:
        producer = self.random.choice(self.producers)
        origin = self.random.choice(["CLIENT", "CLIENT", "COORDINATOR", "REPLICATION"])
        epoch, sequence = self.epochs[producer], self.sequences[producer]
        odd = self.random.random()
        if odd < 0.05:
            epoch += self.random.choice([-1, 1])
        elif odd < 0.1:
            epoch, sequence = epoch + 1, 0
        elif odd < 0.15:
            sequence += self.random.choice([-3, -1, 2])
        elif odd < 0.18:
            sequence = MAX_INT32 - 2
        epoch, sequence = max(epoch, 0), max(sequence, 0)
        count = self.random.randint(1, 5)
        last = (sequence + count - 1) % 2**31
        transactional = self.open[producer] or self.random.random() < 0.4
        if odd > 0.97:
            transactional = not transactional
        self.epochs[producer], self.sequences[producer] = epoch, (last + 1) % 2**31
        self.open[producer] = int(transactional)
        first = self.end
        self.end += count
        words = [producer, epoch, sequence, last, self.now, first, first + count - 1]
        return f"data {origin} {' '.join(map(str, words))} {int(transactional)}"

    def marker(self) -> str:
        producer = self.random.choice(self.producers)
        version = self.random.choice([0, 0, 2])
        origin = self.random.choice(["COORDINATOR", "COORDINATOR", "REPLICATION"])
        epoch = self.epochs[producer] + (version == 2)
        if self.random.random() < 0.1:
            epoch = max(0, epoch + self.random.choice([-1, 1]))
        if epoch > self.epochs[producer]:
            self.epochs[producer], self.sequences[producer] = epoch, 0
        self.open[producer] = 0
        kind = self.random.choice(["COMMIT", "ABORT"])
        coordinator = self.random.choice([1, 1, 1, 2, 0])
        offset = self.end
        self.end += 1
        if origin == "REPLICATION":
            version = self.random.choice([version, -1])
        return (
            f"marker {origin} {producer} {epoch} {kind} {coordinator} {offset} {self.now} {version}"
        )

    def watermark(self) -> str:
        return f"watermark {self.offset()}"

    def snapshot(self) -> str:
        return "snapshot"

    def expire(self) -> str:
        self.now += self.random.choice([0, EXPIRATION_MS // 4])
        return f"expire {self.now}"

    def reload(self) -> str:
        self.start = self.random.choice([self.start, self.offset()])
        self.end = self.random.choice([self.end, self.offset()])
        return f"reload {self.start} {self.end} {self.now}"

    def before(self) -> str:
        return f"before {self.offset()}"

    def reopen(self) -> str:
        return "open"

    def fully(self) -> str:
        self.start = self.offset()
        return f"fully {self.start}"


def kafkas_answers(folder: Path, lines: list[str]) -> list[str]:
    source = str(Path(__file__).with_name("ProducerStates.java"))
    command = jars.java_command(jars.CURRENT, source)
    done = subprocess.run(
        [*command, str(folder), str(TIMEOUT_MS), str(EXPIRATION_MS)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("producers", [3, 8, 40, 700])
@pytest.mark.parametrize("round_number", range(2))
def test_kafkas_manager_and_ours_say_and_write_the_same(
    tmp_path: Path, producers: int, round_number: int
) -> None:
    seed = conftest.SEED + round_number
    lines = Story(seed, producers).lines(3000)
    folders = [tmp_path / "kafkas", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    theirs = kafkas_answers(folders[0], lines)
    machine = Ours(folders[1])
    for line, expected in zip(lines, theirs, strict=True):
        assert machine.answer(line) == expected, (seed, line)
    written = [{path.name: path.read_bytes() for path in each.iterdir()} for each in folders]
    assert written[0] == written[1]
    assert any(line.startswith("0") and ".snapshot" in line for line in theirs)
