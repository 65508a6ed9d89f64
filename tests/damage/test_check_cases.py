"""What `check` says of the corruptions that Kafka's tool and loader were tried on: each found, at its place.

Kafka 4.3.1's own dump tool sees part of them, often with exit status 0; its loader cuts or deletes. What each of the
two does is in the second column of a case's name where it is worth knowing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.check.rules.finding import Finding
from tests import fixtures_data
from tests.builders import resealed
from tests.damage.meaning import Row, rows_of
from tests.engine.check.files.side_logs import files, log_dir, write_checkpoint
from tests.engine.check.logs import bad, found

Act = Callable[["Hurt"], object]


class Hurt:
    """A log dir, one of its segments, and a batch in the middle of it."""

    def __init__(self, folder: Path, place: int = 1, row: int = 5) -> None:
        self.folder = folder
        self.log = files(folder, ".log")[place]
        self.data = bytearray(self.log.read_bytes())
        self.rows = rows_of(bytes(self.data))
        self.row = self.rows[row]

    def beside(self, suffix: str) -> Path:
        """The segment's file of another ending."""
        return self.log.with_suffix(suffix)

    def put(self, at: int, form: str, *values: int) -> None:
        """Write numbers into the batch."""
        struct.pack_into(form, self.data, self.row.position + at, *values)

    def number(self, at: int, form: str) -> int:
        """A number of the batch."""
        value: int = struct.unpack_from(form, self.data, self.row.position + at)[0]
        return value

    def seal(self) -> None:
        """Give the batch the checksum of what it holds now."""
        start, end = self.row.position, self.row.end
        self.data[start:end] = resealed(bytes(self.data[start:end]))

    def cut(self, row: Row | None = None) -> None:
        """Take a batch out."""
        row = row or self.row
        del self.data[row.position : row.end]

    def double(self) -> None:
        """Put the batch there twice."""
        batch = self.data[self.row.position : self.row.end]
        self.data[self.row.end : self.row.end] = batch

    def save(self) -> None:
        """Write the segment."""
        self.log.write_bytes(self.data)


def edit(suffix: str, change: Callable[[bytearray], object]) -> Act:
    """A change to a file beside the segment."""

    def act(hurt: Hurt) -> None:
        path = hurt.beside(suffix)
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)

    return act


def add(at: int, form: str, more: int) -> Callable[[bytearray], object]:
    """A change that adds to a number."""

    def change(data: bytearray) -> None:
        struct.pack_into(form, data, at, struct.unpack_from(form, data, at)[0] + more)

    return change


BATCHES: dict[str, tuple[Act, str]] = {
    "a byte of a value: printed, exit status 0": (lambda h: h.put(80, ">B", 0xFF), "batch-checksum"),
    "the checksum zeroed: printed, exit status 0": (lambda h: h.put(17, ">I", 0), "batch-checksum"),
    "length too large: the rest is lost": (lambda h: h.put(8, ">i", 1 << 20), "batch-length"),
    "length past the file": (lambda h: h.put(8, ">i", (1 << 31) - 1), "batch-length"),
    "length negative: stops": (lambda h: h.put(8, ">i", -5), "batch-length"),
    "length one more": (lambda h: h.put(8, ">i", h.number(8, ">i") + 1), "batch-checksum"),
    "magic 7: taken for 2": (lambda h: h.put(16, ">b", 7), "batch-magic"),
    "magic 1: stops": (lambda h: h.put(16, ">b", 1), "batch-checksum"),
    "codec 7: stops": (lambda h: (h.put(21, ">h", 7), h.seal()), "records-codec"),
    "one record more: stops": (lambda h: (h.put(57, ">i", 5), h.seal()), "records-count"),
    "one record less: stops": (lambda h: (h.put(57, ">i", 3), h.seal()), "records-leftover"),
    "the count alone": (lambda h: h.put(57, ">i", 5), "batch-checksum"),
    "base offset raised: the loader fails": (lambda h: h.put(0, ">q", 5_000_000_000), "offset-segment"),
    "base offset lowered: the loader deletes all": (lambda h: h.put(0, ">q", 3), "offset-segment"),
    "base offset negative: the loader fails": (lambda h: h.put(0, ">q", -3), "batch-offsets"),
    "leader epoch 999: the epochs are rewritten": (lambda h: h.put(12, ">i", 999), "epoch-batch"),
    "leader epoch negative: nothing": (lambda h: h.put(12, ">i", -5), "epoch-batch"),
    "batch removed: nothing": (lambda h: h.cut(), "gap-unexplained"),
    "batch doubled: the loader deletes all": (lambda h: h.double(), "offset-duplicate"),
    "zeros in the middle": (lambda h: h.data.__setitem__(slice(h.row.position, h.row.end), bytes(h.row.end - h.row.position)), "batch-zeros"),
}  # fmt: skip

