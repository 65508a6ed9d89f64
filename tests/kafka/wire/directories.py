"""Directories of a running broker that nothing changes any more, and `kafkafs serve` over the same files."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.fixtures_data import log_dir, partitions
from tests.kafka import clients, jars
from tests.kafka.broker import Broker, log_files
from tests.kafka.shapes import CODECS, Session, fill_current
from tests.kafka.wire.known import METADATA
from tests.kafka.wire.peers import Fields, Peer
from tests.kafkafs.serve.serving import Served, serving

_NEVER = 2**31 - 1
SECURED: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Settings of a broker with ACLs, which allows its clients everything."""
STILL: dict[str, object] = SECURED | {
    "log.cleaner.enable": "false",
    "log.initial.task.delay.ms": _NEVER,
    "log.retention.check.interval.ms": _NEVER,
    "offsets.retention.check.interval.ms": _NEVER,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": _NEVER,
    "transaction.remove.expired.transaction.cleanup.interval.ms": _NEVER,
    "producer.id.expiration.check.interval.ms": _NEVER,
    "max.incremental.fetch.session.cache.slots": 100_000,
    "group.consumer.assignment.interval.ms": 0,
}
"""Settings of a broker that keeps its directory as it is, without compaction, retention and expiry, and assigns at once."""
_NOT_AGAIN = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**63 - 1)}
"""Of a topic whose log was compacted elsewhere: its gaps are no losses, and this broker's cleaner leaves it as it is."""
START_SECONDS = 60.0
_OPEN: list[Producer] = []
"""Producers with open transactions, which would end with them."""
MEMBERS_VERSION = jars.PREVIOUS
"""`serve` answers members of groups as 4.3.1; 4.4.0 counts some epochs higher and knows more errors."""


class Both(NamedTuple):
    """A broker and a server over the same directory."""

    broker: Peer
    ours: Peer
    server: Served


@contextmanager
def both(home: Path, first_rebalance_ms: int = 1, version: str = jars.CURRENT) -> Iterator[Both]:
    """Start a broker with its log dir in `home`/data, and a server over the same files."""
    settings = STILL | {"group.initial.rebalance.delay.ms": first_rebalance_ms}
    wait = ("-o", f"first_rebalance_milliseconds={first_rebalance_ms}")
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(home, version, settings=settings))
        theirs = stack.enter_context(Peer(broker.bootstrap))
        _settle(theirs)
        server = stack.enter_context(serving(broker.log_dir, home, "--snapshot", *wait))
        ours = stack.enter_context(Peer(server.bootstrap))
        yield Both(theirs, ours, server)


def copied(log_dir: Path, home: Path) -> None:
    """Copy a log dir to `home`/data."""
    shutil.copytree(log_dir, home / "data")


def written(home: Path, seed: int) -> None:
    """Write a log dir with every shape to `home`/data: four leader epochs, old formats, open and aborted transactions."""
    broker = Broker(home, settings=SECURED)
    with broker:
        session = fill_current(broker.bootstrap, seed)
        _write_facts(broker.bootstrap)
        for name in _old_logs():
            topic = name.rpartition("-")[0]
            clients.create_topic(
                broker.bootstrap, topic, config=_NOT_AGAIN if "compacted" in topic else {}
            )
        broker.stop()
        with warnings.catch_warnings():  # its open transaction ends with nobody to tell
            warnings.simplefilter("ignore")
            del session
    for name in _old_logs():
        _replace_log(log_dir("legacy") / name, broker.log_dir / name)
    broker.forget_checkpoints()
    broker.start()
    try:
        _write_later_epochs(broker.bootstrap, seed)
    finally:
        broker.kill()


