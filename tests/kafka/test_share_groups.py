"""Share groups from a log dir are what Kafka's share coordinator and kafka-share-groups say."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Self

import pytest
from click.testing import CliRunner

from engine.log.log_directory import LogSource, open_source
from engine.replay.groups import share_state
from engine.replay.groups.shares import replay_shares
from engine.replay.groups.state_batches import StateBatch
from engine.replay.source_state import SourceState
from kafkafs.cli import cli
from tests.builders import Rec
from tests.kafka import clients, conftest, jars
from tests.kafka.broker import Broker
from tests.replayed_bytes import (
    flights,
    in_batches,
    share_snapshot,
    share_tombstone,
    share_update,
    write_partition,
)

HERE = Path(__file__).parent
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SETTINGS = {
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 3,
    "share.coordinator.snapshot.update.records.per.snapshot": 3,
    "group.share.min.heartbeat.interval.ms": 300,
    "group.share.heartbeat.interval.ms": 300,
}
COLUMNS = ("group", "topic", "partition", "leaderEpoch", "startOffset", "lag")
PARTITIONS, COUNT = 3, 60
SCRIPTS, UPDATES_KEPT = 120, 4


# The share coordinator's memory, of random records


def random_script(group: str, random: Random) -> list[Rec]:
    """Snapshots, updates and tombstones of three share partitions."""
    records = []
    start = dict.fromkeys(range(3), 0)
    for _ in range(random.randint(1, 40)):
        partition = random.randrange(3)
        start[partition] += random.randint(-2, 6)
        values = {
            "snapshotEpoch": random.randint(0, 5), "leaderEpoch": random.randint(-1, 3),
            "startOffset": random.choice((-1, max(start[partition], 0))),
            "deliveryCompleteCount": random.randint(-1, 9), "stateBatches": random_flights(random),
        }  # fmt: skip
        chance = random.random()
        if chance < 0.05:
            records.append(share_tombstone(group, partition))
        elif chance < 0.2:
            values["stateEpoch"] = random.randint(0, 4)
            records.append(share_snapshot(group, partition, **values))
        else:
            records.append(share_update(group, partition, **values))
    return records


def random_flights(random: Random) -> list[dict[str, int]]:
    """Batches that do not overlap, as a share coordinator writes them."""
    found, first = [], random.randint(0, 30)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        last = first + random.choice((0, 1, 5, 20))
        found.append((first, last, random.choice((0, 2, 4)), random.randint(0, 3)))
        first = last + random.randint(1, 4)
    return flights(*found)


def coordinators_answer(records: list[Rec]) -> dict[str, tuple[Any, ...]]:
    """What the share coordinator has in memory after them, by group, topic id and partition."""
    lines = []
    for record in records:
        assert record.key is not None
        value = "-" if record.value is None else record.value.hex()
        lines.append(f"{record.key.hex()} {value}\n")
    command = jars.java_command(jars.CURRENT, str(HERE / "ShareStates.java"))
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=True)
    return dict(map(parsed, done.stdout.splitlines()))


def parsed(row: str) -> tuple[str, tuple[Any, ...]]:
    words = row.split()
    batches = [StateBatch(*map(int, word.split(","))) for word in words[10:]]
    return " ".join(words[:3]), (*map(int, words[3:10]), by_offset(batches))


def by_offset(batches: Iterable[StateBatch]) -> dict[int, tuple[int, int]]:
    """State and deliveries of each offset: Kafka may leave neighbours that say the same apart."""
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(first, last + 1):
            assert offset not in found
            found[offset] = state, count
    return found


def our_answer(source: LogSource) -> dict[str, tuple[Any, ...]]:
    image = replay_shares(source).image()
    found = {}
    for group in image.names:
        for topic_id, partition in image.partitions(group):
            state = image.offset(group, topic_id, partition)
            assert state is not None
            times = state.create_timestamp or 0, state.write_timestamp or 0  # Kafka's none is 0
            found[f"{group} {topic_id} {partition}"] = (
                number(state.start_offset), number(state.delivery_complete_count),
                state.state_epoch or 0, number(state.leader_epoch), number(state.snapshot_epoch),
                *times, by_offset(state.batches),
            )  # fmt: skip
    return found


def number(value: int | None) -> int:
    return -1 if value is None else value


def test_the_share_coordinator_and_we_have_the_same_state_of_any_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_state, "MOST_UPDATES", UPDATES_KEPT)
    records = [
        record
        for seed in range(conftest.SEED, conftest.SEED + SCRIPTS)
        for record in random_script(f"g{seed}", Random(seed))
    ]
    write_partition(tmp_path, "__share_group_state-0", in_batches(records))
    answer = coordinators_answer(records)
    assert len(answer) > SCRIPTS
    assert our_answer(open_source(str(tmp_path))) == answer


# A broker


class Members:
    """Members of share groups, in one JVM."""

    def __init__(self, broker: Broker) -> None:
        command = jars.java_command(broker.version, str(HERE / "ShareMembers.java"))
        self._process = subprocess.Popen(
            [*command, broker.bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=clients.ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def do(self, *steps: str) -> None:
        """One step after another."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for step in steps:
            self._process.stdin.write(step + "\n")
            self._process.stdin.flush()
            assert self._process.stdout.readline() == "done\n", step


