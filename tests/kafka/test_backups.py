"""What tar, cp and rsync take out of a mount is a log that a real broker serves: exactly the period's batches."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kafka import clients, jars
from tests.kafka.broker import Broker, log_files
from tests.kafka.conftest import Written
from tests.kafka.mounted import Mounted
from tests.kafka.shapes import DAY, START
from tests.kafka.truth import PartitionTruth, truth_of

TOOLS = ("tar", "cp", "rsync")
PARTITIONS = ("days-0", "days-1", "days-zstd-0")
# The second day of the three: 2023-11-15 in UTC, where START is on the 14th.
DAY_NAME = "2023-11-15"
DAY_FROM, DAY_TO = (START // DAY + 1) * DAY, (START // DAY + 2) * DAY
PERIOD = (START + DAY // 3, START + 2 * DAY + 12_345)
ODD = ("txn-0", "compacted-0", "out-of-order-0", "recoded-snappy-0", "codec-gzip-0", "orders-1")


class Copy(NamedTuple):
    """A partition's folder as a tool copied it, and the period it was cut to."""

    topic: str
    partition: int
    source: str
    folder: Path
    period: tuple[int, int]


def run(*command: object, cwd: Path | None = None) -> str:
    """Runs a tool that must succeed and complain of nothing: what it printed."""
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def take(tool: str, source: Path, target: Path) -> None:
    """Copies a folder's content with one tool."""
    target.mkdir(parents=True)
    if tool == "cp":
        run("cp", "-a", f"{source}/.", target)
    elif tool == "rsync":
        run("rsync", "-a", f"{source}/", target)
        assert run("rsync", "-ai", f"{source}/", target) == "", "a second rsync copied something"
    else:
        archive = target.with_suffix(".tar")
        run("tar", "-cf", archive, "-C", source, ".")
        run("tar", "-xf", archive, "-C", target)


@pytest.fixture(scope="module")
def copies(current: Written, tmp_path_factory: pytest.TempPathFactory) -> list[Copy]:
    """By each tool: the day of every partition, and one odd period of one."""
    target = tmp_path_factory.mktemp("copies")
    found = []
    with Mounted(current.log_dir, tmp_path_factory.mktemp("mount") / "tree") as mounted:
        for tool in TOOLS:
            day = target / f"day-by-{tool}"
            take(tool, mounted.path / "time" / DAY_NAME, day)
            for name in PARTITIONS:
                topic, partition = name.rsplit("-", 1)
                topic = f"{topic}-by-{tool}"
                found.append(Copy(topic, int(partition), name, day / name, (DAY_FROM, DAY_TO)))
            log = target / f"period-by-{tool}"
            take(tool, mounted.path / "days-0/time" / "{}..{}".format(*PERIOD) / "log", log)
            found.append(Copy(f"period-by-{tool}", 0, "days-0", log, PERIOD))
        for name in ODD:
            period = middle(current.truth[name])
            take(
                "cp", mounted.path / name / "time" / "{}..{}".format(*period) / "log", target / name
            )
            found.append(Copy(f"part-of-{name}", 0, name, target / name, period))
    return found


def middle(truth: PartitionTruth) -> tuple[int, int]:
    """A period between two of the times that the broker was asked about, with records inside and outside."""
    answers = {stamp: truth.right_answer(stamp) for stamp in truth.for_times}
    pairs = [(a, b) for a in answers for b in answers if truth.earliest < answers[a] < answers[b]]
    return min(pairs, key=lambda pair: abs(answers[pair[1]] - answers[pair[0]] - truth.latest // 2))


@pytest.fixture(scope="module")
def served(
    copies: list[Copy], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, PartitionTruth]]:
    """What a broker serves that got the copies as its log dir."""
    broker = Broker(tmp_path_factory.mktemp("restored"))
    partitions: dict[str, int] = {}
    for copy in copies:
        partitions[copy.topic] = max(partitions.get(copy.topic, 0), copy.partition + 1)
    with broker:
        for topic, count in partitions.items():
            clients.create_topic(broker.bootstrap, topic, count)
    for copy in copies:
        place(copy, broker.log_dir / f"{copy.topic}-{copy.partition}")
    broker.forget_checkpoints()
    with broker:
        yield truth_of(broker.bootstrap)


def place(copy: Copy, folder: Path) -> None:
    """Puts a copy's files where the broker looks for that partition; its topic's id stays."""
    for file in folder.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in copy.folder.iterdir():
        if file.name != "partition.metadata":
            shutil.copyfile(file, folder / file.name)


def first_at_or_after(truth: PartitionTruth, timestamp: int) -> int:
    """The broker's own answer where it was asked: it counts the records that end transactions too."""
    if timestamp in truth.for_times:
        found = truth.right_answer(timestamp)
    else:
        late = (record.offset for record in truth.records if record.timestamp >= timestamp)
        found = next(late, clients.NO_OFFSET)
    return truth.latest if found == clients.NO_OFFSET else found


def batches_of(folder: Path) -> list[tuple[int, int]]:
    """First and last offset of each batch, as Kafka's own tool prints them."""
    files = ",".join(entry.path for entry in log_files(folder))
    text = jars.dump_log_segments(jars.CURRENT, "--files", files)
    return [
        (int(a), int(b))
        for a, b in re.findall(r"^baseOffset: (\d+) lastOffset: (\d+)", text, re.MULTILINE)
    ]


def test_a_broker_serves_exactly_the_batches_of_the_period(current, copies, served):
    for copy in copies:
        truth = current.truth[copy.source]
        start, end = (first_at_or_after(truth, time) for time in copy.period)
        batches = batches_of(current.log_dir / copy.source)
        inside = [batch for batch in batches if batch[1] >= start and batch[0] < end]
        assert 0 < len(inside) < len(batches), copy
        first, last = inside[0][0], inside[-1][1]
        got = served[f"{copy.topic}-{copy.partition}"]
        assert (got.earliest, got.latest) == (first, last + 1), copy
        expected = [record for record in truth.records if first <= record.offset <= last]
        assert expected, copy
        assert got.records == expected, copy


def test_the_copies_are_equal_whatever_tool_made_them(copies):
    contents = [
        {file.name: file.read_bytes() for file in copy.folder.iterdir()}
        for copy in copies
        if copy.source == "days-zstd-0"
    ]
    assert len(contents) == len(TOOLS)
    assert all(content == contents[0] for content in contents)


def test_the_copied_logs_are_slices_of_the_source(current, copies):
    for copy in copies:
        source = b"".join(
            Path(entry.path).read_bytes() for entry in log_files(current.log_dir / copy.source)
        )
        taken = b"".join(Path(entry.path).read_bytes() for entry in log_files(copy.folder))
        assert taken
        assert taken in source