SIDE: dict[str, tuple[Act, str, str]] = {
    "index of odd length: trimmed": (edit(".index", lambda d: d.extend(b"\1\2\3")), "index-length", ".index"),
    "index into a batch: passes the sanity check": (edit(".index", add(12, ">i", 7)), "index-position", ".index"),
    "index past the end: passes the sanity check": (edit(".index", add(12, ">i", 9_999_999)), "index-past-end", ".index"),
    "index with a lower offset: a message": (edit(".index", add(8, ">i", -4)), "index-misses-records", ".index"),
    "index going back: no error": (edit(".index", add(8, ">i", -30)), "index-order", ".index"),
    "index gone: recovered": (lambda h: h.beside(".index").unlink(), "index-missing", ".index"),
    "time index with another time: a message": (edit(".timeindex", add(12, ">q", 1)), "time-index-entry", ".timeindex"),
    "time index with another offset: a message": (edit(".timeindex", add(20, ">i", 4)), "time-index-entry", ".timeindex"),
    "time index of odd length: corrupt": (edit(".timeindex", lambda d: d.extend(b"\1")), "index-length", ".timeindex"),
    "time index zeros": (edit(".timeindex", lambda d: d.__setitem__(slice(0, None), bytes(len(d)))), "time-index-missing", ".timeindex"),
    "segment gone: its indexes are deleted": (lambda h: h.log.unlink(), "file-without-log", ".index"),
    "unfinished compaction": (lambda h: h.beside(".log.cleaned").write_bytes(h.data), "file-half-compacted", ".log.cleaned"),
    "compaction to finish": (lambda h: h.beside(".log.swap").write_bytes(h.data), "file-half-compacted", ".log.swap"),
    "a name that is no number: the broker stops": (lambda h: (h.log.parent / "abc.log").write_bytes(b""), "file-name", "abc.log"),
    "a bit of a snapshot: a message": (edit(".snapshot", lambda d: d.__setitem__(-1, d[-1] ^ 1)), "snapshot-unreadable", ".snapshot"),
    "a snapshot of nothing": (edit(".snapshot", lambda d: d.clear()), "snapshot-unreadable", ".snapshot"),
    "a transaction index cut inside an entry: dropped": (edit(".txnindex", lambda d: d.__delitem__(slice(-5, None))), "txn-index-missing", ".txnindex"),
    "a transaction index of zeros: a transaction that never was": (edit(".txnindex", lambda d: d.extend(bytes(34))), "txn-index-extra", ".txnindex"),
}  # fmt: skip

SILENT: dict[str, Act] = {
    "index with a tail of zeros": edit(".index", lambda d: d.extend(bytes(4096))),
    "time index with a tail of zeros": edit(".timeindex", lambda d: d.extend(bytes(4092))),
    "index emptied": edit(".index", lambda d: d.clear()),
}


def findings(folder: Path, rule: str) -> list[Finding]:
    return [each for each in bad(found(folder)) if each.rule == rule]


@pytest.mark.parametrize("case", BATCHES)
def test_damage_of_a_batch_is_found_where_it_is(case: str, tmp_path: Path) -> None:
    act, rule = BATCHES[case]
    hurt = Hurt(log_dir(tmp_path / "dir"))
    act(hurt)
    hurt.save()
    places = [
        (each.position, (each.position or 0) + (each.length or 1))
        for each in findings(hurt.folder, rule)
        if each.file == str(hurt.log)
    ]
    assert any(
        start is not None and start <= hurt.row.end and end >= hurt.row.position
        for start, end in places
    ), (places, [(each.rule, each.position) for each in found(hurt.folder)])


