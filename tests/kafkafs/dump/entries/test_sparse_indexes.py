"""Indexes with holes of 100 GiB: passed over, and said."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkafs.dump.dump import dump_text
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.inputs import expand
from kafkafs.dump.report import DumpReport
from tests.builders import Aborted, Rec, batch, transaction_index, write_segment

SIZE = 100 << 30


def dumped(path: Path) -> tuple[str, str, DumpReport]:
    out: list[bytes] = []
    err: list[bytes] = []
    report = DumpReport(out.append, err.append)
    dump_text(expand([str(path)]), DumpOptions(), report)
    return b"".join(out).decode(), b"".join(err).decode(), report


def sparse(folder: Path, suffix: str, data: bytes) -> Path:
    write_segment(folder / "t-0", [batch([Rec(b"v")] * 3, 0)], 0)
    path = folder / "t-0" / f"{0:020}{suffix}"
    with path.open("wb") as file:
        file.write(data)
        try:
            file.truncate(SIZE)
        except OSError:
            pytest.skip("no file here can be so large")
    return path


@pytest.mark.parametrize(
    ("suffix", "data", "behind"),
    [
        (".index", b"", 8),
        (".index", struct.pack(">ii", 2, 0), 8),
        (".timeindex", struct.pack(">qi", 1_700_000_000_000, 2), 12),
    ],
)
def test_zeros_behind_an_index_are_passed_over(
    tmp_path: Path, suffix: str, data: bytes, behind: int
) -> None:
    out, err, report = dumped(sparse(tmp_path, suffix, data))
    assert out.count("offset: ") == 1
    assert f"{SIZE - behind} bytes of zeros after the last entry of" in err
    assert "are skipped: the file has 107374182400 bytes, an index at most 2147483647" in err
    assert report.findings >= 1


def test_entries_of_zeros_in_a_transaction_index_are_summed_up(tmp_path: Path) -> None:
    path = sparse(tmp_path, ".txnindex", transaction_index([Aborted(1, 0, 2, 3)]))
    with path.open("r+b") as file:
        file.seek(34 * 1_000_000_000)
        file.write(transaction_index([Aborted(7, 5, 6, 8)]))
    out, err, _ = dumped(path)
    assert "producerId: 7 firstOffset: 5" in out
    assert out.count("\n") < 20_000
    assert err.count("entries of zeros in transaction index") == 2


def test_data_behind_the_last_entry_of_an_index_is_told(tmp_path: Path) -> None:
    path = sparse(tmp_path, ".index", struct.pack(">ii", 2, 0))
    with path.open("r+b") as file:
        file.seek(50 << 30)
        file.write(b"x")
    _, err, _ = dumped(path)
    assert f"there is data at byte {50 << 30}" in err


def test_a_preallocated_index_is_no_finding(tmp_path: Path) -> None:
    path = sparse(tmp_path, ".index", struct.pack(">ii", 2, 0))
    with path.open("r+b") as file:
        file.truncate(10 << 20)
    out, err, report = dumped(path)
    assert (out.count("offset: "), err, report.findings) == (1, "", 0)
