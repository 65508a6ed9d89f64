"""A dump on many cores: the same bytes on both streams as on one, a bound on the work ahead, an end when asked."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.log.segment.scan import scan
from kafkafs.dump import many_cores
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.inputs import expand
from kafkafs.dump.json_lines import JsonForm
from kafkafs.dump.records import log_batches
from kafkafs.dump.records.log_parts import LogPart
from kafkafs.dump.text_form import TextForm
from tests import builders
from tests.builders import CODECS, Rec, batch
from tests.fixtures_data import copy_of
from tests.kafkafs.dump.dumped import dump

OPTIONS = {
    "batches": (),
    "contents": ("--print-data-log",),
    "bare": ("--print-data-log", "--skip-record-metadata"),
    "decoded": ("--offsets-decoder",),
    "json": ("--json",),
    "range": ("--deep-iteration", "--from", "20", "--to", "90"),
    "partial": ("--deep-iteration", "--max-bytes", "3000"),
    "indexes": ("--verify-index-only",),
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@pytest.fixture
def all_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have small files treated as large ones are, in many parts."""
    monkeypatch.setattr(many_cores, "SMALL", 0)
    monkeypatch.setattr(log_batches, "scan", partial(scan, chunk=512))


def sound(folder: Path) -> None:
    """All codecs, tiny batches, records without key or value, headers."""
    made, offset, pick = [], 0, random.Random(5)
    for number in range(60):
        records = [
            Rec(pick.randbytes(pick.randrange(60)), None if n % 3 else b"k", headers=[(b"h", None)])
            for n in range(1 if number % 2 else 6)
        ]
        made.append(batch(records, offset, CODECS[number % len(CODECS)]))
        offset += len(records) + (number % 7 == 0)
    builders.write_segment(folder, made)


def damaged(folder: Path) -> None:
    """A flipped bit, zeros, noise, a wrong count and a wrong length in the middle."""
    sound(folder)
    log = min(folder.glob("*.log"))
    data = bytearray(log.read_bytes())
    third = len(data) // 3
    data[third] ^= 1
    data[2 * third : 2 * third + 90] = bytes(90)
    wrong = batch([Rec(b"one"), Rec(b"two")], 500, record_count=5)
    noise = random.Random(1).randbytes(300)
    log.write_bytes(bytes(data) + wrong + noise + batch([Rec(b"after")], 600))


def truncated(folder: Path) -> None:
    """The last batch is cut, and so are both indexes."""
    sound(folder)
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-5])


def several(folder: Path) -> None:
    """Several partitions, one of them damaged, and files that cannot be read."""
    for number, make in enumerate((sound, damaged, truncated)):
        make(folder / f"orders-{number}")
    (folder / "orders-1" / f"{0:020}.snapshot").write_bytes(b"no snapshot")
    (folder / "orders-2" / f"{900:020}.log").mkdir()


def of_kafka(folder: Path) -> None:
    """What brokers wrote: internal topics, transactions, control records."""
    shutil.copytree(copy_of("sample", folder.parent / "copied"), folder, dirs_exist_ok=True)


SOURCES = (sound, damaged, truncated, several, of_kafka)


@every_option
@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.usefixtures("all_divided")
def test_four_cores_print_what_one_prints(
    make: Callable[[Path], None], options: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "orders-0"
    make(folder)
    one = dump(folder, *options, "-j", "1")
    assert dump(folder, *options, "-j", "4") == one
    assert one.out


@pytest.mark.usefixtures("all_divided")
def test_old_formats_are_the_same_on_four_cores(tmp_path: Path) -> None:
    logs = sorted(copy_of("legacy", tmp_path).glob("*-0/*.log"))[:6]
    for option in ("--print-data-log", "--json"):
        assert dump(logs, option, "-j", "4") == dump(logs, option, "-j", "1")


@pytest.mark.usefixtures("all_divided")
def test_files_come_in_the_order_of_the_arguments(tmp_path: Path) -> None:
    files = []
    for number in range(8):
        folder = tmp_path / f"orders-{number}"
        sound(folder)
        files += sorted(folder.iterdir(), reverse=number % 2 == 0)
    files.insert(7, tmp_path / "gone.log")
    found = dump(files, "--json", "-j", "3")
    assert found == dump(files, "--json", "-j", "1")
    shown = [line["file"] for line in found.json if "file" in line]
    assert list(dict.fromkeys(shown)) == [str(file) for file in files if file.exists()]


@pytest.mark.parametrize("form", [TextForm, JsonForm])
@pytest.mark.usefixtures("all_divided")
def test_few_parts_are_found_before_their_items_are_taken(
    form: Callable[[DumpOptions], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(b"".join(batch([Rec(bytes(400))], offset) for offset in range(300)))
    found, log_parts = [], many_cores.log_parts

    def counted(*arguments: Any) -> Iterator[LogPart]:
        for part in log_parts(*arguments):
            found.append(part)
            yield part

    monkeypatch.setattr(many_cores, "log_parts", counted)
    jobs, options, before = 3, DumpOptions(print_data_log=True), children()
    with closing(many_cores.items_of(expand([str(log)]), form(options), jobs)) as items:
        for _ in range(3):
            next(items)
        assert 1 < len(found) <= 2 * jobs + 3
    assert children() <= before


def children() -> set[str]:
    return set(Path("/proc/thread-self/children").read_text().split())


def test_little_work_needs_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound(tmp_path)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was started"))
    assert dump(tmp_path, "--json", "-j", "8").status == 0


@pytest.mark.usefixtures("all_divided")
def test_a_log_that_is_cut_while_it_is_dumped_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(b"".join(batch([Rec(bytes(400))], offset) for offset in range(300)))
    without_bytes, sent = many_cores._without_bytes, []

    def cut(part: LogPart) -> Any:
        sent.append(part)
        if len(sent) == 20:
            os.truncate(log, 1000)
        return without_bytes(part)

    monkeypatch.setattr(many_cores, "_without_bytes", cut)
    found = dump(log, "--json", "-j", "2")
    assert found.status == 3
    errors = [line["error"] for line in found.json if "error" in line]
    assert {error["kind"] for error in errors} == {"unreadable"}