@pytest.mark.parametrize("case", SIDE)
def test_damage_beside_the_batches_is_found_where_it_is(case: str, tmp_path: Path) -> None:
    act, rule, suffix = SIDE[case]
    folder = log_dir(tmp_path / "dir")
    place = 1
    if ".txnindex" in suffix:
        aborted = files(folder, ".txnindex")[0].with_suffix(".log")
        place = files(folder, ".log").index(aborted)
    elif ".snapshot" in suffix:
        place = -1
    act(Hurt(folder, place, 0))
    assert any(each.file.endswith(suffix) for each in findings(folder, rule)), [
        (each.rule, each.file) for each in found(folder)
    ]


@pytest.mark.parametrize("case", SILENT)
def test_what_changes_no_look_up_is_no_finding(case: str, tmp_path: Path) -> None:
    hurt = Hurt(log_dir(tmp_path / "dir"))
    SILENT[case](hurt)
    assert not bad(found(hurt.folder))


@pytest.mark.parametrize("size", [1, 11, 16, 17, 40, 62])
def test_a_torn_tail_is_told_from_damage(size: int, tmp_path: Path) -> None:
    hurt = Hurt(log_dir(tmp_path / "dir", clean=False), -1, 0)
    hurt.data += bytes(hurt.data[: hurt.rows[0].end])[:size]
    hurt.save()
    assert [each.position for each in findings(hurt.folder, "torn-tail")] == [hurt.rows[-1].end]
    assert {each.rule for each in bad(found(hurt.folder))} == {"torn-tail"}


def test_zeros_behind_the_last_batch_are_room(tmp_path: Path) -> None:
    hurt = Hurt(log_dir(tmp_path / "dir", clean=False), -1, 0)
    hurt.data += bytes(5000)
    hurt.save()
    assert not bad(found(hurt.folder))


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4", "snappy"])
def test_bytes_changed_in_compressed_data_are_found(codec: str, tmp_path: Path) -> None:
    name = f"codec-{codec}-0"
    folder = fixtures_data.copy_of("current", tmp_path, [name])
    path = min((folder / name).glob("*.log"))
    data = bytearray(path.read_bytes())
    row = rows_of(bytes(data))[1]
    data[row.position + 61 : row.position + 64] = b"\0\xff\1"
    path.write_bytes(data)
    assert [each.position for each in findings(folder, "batch-checksum")] == [row.position]
    data[row.position : row.end] = resealed(bytes(data[row.position : row.end]))
    path.write_bytes(data)
    named = [each for each in bad(found(folder)) if each.position == row.position]
    assert any(each.rule.startswith("records-") for each in named)


def test_damage_in_an_older_segment_takes_nothing_from_later_ones(tmp_path: Path) -> None:
    folder = log_dir(tmp_path / "dir")
    hurt = Hurt(folder, 0, -1)
    hurt.cut()
    hurt.data += bytes(hurt.row.end - hurt.row.position)
    hurt.save()
    zeros = findings(folder, "zero-tail")
    assert [(each.first_offset, each.next_offset) for each in zeros] == [
        (hurt.row.base, hurt.row.last + 1)
    ]


def test_a_log_start_behind_the_log_end_is_found_before_all_is_deleted(tmp_path: Path) -> None:
    folder = log_dir(tmp_path / "dir")
    write_checkpoint(folder, "log-start", "side 0 100000")
    assert findings(folder, "log-start-past-end")


@pytest.mark.parametrize("act", [lambda h: h.put(80, ">B", 0xFF), lambda h: h.put(16, ">b", 7)])
def test_a_clean_stop_hides_no_damage(act: Act, tmp_path: Path) -> None:
    hurt = Hurt(log_dir(tmp_path / "dir"))
    act(hurt)
    hurt.save()
    (finding,) = findings(hurt.folder, "clean-shutdown-damage")
    assert finding.position == hurt.row.position
