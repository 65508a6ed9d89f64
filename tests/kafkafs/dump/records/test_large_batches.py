"""Dumps of large batches: the same text as in one, with little of it in memory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine import kernel
from kafkafs.dump import json_lines
from kafkafs.dump.dump import dump_json, dump_text
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.inputs import expand
from kafkafs.dump.records import large_batches
from kafkafs.dump.report import DumpReport
from tests.builders import CODECS, Rec, batch


def dumped(path: Path, *, as_json: bool) -> tuple[list[bytes], bytes]:
    """What a dump writes: in its parts, and in one."""
    parts: list[bytes] = []
    errors: list[bytes] = []
    report = DumpReport(parts.append, errors.append)
    run = dump_json if as_json else dump_text
    run(expand([str(path)]), DumpOptions(print_data_log=True), report)
    return parts, b"".join([*parts, *errors])


def field(pick: random.Random) -> bytes | None:
    size = pick.choice([0, 5, 200, 700])
    kinds = [None, pick.randbytes(size), b"\x80" * size, ("é€\U0001f600" * (size // 9)).encode()]
    return pick.choice(kinds)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("seed", range(8))
def test_large_records_are_dumped_the_same_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool, seed: int
) -> None:
    pick, offset, made = random.Random(seed), 0, []
    for number in range(12):
        records = [
            Rec(field(pick), field(pick), headers=[(b"h", field(pick))] * (n % 3)) for n in range(9)
        ]
        count = len(records) + (number == 5)
        made.append(batch(records, offset, pick.choice(CODECS), record_count=count))
        offset += len(records)
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(b"".join(made))
    _, whole = dumped(log, as_json=as_json)
    for module in (large_batches, json_lines):
        monkeypatch.setattr(module, "LARGE", 150)
    monkeypatch.setattr(large_batches, "_RECORDS", 4)
    monkeypatch.setattr(large_batches, "_PIECE", 100)
    monkeypatch.setattr(json_lines, "_ROWS", 4)
    parts, text = dumped(log, as_json=as_json)
    assert text == whole
    assert len(parts) > 100


@pytest.mark.skipif(not kernel.is_compiled(), reason="59 MB take the Python kernel a minute")
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_part_of_a_dump_is_a_whole_value(tmp_path: Path, as_json: bool) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(batch([Rec(b"\1" * (30 << 20))], 0, CODECS[4]))
    parts, _ = dumped(log, as_json=as_json)
    assert max(map(len, parts)) < 8 << 20
