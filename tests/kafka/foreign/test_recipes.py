"""The recipes of kafkafs/docs/clients.md read what the page says; what they read is what the broker served."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.checkout import ROOT
from tests.fixtures_data import (
    TruthRecord,
    log_dir,
    truth_offsets,
    truth_partitions,
    truth_records,
)
from tests.kafka import jars
from tests.kafka.broker import Broker
from tests.kafka.clients import Reader, partitions_of
from tests.kafka.foreign.recipes import blocks, environment, recipe
from tests.kafka.foreign.terminal import Terminal, cells, terminal
from tests.kafkafs.serve.serving import Served, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 120


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(log_dir("current"), tmp_path_factory.mktemp("log")) as found:
        yield found


def test_every_recipe_of_the_page_is_run_here() -> None:
    assert set(blocks("recipe")) == {
        "kcat", "console", "kaskade-admin", "kaskade-consumer", "confluent-kafka", "kafka-python",
        "mm2.properties", "mm2", "spark",
    }  # fmt: skip


@pytest.mark.parametrize("name", blocks("lines of"))
def test_a_part_of_a_program_on_the_page_is_in_the_program_that_is_run(name: str) -> None:
    assert blocks("lines of")[name] in (ROOT / name).read_text()


def run(name: str, served: Served, folder: Path) -> list[str]:
    """Lines that a recipe for the shell or for Python prints."""
    text = recipe(name, served.bootstrap)
    is_python = "import" in text
    command = [sys.executable, "-W", "ignore", "-c", text] if is_python else ["bash", "-ec", text]
    done = subprocess.run(
        command, env=environment(folder), cwd=folder, text=True, capture_output=True,
        check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kcat_lists_the_topic_and_prints_records(served: Served, tmp_path: Path) -> None:
    lines = run("kcat", served, tmp_path)
    assert any('topic "orders" with 3 partitions' in line for line in lines), lines
    wanted = [
        f"{each.offset} {(each.key or b'').decode()} {(each.value or b'').decode()}"
        for each in truth_records("current", "orders-0")[35:38]
    ]
    assert lines[-3:] == wanted


def test_the_console_begins_where_the_group_was(served: Served, tmp_path: Path) -> None:
    records = truth_records("current", "orders-0")
    wanted = [each.value for each in [*records[35:38], *records[50:53]]]
    assert [line.encode() for line in run("console", served, tmp_path)] == wanted


def kaskade(mode: str, served: Served, folder: Path) -> AbstractContextManager[Terminal]:
    """Kaskade in a mode, which keeps its files in the folder."""
    own = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    return terminal(
        recipe(f"kaskade-{mode}", served.bootstrap), folder, {**environment(folder), **own}
    )


def test_kaskade_lists_topics_with_their_partitions_and_records(
    served: Served, tmp_path: Path
) -> None:
    names: dict[str, list[str]] = {}
    for name in truth_offsets("current"):
        names.setdefault(name.rpartition("-")[0], []).append(name)
    wanted = []
    for topic, found in sorted(names.items()):
        ends = [truth_offsets("current")[name] for name in found]
        count = sum(each["latest"] - each["earliest"] for each in ends)
        is_whole = set(found) <= set(truth_partitions("current"))
        wanted.append([topic, str(len(found)), f"≈{count}" if is_whole else "—"])
    with kaskade("admin", served, tmp_path) as screen:
        screen.wait_until(
            lambda rows: [[row[0], row[1], row[6]] for row in rows if len(row) == 8][1:] == wanted
        )


def test_kaskade_shows_partitions_and_groups_of_a_topic_and_cannot_delete_it(
    tmp_path: Path,
) -> None:
    shown = ("--topic", "orders", "--only-present")
    with (
        serving(log_dir("current"), tmp_path, *shown) as served,
        kaskade("admin", served, tmp_path) as screen,
    ):
        screen.wait_for("d Describe")
        screen.wait_for("Updated")
        screen.press("d")
        screen.wait_for("Topic Details [orders]")
        screen.wait_for_row("0", "1", "0", "1000", "1000", "[1]", "[1]")
        screen.press("l")
        screen.wait_for_row("cleanup.policy", "delete")
        screen.press("l")
        screen.wait_for_row("billing-0", f"{served.bootstrap}/1", "empty", "1", "0", "950")
        screen.press("l")
        screen.wait_for_row("billing-0", "0", "50", "1000", "950")
        screen.press("Escape")
        screen.wait_for("d Describe")
        screen.press("C-d")
        screen.wait_for("Type the topic name")
        screen.press("orders")
        screen.wait_for_row("orders")
        screen.press("Enter")
        screen.wait_for("Broker: Policy violation")


def test_kaskade_shows_records_from_an_offset_on(served: Served, tmp_path: Path) -> None:
    wanted = [
        [(each.key or b"").decode(), *cells((each.value or b"").decode()), str(each.offset)]
        for each in truth_records("current", "orders-0")[35:60]
    ]
    with kaskade("consumer", served, tmp_path) as screen:
        screen.wait_until(
            lambda rows: [[*row[:-5], row[-2]] for row in rows if len(row) >= 7][1:] == wanted
        )


@pytest.mark.parametrize("name", ["confluent-kafka", "kafka-python"])
def test_a_recipe_for_python_reads_to_the_end(served: Served, tmp_path: Path, name: str) -> None:
    pairs = [line.partition(" ") for line in run(name, served, tmp_path)]
    assert [(int(offset), ast.literal_eval(value)) for offset, _, value in pairs] == [
        (each.offset, each.value) for each in truth_records("current", "orders-0")[35:]
    ]


@pytest.mark.timeout(400)
def test_mirror_maker_copies_records_and_groups_into_a_new_cluster(
    served: Served, tmp_path: Path
) -> None:
    copied = ("orders-0", "txn-0", "compacted-0")
    wanted = {name: truth_records("current", name, committed=True) for name in copied}
    with Broker(tmp_path / "new") as new:
        shell = environment(tmp_path)
        properties = recipe("mm2.properties", served.bootstrap, new.bootstrap)
        (tmp_path / "mm2.properties").write_text(properties)
        with (
            (tmp_path / "mm2.log").open("w") as log,
            subprocess.Popen(
                recipe("mm2", served.bootstrap).split(),
                env=shell,
                cwd=tmp_path,
                stdout=log,
                stderr=log,
            ) as mirror,
        ):
            try:
                wait_for(new, {name: len(records) for name, records in wanted.items()}, mirror)
                offset = group_offset(new, "billing-0", mirror, tmp_path / "mm2.log")
                # Its end is not looked at: a task that it closes may still be asking.
                said = (tmp_path / "mm2.log").read_text()
            finally:
                mirror.terminate()
        with Reader(new.bootstrap) as reader:
            for name, records in wanted.items():
                topic, _, number = name.rpartition("-")
                got = reader.records(topic, int(number))
                assert list(map(facts, got)) == list(map(facts, records)), name
    # MirrorMaker may set a group back, and says so; it does not pass over a record.
    assert 0 < offset <= 50
    assert "ERROR" not in said.replace("heartbeats", "")


def facts(record: TruthRecord) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.headers


def wait_for(broker: Broker, counts: dict[str, int], mirror: subprocess.Popen[bytes]) -> None:
    """Wait until partitions of a new cluster have as many records."""
    end = time.monotonic() + SECONDS
    found: dict[str, int] = {}
    while time.monotonic() < end:
        assert mirror.poll() is None
        there = {
            f"{topic}-{number}": (topic, number)
            for topic, number in partitions_of(broker.bootstrap)
        }
        with Reader(broker.bootstrap) as reader:
            found = {name: reader.bounds(*there[name])[1] for name in there.keys() & counts.keys()}
        if found == counts:
            return
        time.sleep(0.5)
    raise AssertionError((found, counts))


def group_offset(broker: Broker, group: str, mirror: subprocess.Popen[bytes], log: Path) -> int:
    """The offset of a group in orders-0 that MirrorMaker commits."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    from tests.kafka.clients import admin

    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition("orders", 0)])]
    client, end = admin(broker.bootstrap), time.monotonic() + SECONDS
    while time.monotonic() < end:
        assert mirror.poll() is None
        answer = client.list_consumer_group_offsets(asked)[group].result(SECONDS)
        offset: int = answer.topic_partitions[0].offset
        if offset >= 0:
            return offset
        time.sleep(0.5)
    raise AssertionError(f"no committed offset; MirrorMaker wrote:\n{log.read_text()[-4000:]}")