def _write_facts(bootstrap: str) -> None:
    """Write ACLs, a user, and a group of the consumer protocol."""
    admin = clients.admin(bootstrap)
    acls = [
        AclBinding(kind, name, pattern, "User:alice", host, operation, AclPermissionType.ALLOW)
        for kind, name, pattern, host, operation in (
            (ResourceType.TOPIC, "ord", ResourcePatternType.PREFIXED, "*", AclOperation.READ),
            (
                ResourceType.TOPIC,
                "orders",
                ResourcePatternType.LITERAL,
                "127.0.0.1",
                AclOperation.ALL,
            ),
            (ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, "*", AclOperation.DESCRIBE),
            (ResourceType.GROUP, "billing", ResourcePatternType.PREFIXED, "*", AclOperation.READ),
        )
    ]
    for answer in admin.create_acls(acls).values():
        answer.result(clients.ANSWER_SECONDS)
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion("alice", mechanism, b"a password")
    for answer in admin.alter_user_scram_credentials([user]).values():
        answer.result(clients.ANSWER_SECONDS)
    with clients.Group(bootstrap, "reconciled", group_protocol="consumer") as member:
        member.read_and_commit("orders", 20)


def _old_logs() -> list[str]:
    return [each for each in partitions("legacy") if not each.startswith("__")]


def _replace_log(old: Path, folder: Path) -> None:
    for each in log_files(folder):
        Path(each.path).unlink()
    for name in ("*.index", "*.timeindex", "*.snapshot"):
        for path in folder.glob(name):
            path.unlink()
    for path in old.glob("*.log"):
        shutil.copy2(path, folder)


def _write_later_epochs(bootstrap: str, seed: int) -> None:
    """Append in a newer leader epoch: records, aborted and open transactions, offsets of a transaction."""
    session = Session(bootstrap, Random(seed))
    for topic in ("orders", "txn", "open-txn", "codec-zstd", "compacted", "trimmed", "empty"):
        codec = session.random.choice(CODECS)
        session.send(topic, 60, codec=codec)
    clients.delete_records(bootstrap, "codec-lz4", 0, 100)
    producers = [
        clients.producer(
            bootstrap, transactional_id=f"later-{number}", transaction_timeout_ms=900_000
        )
        for number in range(3)
    ]
    for producer in producers:
        producer.init_transactions(clients.ANSWER_SECONDS)
    for end in ("abort", "commit", "abort", ""):
        for producer in producers:
            producer.begin_transaction()
        for index in range(60):
            topic = session.random.choice(("txn", "orders", "compacted"))
            session.random.choice(producers).produce(topic, session.order(index), f"k{index}", 0)
        for producer in producers:
            producer.flush()
            if end:
                getattr(producer, f"{end}_transaction")(clients.ANSWER_SECONDS)
    with clients.Group(bootstrap, "pending") as member:
        producers[0].send_offsets_to_transaction(
            [TopicPartition("orders", 0, 7)], member.metadata(), clients.ANSWER_SECONDS
        )
    session.send("txn", 20)
    _OPEN.extend(producers)


def _settle(broker: Peer) -> None:
    """Wait until the broker leads every partition and has loaded its groups and transactions."""
    end = time.monotonic() + START_SECONDS
    while not _is_settled(broker):
        assert time.monotonic() < end, "the broker does not lead its partitions"
        time.sleep(0.2)


def _is_settled(broker: Peer) -> bool:
    topics = _fields(broker, METADATA, 12, {"topics": None})["topics"]
    partitions = [each for topic in topics for each in topic["partitions"]]
    if not partitions or any(each["errorCode"] or each["leaderId"] < 0 for each in partitions):
        return False
    for topic in topics:
        for each in topic["partitions"]:
            wanted = {"partitionIndex": each["partitionIndex"], "timestamp": -1}
            named = {"name": topic["name"], "partitions": [wanted]}
            found = _fields(broker, 2, 5, {"replicaId": -1, "topics": [named]})
            if found["topics"][0]["partitions"][0]["errorCode"]:
                return False
    return not any(_fields(broker, key, 0, {})["errorCode"] for key in (16,))


def _fields(broker: Peer, key: int, version: int, fields: Fields) -> Fields:
    return broker.ask(key, version, fields).fields or {"topics": [], "errorCode": -1}
