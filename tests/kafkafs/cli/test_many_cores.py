"""`cat`, `cp` and `dump` on many cores: the same bytes as on one, and no work left when the reader goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkafs.tree import streams
from tests.builders import CODECS, Rec, batch
from tests.kafkafs.built_logs import BuiltLog, tree_over

MB = 1 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log dir with two segments of some MB: all codecs, a damaged batch, one with a wrong count."""
    log = BuiltLog(tmp_path_factory.mktemp("large"))
    count = 40
    kinds = [
        [Rec(f"{n:0150}".encode(), b"k", headers=[(b"h", b"v")]) for n in range(count)],
        [Rec(bytes([n]) * 90) for n in range(count)],
    ]
    made = [batch(records, 0, codec) for codec in CODECS for records in kinds]
    for base in (0, 500_000):
        batches = [made[n % len(made)] for n in range(6 * MB // 4000)]
        moved = [(base + n * count).to_bytes(8, "big") + each[8:] for n, each in enumerate(batches)]
        moved[20] = moved[20][:-1] + bytes([moved[20][-1] ^ 1])
        wrong = batch(kinds[0], base + 400 * count, record_count=count + 1)
        moved[400] = wrong
        (log.folder / f"{base:020}.log").write_bytes(b"".join(moved))
    return log.log_dir


def kafkafs(*words: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "kafkafs", *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ("orders-0/records/00000000000000000000.jsonl",),
        ("orders-0/offset/100..600000", "--values", "base64"),
        ("orders-0/committed/00000000000000500000.jsonl",),
        ("-t", "orders", "--from", "7000"),
    ],
    ids=["segment", "range", "committed", "chosen"],
)
def test_cat_prints_the_same_lines_on_four_cores(large: Path, words: tuple[str, ...]) -> None:
    one, four = (kafkafs("cat", large, *words, "-j", jobs) for jobs in (1, 4))
    assert four.stdout == one.stdout
    assert (four.returncode, four.stderr) == (one.returncode, one.stderr) != (0, b"")
    assert one.stdout.count(b'{"error":') >= 2


def test_cp_writes_the_same_files_on_four_cores(large: Path, tmp_path: Path) -> None:
    for jobs in (1, 4):
        assert kafkafs("cp", large, "orders-0/records", tmp_path / str(jobs), "-j", jobs).returncode
    one, four = ({p.name: p.read_bytes() for p in (tmp_path / jobs).iterdir()} for jobs in "14")
    assert one == four
    assert len(one) >= 2


def test_exact_periods_are_the_same_on_four_cores(large: Path) -> None:
    path = "orders-0/time/2023-11-14/exact.jsonl"
    found = [b"".join(file_of(large, path, jobs)) for jobs in (1, 4)]
    assert found[0] == found[1] != b""


def file_of(log_dir: Path, path: str, jobs: int) -> list[bytes]:
    with tree_over(log_dir, jobs=jobs) as tree:
        return list(tree.resolve(path).chunks())  # type: ignore[attr-defined]


def test_threads_work_on_a_long_text_and_on_no_short_one(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(path.stat().st_size for path in large.rglob("*.log")) > 2 * streams.SMALL
    monkeypatch.setattr("engine.workers.Workers", None)
    assert file_of(large, "orders-0/offset/0..1000", 4)
    with pytest.raises(TypeError):
        file_of(large, "orders-0/offset/0..1000000", 4)


@pytest.mark.parametrize(
    "words",
    [
        ("cat", "orders-0/offset/0.."),
        ("dump", "--print-data-log"),
        ("dump", "--json"),
        ("dump", "--offsets-decoder"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("end", ["closed pipe", "interrupt"])
def test_work_ends_with_its_reader(large: Path, words: tuple[str, ...], end: str) -> None:
    command = [sys.executable, "-m", "kafkafs", words[0], str(large), *words[1:], "-j", "3"]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert child.stdout is not None
    assert child.stdout.read(1000)
    if end == "interrupt":
        os.kill(child.pid, signal.SIGINT)
        child.stdout.read()
    child.stdout.close()
    assert child.wait() == (130 if end == "interrupt" else -signal.SIGPIPE)
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)