@pytest.fixture(scope="module")
def connector(spark: SparkSession) -> SparkSession:
    """The session, which has the connector because tests ask for it by this name."""
    return spark


def test_sparks_connector_reads_committed_records(served: Served, connector: SparkSession) -> None:
    found: dict[str, object] = {"spark": connector}
    exec(recipe("spark", served.bootstrap), found)
    rows = found["orders"].select("offset", "key", "value").collect()  # type: ignore[attr-defined]
    got = sorted((row.offset, _bytes(row.key), _bytes(row.value)) for row in rows)
    assert got == [
        (each.offset, each.key, each.value)
        for each in truth_records("current", "txn-0", committed=True)
    ]


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_flinks_source_reads_topics_to_their_ends(
    served: Served, flink: list[str], isolation: str
) -> None:
    topics = ("txn", "compacted", "weird", "codec-zstd")
    done = subprocess.run(
        [*flink, served.bootstrap, ",".join(topics), isolation],
        text=True, capture_output=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    for topic in topics:
        got = sorted(
            (int(offset), int(stamp), key, value)
            for name, offset, stamp, key, value in rows
            if name == f"{topic}-0"
        )
        wanted = truth_records("current", f"{topic}-0", committed=isolation == "read_committed")
        assert got == [
            (each.offset, each.timestamp, _hex(each.key), _hex(each.value)) for each in wanted
        ], topic


def test_flink_reads_a_topic_whose_other_partitions_are_on_lost_disks(
    flink: list[str], tmp_path: Path
) -> None:
    with serving(log_dir("current"), tmp_path, "--only-present") as served:
        done = subprocess.run(
            [*flink, served.bootstrap, "orders", "read_committed"],
            text=True, capture_output=True, check=False, timeout=SECONDS,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    offsets = sorted(int(line.split("\t")[1]) for line in done.stdout.splitlines())
    assert offsets == [each.offset for each in truth_records("current", "orders-0")]


def _hex(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs FlinkRead; Flink finds its classes only if they are compiled."""
    classes = tmp_path_factory.mktemp("classes")
    source = Path(__file__).with_name("FlinkRead.java")
    path = f"{jars.flink_jars()}/*"
    subprocess.run(["javac", "-cp", path, "-d", str(classes), str(source)], check=True)
    opened = ("java.util", "java.lang", "java.time", "java.nio")
    options = [part for each in opened for part in ("--add-opens", f"java.base/{each}=ALL-UNNAMED")]
    return ["java", jars.HEAP, *options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-cp", f"{path}:{classes}", "FlinkRead"]  # fmt: skip
