"""Compressed files, archives and standard input open as what is in them; damage leaves what is before it."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import kafkafs
from engine.errors import SourceError
from kafkafs.unpacked_folders import let_go
from kafkafs.unpacking import unpacked
from kafkafs.zstd_stream import ZstdError, ZstdReader
from tests.fixtures_data import log_dir, truth_records

SAMPLE = log_dir("sample")
FIRST = SAMPLE / "orders-0" / f"{0:020}.log"
IN_FIRST = 395
MARKERS = 48
ALL = sum(len(truth_records("sample", name)) for name in ("orders-0", "orders-1", "txn-0"))


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))


def run(*words: str | Path, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "kafkafs", *map(str, words)]
    return subprocess.run(command, input=data, capture_output=True, timeout=100, check=False)


def tar_of(*names: str, folder: Path = SAMPLE, prefix: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in names:
            archive.add(folder / name, arcname=f"{prefix}{name}")
    return out.getvalue()


def zstd_with_checksum(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def plain(data: bytes) -> bytes:
    return data


LOG_DIR = ("meta.properties", "orders-0", "orders-1", "txn-0")
SOURCES: dict[str, tuple[str, Callable[[], bytes], set[str]]] = {
    "gzip": ("payments.log.gz", lambda: gzip.compress(FIRST.read_bytes()), {"payments"}),
    "zstd": ("payments.log.zst", lambda: zstandard.compress(FIRST.read_bytes()), {"payments"}),
    "two members": (
        "payments.log.gz",
        lambda: b"".join(
            map(gzip.compress, (FIRST.read_bytes()[:9999], FIRST.read_bytes()[9999:]))
        ),
        {"payments"},
    ),
    "a segment": (FIRST.name + ".gz", lambda: gzip.compress(FIRST.read_bytes()), {"mail"}),
    "tar of a log dir": ("kafka.tar", lambda: tar_of(*LOG_DIR), {"orders", "txn"}),
    "tgz": ("kafka.tgz", lambda: gzip.compress(tar_of(*LOG_DIR)), {"orders", "txn"}),
    "tar.zst": ("kafka.tar.zst", lambda: zstandard.compress(tar_of(*LOG_DIR)), {"orders", "txn"}),
    "deep": ("b.tar", lambda: tar_of(*LOG_DIR, prefix="var/lib/kafka/data/"), {"orders", "txn"}),
    "a partition": ("p.tar", lambda: tar_of("orders-0"), {"orders"}),
    "its files": (
        "pay.tar",
        lambda: tar_of(*os.listdir(SAMPLE / "orders-0"), folder=SAMPLE / "orders-0"),
        {"pay"},
    ),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_an_archive_opens_as_what_is_in_it(kind: str, tmp_path: Path) -> None:
    name, make, topics = SOURCES[kind]
    path = tmp_path / "mail" / name
    path.parent.mkdir()
    path.write_bytes(make())
    with kafkafs.open(path) as source:
        assert set(source.topics) == topics
        count = sum(source.scan(topic).count() for topic in topics)
    assert count == {"its files": 1000, "a partition": 1000}.get(
        kind, ALL if len(topics) > 1 else IN_FIRST
    )
    let_go()
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.parametrize("pack", [plain, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("content", ["file", "log dir"])
def test_standard_input_is_a_source(
    pack: Callable[[bytes], bytes], content: str, tmp_path: Path
) -> None:
    data = FIRST.read_bytes() if content == "file" else tar_of(*LOG_DIR)
    result = run("grep", "-c", "", "-", data=pack(data))
    assert (result.returncode, result.stderr) == (0, b"")
    assert int(result.stdout) == (IN_FIRST if content == "file" else ALL + MARKERS)
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.parametrize("pack", [gzip.compress, zstd_with_checksum])
@pytest.mark.parametrize("harm", ["cut", "changed"])
def test_what_is_before_the_damage_is_read_and_the_damage_is_told(
    pack: Callable[[bytes], bytes], harm: str, tmp_path: Path
) -> None:
    packed = bytearray(pack(FIRST.read_bytes() + os.urandom(600_000)))
    half = len(packed) // 2
    if harm == "cut":
        del packed[half:]
    else:
        packed[half : half + 64] = bytes(64)
    path = tmp_path / "payments.log.packed"
    path.write_bytes(packed)
    result = run("cat", path)
    assert result.returncode == 3
    assert b"payments.log.packed is damaged: " in result.stderr
    assert result.stdout.startswith(b'{"topic":"payments"')
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.parametrize("pack", [plain, gzip.compress, zstandard.compress])
def test_a_cut_archive_shows_the_partitions_before_the_cut(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    whole = tar_of("meta.properties", "orders-0", "orders-1")
    path = tmp_path / "kafka.tar.x"
    path.write_bytes(pack(whole)[: len(pack(whole)) * 4 // 5])
    result = run("offsets", path)
    assert result.returncode == 3
    assert b"kafka.tar.x is damaged: " in result.stderr
    assert b"orders:0:1000\n" in result.stdout


def test_an_archive_that_was_cut_between_its_files_is_damaged(tmp_path: Path) -> None:
    whole = tar_of("orders-0", "orders-1")
    stripped = len(whole.rstrip(b"\0"))
    path = tmp_path / "kafka.tar"
    path.write_bytes(whole[: stripped + -stripped % 512])
    result = run("offsets", path)
    assert (result.returncode, result.stdout.count(b":1000")) == (3, 2)
    assert b"it does not end as a tar archive does" in result.stderr


def test_names_that_lead_out_and_links_are_not_written(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(SAMPLE / "orders-0", arcname="orders-0")
        for name in ("../evil", "/tmp/../../evil", "orders-0/../../../evil"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        link = tarfile.TarInfo("orders-1")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    path = tmp_path / "hostile.tar"
    path.write_bytes(out.getvalue())
    with kafkafs.open(path) as source:
        assert list(source.topics) == ["orders"]
    assert not list(tmp_path.rglob("evil"))
    assert not list(tmp_path.rglob("orders-1"))


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("notes.gz", gzip.compress(b"hello"), "is not a .log file"),
        ("empty.log.gz", gzip.compress(b""), "is empty"),
        ("photos.tar", tar_of("meta.properties")[:512] + bytes(10240), "photos.tar"),
        ("cut.log.gz", gzip.compress(b"x" * 100)[:5], "damaged"),
        ("cut.log.zst", zstandard.compress(b"x" * 100)[:5], "damaged"),
    ],
)
def test_an_archive_of_something_else_is_refused(
    name: str, data: bytes, reason: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=reason):
        unpacked([str(tmp_path / name)], print)
    let_go()
    assert os.listdir(tmp_path / "tmp") == []


def test_there_must_be_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(FIRST.read_bytes()))
    monkeypatch.setattr("kafkafs.unpacking._LEFT_FREE", 1 << 60)
    with pytest.raises(SourceError, match="no room to unpack"):
        unpacked([str(tmp_path / "a.log.gz")], print)
    assert os.listdir(tmp_path / "tmp") == []


def test_a_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(FIRST.read_bytes()))
    code = (
        "import os; from kafkafs.unpacking import unpacked;"
        f" unpacked([{str(tmp_path / 'a.log.gz')!r}], print); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=100)
    assert len(os.listdir(tmp_path / "tmp")) == 1
    assert run("offsets", tmp_path / "a.log.gz").stdout == b"a:0:395\n"
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.parametrize("size", [0, 1, 100, 1 << 17, (1 << 20) + 7])
def test_a_zstd_stream_is_decompressed_or_refused(size: int) -> None:
    data = os.urandom(size // 2) + bytes(size - size // 2)
    packed = zstandard.compress(data)
    assert ZstdReader(io.BufferedReader(io.BytesIO(packed))).readall() == data  # type: ignore[arg-type]
    if size:
        with pytest.raises(ZstdError, match="ends early"):
            ZstdReader(io.BufferedReader(io.BytesIO(packed[:-1]))).readall()  # type: ignore[arg-type]
