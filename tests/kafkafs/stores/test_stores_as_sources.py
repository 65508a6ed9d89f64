"""A source in an object store gives what the same files on a disk give, and is only read."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import kafkafs
from engine import processes
from engine.errors import SourceError
from kafkafs.table.errors import CorruptBatchError
from kafkafs.unpacked_folders import let_go
from tests.fixtures_data import log_dir, truth_records
from tests.kafkafs.cli.test_sources import TABLE, run
from tests.kafkafs.sources_at_hand import Source
from tests.object_stores import BUCKET, ObjectStore
from tests.tiered_folders import TieredWriter, aiven_copy

SAMPLE = log_dir("sample")
URL = f"s3://{BUCKET}/logdir"
HERE = Source(lambda _: SAMPLE, "orders", len(truth_records("sample", "orders-0")))
WRITING = {"cp", "export", "rebuild", "report"}
"""Commands with a target, which is compared and not the output."""


def answer(command: str, path: str, out: Path) -> tuple[int, str, dict[str, bytes]]:
    out.mkdir()
    result, error = run(TABLE[command].words(path, HERE, out))
    if result.exception is not None and not isinstance(result.exception, SystemExit | SourceError):
        raise result.exception
    files = {str(each.relative_to(out)): each.read_bytes() for each in out.rglob("*.log")}
    text = error if command in WRITING else error + result.stdout
    return result.exit_code, text.replace(path, "SOURCE"), files


@pytest.mark.parametrize("command", sorted(set(TABLE) - {"browse", "du"}))
def test_a_command_answers_as_on_a_disk(
    command: str, known_store: ObjectStore, tmp_path: Path
) -> None:
    there = answer(command, URL, tmp_path / "there")
    assert there == answer(command, str(SAMPLE), tmp_path / "here")
    assert known_store.methods <= {"GET", "HEAD"}


def test_one_cold_record_takes_few_requests(store: ObjectStore) -> None:
    result, _ = run(["cat", URL, "orders-0/offset/35"])
    assert f'"offset":{35},' in result.stdout
    assert sum(each.is_list for each in store.requests) == 1
    assert len(store.gets()) <= 4  # the log's end, its start, the index and the batch


def test_a_partition_a_file_and_an_archive_are_sources(store: ObjectStore, tmp_path: Path) -> None:
    expected = HERE.records
    for url in (f"{URL}/orders-0", f"{URL}/orders-0/"):
        with kafkafs.open(url) as opened:
            assert opened.scan("orders").count() == expected
    with kafkafs.open(f"{URL}/orders-0/{0:020}.log") as opened:
        assert list(opened.topics) == ["orders"]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(SAMPLE, "kafka")
    store.put("backups/kafka.tgz", packed.getvalue())
    with kafkafs.open(f"s3://{BUCKET}/backups/kafka.tgz") as opened:
        assert opened.scan("orders").count() == 2 * expected


def test_a_file_of_a_mirror_is_refused_where_its_store_is_not_known(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafkafs.open(URL) as opened:
        local = opened._logs.source.roots[0].path
        assert opened._logs.paths == (URL,)
        monkeypatch.setattr("engine.files.stores.STORES.mirrors", [])
        with kafkafs.open(local) as again, pytest.raises(CorruptBatchError, match="cannot be read"):
            again.scan("orders").count()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://logs/nothing", "no object is there"),
        ("s3://nobody/logdir", "cannot be listed: the store answers with an error"),
        ("s3://", "names no bucket"),
        ("s3://me:secret@logs/x", "more than a bucket and a prefix"),
    ],
)
def test_what_is_no_source_is_one_line(url: str, words: str, store: ObjectStore) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        kafkafs.open(url)
    assert "\n" not in str(caught.value)
    assert "secret@" not in str(caught.value)


def test_a_secret_is_no_option(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAFS_STORE_OPTIONS", "secret_access_key=x")
    with pytest.raises(SourceError, match="is a secret"):
        kafkafs.open(URL)


def test_nothing_is_left_behind(store: ObjectStore, tmp_path: Path) -> None:
    with kafkafs.open(URL) as opened:
        assert opened.scan("orders").count()
        (name,) = os.listdir(tmp_path / "tmp")
    let_go(f"{tmp_path}/tmp/{name}")
    assert os.listdir(tmp_path / "tmp") == []


def test_tiered_copies_are_read_in_a_store(store: ObjectStore, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    writer = TieredWriter(copies / "local")
    writer.copy_all(SAMPLE / "orders-0")
    writer.copy(SAMPLE / "orders-0", 395)
    aiven_copy(copies / "aiven", SAMPLE / "orders-0", 0)
    for layout in ("local", "aiven"):
        url = store.put_folder(copies / layout, f"tiered/{layout}")
        there, here = (run(["grep", "", path])[0] for path in (url, f"{copies}/{layout}"))
        assert there.stdout == here.stdout
        assert len(there.stdout.splitlines()) > 100


def test_what_takes_too_much_room_is_fetched_again(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKAFS_STORE_OPTIONS", f"endpoint={store.endpoint},space=100K")
    with kafkafs.open(URL) as opened:
        sums = [opened.scan("orders").count() for _ in range(2)]
    assert sums == [2 * HERE.records] * 2
    logs = [each.key for each in store.gets() if each.key.endswith(".log")]
    assert len(logs) > len(set(logs))


def test_processes_that_are_forked_share_what_is_fetched(store: ObjectStore) -> None:
    with kafkafs.open(URL) as opened:
        orders = opened["orders"]

        def count(number: int) -> list[int]:
            return [len(list(orders[number].records()))]

        assert list(processes.flat_map(count, [0, 1, 0, 1], 2)) == [HERE.records] * 4
    bytes_read = sum(each.bytes for each in store.gets() if each.key.endswith(".log"))
    assert bytes_read == sum(path.stat().st_size for path in SAMPLE.glob("orders-*/*.log"))


@pytest.mark.mount
def test_a_mount_goes_on_in_the_background(store: ObjectStore, tmp_path: Path) -> None:
    mounted = tmp_path / "mnt"
    mounted.mkdir()
    command = [sys.executable, "-m", "kafkafs"]
    environment = os.environ | {"TMPDIR": f"{tmp_path}/tmp"}
    subprocess.run([*command, "mount", URL, mounted], env=environment, check=True, timeout=60)
    try:
        for path in sorted((SAMPLE / "orders-0").glob("*.log")):
            assert (mounted / "orders-0" / "segments" / path.name).read_bytes() == path.read_bytes()
        assert f"\n  {URL}\n" in (mounted / "README.txt").read_text()
    finally:
        subprocess.run([*command, "umount", mounted], check=True, timeout=60)
