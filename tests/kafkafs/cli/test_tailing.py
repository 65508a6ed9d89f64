"""`kafkafs head` and `tail` print the first and the last lines of each partition that `cat` prints, and `tail -f` what comes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.builders import Rec
from tests.engine.log.folders import LogWriter
from tests.fixtures_data import log_dir

KAFKAFS = [sys.executable, "-m", "kafkafs"]
CURRENT = str(log_dir("current"))


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, words)))


def by_partition(result: Result) -> dict[tuple[str, int], list[str]]:
    """The lines of records by partition."""
    lines = [line for line in result.stdout.split("\n")[:-1] if not line.startswith('{"error"')]
    places = {line: json.loads(line) for line in lines}
    return {
        place: list(of_partition)
        for place, of_partition in groupby(
            lines, lambda line: (places[line]["topic"], places[line]["partition"])
        )
    }


CHOICES = {
    "all": [],
    "a topic": ["-t", "orders"],
    "committed": ["-t", "txn,open-txn", "--committed"],
    "a range": ["-t", "txn,orders", "--from", "100", "--to", "600"],
    "times": ["--from", "2023-11-14T22:20:00Z", "--to", "2023-11-14T22:40:00Z"],
    "before the end": ["-t", "orders", "--offset", "-17"],
    "values": ["-t", "orders", "--values", "hex"],
    "internal": ["-t", "__consumer_offsets"],
}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("most", [0, 1, 7, 300, 100_000])
def test_head_and_tail_print_the_ends_of_what_grep_prints(choice: list[str], most: int) -> None:
    whole = by_partition(run("grep", "--where", "true", CURRENT, *choice))
    assert whole
    head = by_partition(run("head", CURRENT, *choice, "-n", most))
    tail = by_partition(run("tail", CURRENT, *choice, "-n", most))
    assert head == {name: lines[:most] for name, lines in whole.items() if most}
    assert tail == {name: lines[-most:] for name, lines in whole.items() if most}


@pytest.mark.parametrize(
    "path",
    [
        "orders-0",
        "orders-0/records",
        "txn-0/committed",
        "orders-0/offset/90..200",
        "time/2023-11-14T22",
    ],
)
def test_a_path_is_that_of_grep(path: str) -> None:
    whole = by_partition(run("grep", "--where", "true", CURRENT, path))
    head, tail = (by_partition(run(name, CURRENT, path, "-n", 5)) for name in ("head", "tail"))
    assert head == {name: lines[:5] for name, lines in whole.items()}
    assert tail == {name: lines[-5:] for name, lines in whole.items()}


def test_a_compacted_log_with_few_records_in_many_offsets_has_its_last_ones(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "data", "kept-0")
    kept = sorted(random.Random(5).sample(range(10_000_000), 40))
    for offset in kept:
        writer.next_offset = offset
        writer.append_records(Rec(b"v", key=b"k%d" % offset))
    tail = run("tail", tmp_path / "data", "-n", 30)
    assert [json.loads(line)["offset"] for line in tail.stdout.splitlines()] == kept[-30:]


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """orders-0 with a flipped bit in a batch in the middle of each of its segments."""
    shutil.copytree(CURRENT, tmp_path / "data")
    for log in (tmp_path / "data" / "orders-0").glob("*.log"):
        content = bytearray(log.read_bytes())
        content[len(content) // 2] ^= 1
        log.write_bytes(content)
    return str(tmp_path / "data")


@pytest.mark.parametrize("most", [3, 60, 150, 400, 5000])
def test_damage_is_reported_where_it_is_among_the_printed_records(damaged: str, most: int) -> None:
    whole = run("grep", "--where", "true", damaged, "orders-0")
    lines = whole.stdout.splitlines()
    places = [line for line in whole.stderr.splitlines() if ": byte " in line]
    assert len(places) > 1
    for command, shown in (("head", lines[:most]), ("tail", lines[-most:])):
        result = run(command, damaged, "orders-0", "-n", most)
        assert result.stdout.splitlines() == shown
        first, last = (json.loads(shown[place])["offset"] for place in (0, -1))
        offsets = [json.loads(line)["offset"] for line in shown]
        has_hole = last - first + 1 > len(offsets)
        told = [line for line in result.stderr.splitlines() if ": byte " in line]
        assert result.exit_code == (1 if told else 0)
        assert set(told) <= set(places)
        assert bool(told) >= has_hole, "a hole between printed records is told"
    assert most < len(lines) or told == places


@pytest.mark.parametrize("command", ["head", "tail"])
def test_a_text_takes_the_place_of_a_line(command: str) -> None:
    form = ["--format", r"%o\n%o "]
    done = run(command, CURRENT, "orders-0", "-n", 2, *form)
    numbers = {"head": (0, 1), "tail": (998, 999)}[command]
    assert done.stdout == "".join(f"{each}\n{each} " for each in numbers)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["head", CURRENT, "no-0"], "no such partition"),
        (["tail", CURRENT, "-t", "no"], "no partition matches --topic no"),
        (["tail", "-f", CURRENT, "orders-0", "--to", "7"], "-f goes on with what comes"),
        (["tail", "-f", CURRENT, "orders-0/offset/3"], "-f follows whole partitions"),
    ],
)
def test_what_is_not_there_is_an_error(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.exit_code != 0
    assert said in f"{done.stderr}{done.exception}"


# tail -f


class Followed:
    """A running `tail -f`, with what it has printed."""

    def __init__(self, *words: object) -> None:
        command = [*KAFKAFS, "tail", "-f", *map(str, words)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        self.text = b""

    def wait_for(self, text: str, *, error: bool = False) -> bool:
        """Read until a text was printed, at most 20 seconds."""
        stream = self.process.stderr if error else self.process.stdout
        assert stream is not None
        deadline = time.monotonic() + 20
        while text.encode() not in self.text and time.monotonic() < deadline:
            if select.select([stream], [], [], 0.1)[0]:
                self.text += os.read(stream.fileno(), 65536)
        return text.encode() in self.text


@contextlib.contextmanager
def followed(*words: object) -> Iterator[Followed]:
    tail = Followed(*words)
    try:
        yield tail
    finally:
        tail.process.kill()
        tail.process.communicate()


@pytest.fixture
def growing(tmp_path: Path) -> LogWriter:
    writer = LogWriter(tmp_path / "data", "grows-0")
    for number in range(5):
        writer.append_records(Rec(b"old-%d" % number))
    return writer


def test_a_growing_log_is_followed_into_new_segments_and_new_partitions(
    growing: LogWriter, tmp_path: Path
) -> None:
    with followed(tmp_path / "data", "-n", 2, "--format", r"%p:%o=%s\n") as tail:
        assert tail.wait_for("old-4")
        growing.append_records(Rec(b"new-5"), Rec(b"new-6"))
        assert tail.wait_for("new-6")
        growing.roll()
        growing.append_records(Rec(b"new-7"))
        assert tail.wait_for("new-7")
        LogWriter(tmp_path / "data", "grows-1").append_records(Rec(b"first"))
        assert tail.wait_for("first")
        tail.process.send_signal(signal.SIGINT)
        assert tail.process.wait(20) == 130
        expected = "0:3=old-3 0:4=old-4 0:5=new-5 0:6=new-6 0:7=new-7 1:0=first"
        assert tail.text.decode().split() == expected.split()


def test_from_the_end_on_only_what_comes_is_printed(growing: LogWriter, tmp_path: Path) -> None:
    with followed(tmp_path / "data", "-o", "end", "--format", r"%s\n") as tail:
        time.sleep(2)
        growing.append_records(Rec(b"new"))
        assert tail.wait_for("new")
        assert tail.text == b"new\n"


def test_a_log_that_is_cut_or_deleted_is_told(growing: LogWriter, tmp_path: Path) -> None:
    (log,) = (tmp_path / "data" / "grows-0").glob("*.log")
    sizes = log.stat().st_size // 5
    with followed(tmp_path / "data", "-n", 1) as tail:
        assert tail.wait_for("old-4")
        os.truncate(log, 3 * sizes)
        assert tail.wait_for("grows-0: its end is 3 now, it was 5", error=True)
        LogWriter(tmp_path / "data", "other-0").append_records(Rec(b"x"))
        shutil.rmtree(log.parent)
        assert tail.wait_for("grows-0: there is no such partition any more", error=True)


def test_a_reader_that_is_gone_ends_it_though_nothing_comes(
    growing: LogWriter, tmp_path: Path
) -> None:
    line = f"timeout 30 {' '.join(KAFKAFS)} tail -f {tmp_path / 'data'} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "141"
