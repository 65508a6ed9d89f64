"""What a real broker has copied to tiered storage holds the records that its consumers got."""

from __future__ import annotations

import random
import re
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from engine.check.log_dir_check import SourceCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.log.log_directory import open_source
from engine.rebuild.rebuilding import rebuild
from kafkafs.tree.tree import Tree
from tests.kafka import clients, jars
from tests.kafka.broker import Broker, log_files
from tests.kafka.conftest import SEED
from tests.kafka.record_lines import assert_same_records
from tests.kafka.shapes import CODECS, Session
from tests.kafka.truth import PartitionTruth, truth_of
from tests.kafka.views import TreeView

TOPICS = ("orders", "txn")
TIERED = {
    "remote_storage_enable": "true",
    "local_retention_bytes": 1,  # a segment goes as soon as it was copied
    "file_delete_delay_ms": 1000,
}
STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
COPY_SECONDS = 40
LISTENER = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Copied:
    """The folder of tiered storage, what consumers saw, and where each partition's copies end."""

    storage: Path
    broker: Broker
    truth: dict[str, PartitionTruth]
    ends: dict[str, int]


def settings(storage: Path) -> dict[str, object]:
    """Of a broker that copies every half second to a folder."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": STORAGE,
        "remote.log.storage.manager.class.path": jars.tiered_storage_jar(),
        "rsm.config.dir": storage,
        "remote.log.metadata.manager.listener.name": LISTENER,
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
        "remote.log.manager.task.interval.ms": 500,
        "log.initial.task.delay.ms": 500,
    }


def write(bootstrap: str, seed: int, *, first: bool) -> None:
    """Records of all codecs into two partitions, transactions that end each way into a third."""
    session = Session(bootstrap, random.Random(seed))
    if first:
        session.create("orders", 2, **TIERED)
        session.create("txn", **TIERED)
    for codec in CODECS:
        session.send("orders", 500, codec=codec, partitions=2)
    producer = clients.producer(bootstrap, transactional_id="tx")
    producer.init_transactions(clients.ANSWER_SECONDS)
    for number in range(30):
        producer.begin_transaction()
        for index in range(20):
            producer.produce("txn", key=b"%d" % index, value=session.order(index))
        producer.flush()  # what was not sent an abort would drop
        end = producer.abort_transaction if number % 3 else producer.commit_transaction
        end(clients.ANSWER_SECONDS)


def wait_for_copies(broker: Broker, storage: Path) -> dict[str, int]:
    """Where the copies end: at the active segment, which is the last one that is there."""
    deadline = time.monotonic() + COPY_SECONDS
    while time.monotonic() < deadline:
        local = {name: list(log_files(broker.log_dir / name)) for name in partition_names(storage)}
        if local and all(len(logs) == 1 for logs in local.values()):
            return {name: int(logs[0].name[:20]) for name, logs in local.items()}
        time.sleep(0.2)
    raise TimeoutError("the broker has not copied its segments")


def partition_names(storage: Path) -> list[str]:
    return [re.sub("-.{22}$", "", folder.name) for folder in storage.iterdir()]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Copied:
    """After a restart, so that there are two leader epochs; the broker is stopped."""
    home = tmp_path_factory.mktemp("tiered")
    storage = home / "kafka-tiered-storage"
    broker = Broker(home, version=jars.PREVIOUS, settings=settings(home))
    with broker:
        write(broker.bootstrap, SEED, first=True)
    with broker:
        write(broker.bootstrap, SEED + 1, first=False)
        ends = wait_for_copies(broker, storage)
        truth = truth_of(broker.bootstrap, TOPICS)
    return Copied(storage, broker, truth, ends)


def up_to_the_end(copied: Copied, name: str) -> PartitionTruth:
    """What a consumer got of the offsets that were copied."""
    truth, end = copied.truth[name], copied.ends[name]
    return replace(
        truth,
        records=[record for record in truth.records if record.offset < end],
        committed=[record for record in truth.committed if record.offset < end],
    )


def lines(view: TreeView, folder: str) -> bytes:
    return b"".join(view.read(f"{folder}/{name}") for name in sorted(view.names(folder)))


def test_the_copies_hold_what_consumers_got(copied: Copied) -> None:
    source = open_source(str(copied.storage))
    view = TreeView(Tree(source))
    assert sorted(source.partitions()) == sorted(copied.truth) == ["orders-0", "orders-1", "txn-0"]
    for name in copied.truth:
        truth = up_to_the_end(copied, name)
        log = source.partitions()[name].view()
        assert (log.log_start_offset, log.log_end_offset) == (truth.earliest, copied.ends[name])
        assert len(log) > 2
        assert len(log.leader_epochs) == 2
        assert_same_records(lines(view, f"{name}/records"), truth, truth.records)
        assert_same_records(lines(view, f"{name}/committed"), truth, truth.committed)
    source.close()


def test_look_ups_by_time_in_the_copies_are_the_brokers(copied: Copied) -> None:
    source = open_source(str(copied.storage))
    for name, truth in copied.truth.items():
        log = source.partitions()[name].view()
        for timestamp in truth.for_times:
            found = log.offset_for_time(timestamp)
            right = truth.right_answer(timestamp)
            if right < copied.ends[name]:
                assert (found.offset if found else clients.NO_OFFSET) == right, (name, timestamp)
    source.close()


def test_the_copies_are_sound(copied: Copied) -> None:
    """Their indexes, snapshots and epochs fit, under the names that they are shown by."""
    source = open_source(str(copied.storage))
    events = list(SourceCheck(source).run())
    source.close()
    found = [event for event in events if isinstance(event, Finding)]
    assert [each for each in found if each.severity is not Severity.NOTE] == []


def copies_noted(storage: Path) -> int:
    """How many copies `check` says something of: the broker can have left one of its own."""
    source = open_source(str(storage))
    found = [event for event in SourceCheck(source).run() if isinstance(event, Finding)]
    source.close()
    return sum(each.rule == "tiered-copy" for each in found)


def test_copies_of_one_segment_by_two_leaders_are_shown_once(
    copied: Copied, tmp_path: Path
) -> None:
    """As when the copying broker died before it could note that a segment was copied."""
    storage = tmp_path / "storage"
    shutil.copytree(copied.storage, storage)
    (folder,) = storage.glob("orders-0-*")
    before = copies_noted(storage)
    chance = random.Random(SEED)
    twice = chance.sample(sorted(folder.glob("*.log")), 2)
    for log in twice:
        for file in folder.glob(f"{log.stem}.*"):
            shutil.copyfile(file, folder / file.name.replace(log.stem[21:], "A" * 22))
    source = open_source(str(storage))
    truth = up_to_the_end(copied, "orders-0")
    assert_same_records(lines(TreeView(Tree(source)), "orders-0/records"), truth, truth.records)
    source.close()
    assert copies_noted(storage) == before + len(twice)


def test_a_broker_serves_what_is_rebuilt_of_the_copies(copied: Copied, tmp_path: Path) -> None:
    rebuild(str(copied.storage), str(tmp_path / "rebuilt"))
    home = tmp_path / "home"
    shutil.copytree(copied.broker.home / "data", home / "data")
    for name in copied.truth:
        shutil.rmtree(home / "data" / name)
        shutil.copytree(tmp_path / "rebuilt" / name, home / "data" / name)
    broker = Broker(
        home, version=jars.PREVIOUS, settings=settings(home)
    )  # its topics are tiered; the storage is empty
    broker.forget_checkpoints()
    truths = [up_to_the_end(copied, name) for name in copied.truth]
    with (
        broker,
        clients.Reader(broker.bootstrap) as every,
        clients.Reader(broker.bootstrap, committed=True) as stable,
    ):
        for truth in truths:
            place = truth.topic, truth.partition
            assert every.records(*place) == truth.records
            assert stable.records(*place) == truth.committed
