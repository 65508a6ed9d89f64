"""Consumers of other projects read from `kafkafs serve` what they read from the broker, from any offset and time."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fixtures_data import (
    WITH_TRUTH,
    TruthRecord,
    log_dir,
    truth_offsets,
    truth_partitions,
    truth_records,
)
from tests.kafka.broker import Broker
from tests.kafka.clients import NO_OFFSET
from tests.kafka.conftest import SEED, Written
from tests.kafka.foreign.readers import CANNOT_READ, READERS, TELL_EPOCHS, UNKNOWN_EPOCH, Task
from tests.kafka.truth import PartitionTruth
from tests.kafkafs.serve.serving import Served, serving
from tests.replica_clusters import make_cluster

STARTS = 1
ON_BROKER = 30
"""Tasks that a broker does, too."""
SLOW = ("librdkafka",)
"""A client that needs a third of a second for each task; test_serve_clients.py reads the fixtures with it."""
SLOW_TASKS = 15
HOUR = 3_600_000


def tasks_of(
    truth: PartitionTruth, chance: random.Random
) -> Iterator[tuple[Task, list[TruthRecord]]]:
    """All records, those from offsets on that nobody chose, and those from times on; what a client gets.

    At both levels, or at one of them where they give the same.
    """
    is_same = truth.committed == truth.records and truth.last_stable_offset == truth.latest
    for committed in (chance.choice((False, True)),) if is_same else (False, True):
        records = truth.committed if committed else truth.records
        end = truth.last_stable_offset if committed else truth.latest
        starts = [chance.randint(truth.earliest, end) for _ in range(STARTS)] if records else []
        found = {(False, each): each for each in [truth.earliest, *starts]}
        times = [
            (time, offset) for time, offset in truth.for_times.items() if NO_OFFSET != offset < end
        ]
        for time, offset in chance.sample(times, min(STARTS, len(times))):
            found[True, time] = offset
        for (by_time, start), offset in found.items():
            wanted = [each for each in records if each.offset >= offset]
            yield (
                Task(truth.topic, truth.partition, by_time, start, end, len(wanted), committed),
                wanted,
            )


def alike(record: TruthRecord, client: str) -> TruthRecord:
    """The record without what not every client is told: the epoch, and a time of magic 0."""
    epoch = UNKNOWN_EPOCH if record.leader_epoch is None else record.leader_epoch
    return replace(
        record,
        timestamp=record.timestamp if record.timestamp_type else -1,
        leader_epoch=epoch if client in TELL_EPOCHS else UNKNOWN_EPOCH,
    )


def truth_of_fixture(kind: str, name: str) -> PartitionTruth:
    topic, _, number = name.rpartition("-")
    known = truth_offsets(kind)[name]
    return PartitionTruth(
        topic, int(number), known["earliest"], known["latest"], known["latest_committed"],
        list(truth_records(kind, name)), list(truth_records(kind, name, committed=True)),
        {int(time): offset for time, offset in known.get("for_times", {}).items()},
    )  # fmt: skip


def assert_read(bootstrap: str, client: str, truths: Sequence[PartitionTruth], seed: int) -> None:
    """The client reads each task's records, no more and no less."""
    chance = random.Random(seed)
    asked = [
        each
        for truth in truths
        if (client, truth.topic) not in CANNOT_READ
        for each in tasks_of(truth, chance)
    ]
    got = READERS[client](bootstrap, [task for task, _ in asked])
    for (task, wanted), records in zip(asked, got, strict=True):
        assert [alike(each, client) for each in records] == [
            alike(each, client) for each in wanted
        ], (task, seed)


@pytest.fixture(scope="module", params=WITH_TRUTH)
def fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, list[PartitionTruth]]]:
    kind: str = request.param
    with serving(log_dir(kind), tmp_path_factory.mktemp("log")) as served:
        yield served, [truth_of_fixture(kind, name) for name in truth_partitions(kind)]


@pytest.mark.parametrize("client", [each for each in READERS if each not in SLOW])
def test_a_client_reads_every_record_of_the_fixtures(
    fixture: tuple[Served, list[PartitionTruth]], client: str
) -> None:
    served, truths = fixture
    assert_read(served.bootstrap, client, truths, SEED)


@pytest.mark.parametrize("client", sorted({client for client, _ in CANNOT_READ}))
def test_a_client_reads_old_batches_that_are_converted(client: str, tmp_path: Path) -> None:
    topics = sorted(topic for each, topic in CANNOT_READ if each == client)
    with serving(log_dir("legacy"), tmp_path, "--old-formats", "convert") as served:
        for topic in topics:
            truth = truth_of_fixture("legacy", f"{topic}-0")
            wanted = [(each.offset, each.key, each.value, each.headers) for each in truth.records]
            task = Task(topic, 0, False, truth.earliest, truth.latest, len(wanted), False)
            (got,) = READERS[client](served.bootstrap, [task])
            assert [(each.offset, each.key, each.value, each.headers) for each in got] == wanted


@pytest.fixture(scope="module")
def pair(
    current: Written, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Broker, Served]]:
    """A broker on a copy of what another one left, and a server of the original."""
    home = tmp_path_factory.mktemp("again")
    shutil.copytree(current.log_dir, home / "data")
    # An open transaction stays open, however long ago its producer went.
    cleanup = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    with (
        Broker(home, current.version, {cleanup: HOUR}) as broker,
        serving(current.log_dir, Path(home)) as served,
    ):
        yield broker, served


@pytest.mark.parametrize("client", READERS)
def test_a_client_reads_from_the_server_what_it_reads_from_the_broker(
    current: Written, pair: tuple[Broker, Served], client: str
) -> None:
    broker, served = pair
    chance = random.Random(SEED)
    asked = [each for truth in current.truth.values() for each in tasks_of(truth, chance)]
    if client in SLOW:
        asked = chance.sample(asked, SLOW_TASKS)
    tasks = [task for task, _ in asked]
    ours = READERS[client](served.bootstrap, tasks)
    for (task, wanted), records in zip(asked, ours, strict=True):
        assert [alike(each, client) for each in records] == [
            alike(each, client) for each in wanted
        ], task
    # The broker goes on with its own state.
    same = [place for place, task in enumerate(tasks) if not task.topic.startswith("__")]
    same = sorted(chance.sample(same, min(len(same), ON_BROKER)))
    theirs = READERS[client](broker.bootstrap, [tasks[place] for place in same])
    for place, records in zip(same, theirs, strict=True):
        assert ours[place] == records, tasks[place]


def test_clients_read_the_union_of_several_brokers_disks(tmp_path: Path) -> None:
    made = make_cluster(tmp_path / "disks", random.Random(6))
    whole = {name: each for name, each in made.partitions.items() if each.is_whole}
    assert whole
    tasks = [
        Task("orders", int(name[-1]), False, each.start, each.leader.end, len(each.records), False)
        for name, each in whole.items()
    ]
    with serving(Path(",".join(map(str, made.dirs))), tmp_path) as server:
        for client in ("aiokafka", "kafka-python"):
            read = READERS[client](server.bootstrap, tasks)
            for each, records in zip(whole.values(), read, strict=True):
                assert {record.offset: record.value for record in records} == each.records