Rows = dict[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A broker's directory, and what kafka-share-groups said while members were there.

    Attributes:
        first: what it said at the instant `before`; `second` is what it said at the end.
        live: what we said of the live directory when it said `first`, and when it said `second`.
    """

    copy: Path
    before: int
    first: Rows
    second: Rows
    live: tuple[Rows, Rows]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """One broker for all tests here."""
    home = tmp_path_factory.mktemp("shares")
    with Broker(home / "broker", settings=SETTINGS) as broker, ExitStack() as stack:
        at = broker.bootstrap
        for topic in ("orders", "gone"):
            clients.create_topic(at, topic, PARTITIONS)
            fill(at, topic)
        members = stack.enter_context(Members(broker))
        state = SourceState(open_source(str(broker.log_dir)))
        members.do(
            "earliest busy", "earliest doomed", "earliest reset", "earliest lost",
            "join busy orders", "take busy 90", "join latest orders", "join doomed orders",
            "take doomed 10", "leave doomed", "join reset orders", "take reset 30", "leave reset",
            "join lost gone", "take lost 10",
        )  # fmt: skip
        first, live_first = described_twice(broker, state)
        before = clients.now()
        time.sleep(0.05)
        fill(at, "orders")
        members.do("take busy 120", "try latest", "reset reset orders 17", "delete doomed")
        clients.delete_topic(at, "gone")
        without_topic(state, "lost")
        second, live_second = described_twice(broker, state)
        shutil.copytree(broker.log_dir, home / "copy", ignore=shutil.ignore_patterns("*-delete"))
        yield Seen(home / "copy", before, first, second, (live_first, live_second))


def fill(at: str, topic: str) -> None:
    writer = clients.producer(at, batch_num_messages=10)
    for value in range(COUNT):
        for partition in range(PARTITIONS):
            writer.produce(topic, b"%d" % value, partition=partition)
    writer.flush(clients.ANSWER_SECONDS)


def described_twice(broker: Broker, state: SourceState) -> tuple[Rows, Rows]:
    """The rows of kafka-share-groups by group, topic and partition, and ours, while nothing changes."""
    ours = settled_rows(state)
    for _ in range(5):
        theirs, before, ours = described(broker), ours, settled_rows(state)
        if before == ours:
            return theirs, ours
    raise TimeoutError("the groups did not settle")


def described(broker: Broker) -> Rows:
    text = jars.run_java(
        broker.version, TOOL, "--bootstrap-server", broker.bootstrap, "--describe", "--all-groups",
        "--offsets", "--verbose",
    )  # fmt: skip
    rows = [line.split() for line in text.splitlines()]
    header = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
    assert header in rows
    found = [tuple(cells) for cells in rows if len(cells) == len(header) and cells != header]
    return {row[:3]: row[3:] for row in found}


def settled_rows(state: SourceState) -> Rows:
    """Ours of a directory that a broker writes, once what it wrote is visible."""
    time.sleep(0.5)
    known = state.known_groups()
    assert known.unreadable == ()
    rows = [
        {"group": name, **row.facts()}
        for name in known.names
        if (group := known.group(name)) is not None
        for row in state.share_rows(group, known)
    ]
    return as_shown(rows)


def without_topic(state: SourceState, name: str) -> None:
    """Wait until a group has no partition any more: its topic was deleted."""
    end = time.monotonic() + clients.ANSWER_SECONDS
    while time.monotonic() < end:
        known = state.known_groups()
        group = known.group(name)
        if group is not None and not state.share_rows(group, known).places:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{name} keeps its partitions")


def as_shown(rows: list[dict[str, Any]]) -> Rows:
    """The columns of kafka-share-groups; a start offset that there is not takes the others with it."""
    found: Rows = {}
    for row in rows:
        cells = ["-" if row[column] is None else str(row[column]) for column in COLUMNS]
        if row["startOffset"] is None:
            cells[3:] = ["-"] * 3
        found[tuple(cells[:3])] = tuple(cells[3:])
    return found


def ours(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_start_offsets_and_lag_are_those_of_kafka_share_groups(seen: Seen) -> None:
    assert {group for group, _, _ in seen.second} == {"busy", "latest", "reset"}
    assert any(lag not in ("-", "0") for _, _, lag in seen.second.values())
    assert as_shown(ours("groups", str(seen.copy), "--offsets")) == seen.second


def test_as_of_an_instant_they_are_what_kafka_share_groups_said_then(seen: Seen) -> None:
    assert {group for group, _, _ in seen.first} >= {"busy", "reset", "doomed", "lost"}
    rows = as_shown(ours("groups", str(seen.copy), "--at", str(seen.before)))
    kept = {key: row for key, row in seen.first.items() if key[1] != "gone"}
    assert {key: row for key, row in rows.items() if key[1] != "gone"} == kept
    # The topic's log went away with it: the start offset is known, the lag is not.
    gone = {key: row[:2] for key, row in seen.first.items() if key[1] == "gone"}
    assert {key: row[:2] for key, row in rows.items() if key[1] == "gone"} == gone


def test_a_live_directory_is_followed(seen: Seen) -> None:
    assert seen.live == (seen.first, seen.second)


def test_offsets_that_were_altered_have_a_higher_state_epoch(seen: Seen) -> None:
    epochs = {row["partition"]: row for row in ours("groups", str(seen.copy), "reset")}
    assert epochs[0]["startOffset"] == 17
    assert epochs[0]["stateEpoch"] > epochs[1]["stateEpoch"]


def test_records_in_flight_tell_how_often_they_were_delivered(seen: Seen) -> None:
    rows = ours("groups", str(seen.copy), "busy")
    assert all(row["memberIds"] for row in rows)
    assert any(row["snapshotEpoch"] > 0 for row in rows)
    assert max(row["mostDeliveries"] or 0 for row in rows) > 1
    for row in rows:
        offsets = [(each["firstOffset"], each["lastOffset"]) for each in row["stateBatches"]]
        assert offsets == sorted(offsets)
        complete = sum(
            each["lastOffset"] - each["firstOffset"] + 1
            for each in row["stateBatches"]
            if each["deliveryState"] in ("ACKNOWLEDGED", "ARCHIVED")
        )
        assert complete == row["deliveryCompleteCount"]
