"""Real log dirs through the kernel: the same tree as without it, tools, a log that is written meanwhile."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from kafkafs.tree.node import Directory, File, Kind, Link, Node
from kafkafs.tree.tree import Tree
from tests.builders import Rec, batch, write_segment
from tests.fixtures_data import copy_of, log_dir
from tests.mount.mounted import Mounted, needs_fuse, wait_until

pytestmark = [pytest.mark.mount, needs_fuse]

KINDS = ("sample", "current", "legacy", "crashed", "live")
TIMESTAMP = 1_700_000_000_000

Mount = Callable[..., Mounted]


class MountedLogs(Mounted):
    """The `kafkafs mount` command over a log dir."""

    def __init__(self, folder: Path, source: Path, *options: str) -> None:
        self.given = source
        super().__init__(folder, *options)

    def command(self, options: tuple[str, ...]) -> list[str]:
        chosen = [part for option in options for part in ("-o", option)]
        command = [sys.executable, "-m", "kafkafs", "mount", "--foreground", *chosen]
        return [*command, str(self.given), str(self.path)]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts log dirs."""
    running: list[Mounted] = []

    def begin(source: Path, *options: str) -> Mounted:
        folder = tmp_path / f"mount-{len(running)}"
        folder.mkdir()
        mounted = MountedLogs(folder, source, *options)
        running.append(mounted)
        return mounted

    yield begin
    for mounted in running:
        assert mounted.process.poll() is None, mounted.log_text()
        mounted.stop()


def nodes(node: Node) -> Iterator[Node]:
    """A node and all that is listed below."""
    yield node
    if isinstance(node, Directory):
        for entry in node.entries():
            if entry.name != ".kafkafs":
                yield from nodes(node.lookup(entry.name))


def content_of(node: File) -> bytes | int:
    """A file's bytes, or the errno that a reader gets."""
    from kafkafs.fuse.errnos import errno_of

    try:
        content = node.open()
        try:
            return content.read(0, content.size)
        finally:
            content.close()
    except Exception as error:  # noqa: BLE001
        return errno_of(error) or -1


def bytes_of(path: Path) -> bytes | int:
    try:
        return path.read_bytes()
    except OSError as error:
        return error.errno or 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_mount_is_the_tree_byte_for_byte(kind: str, mount: Mount) -> None:
    mounted = mount(log_dir(kind))
    source = open_source([str(log_dir(kind))])
    seen = 0
    try:
        for node in nodes(Tree(source).root()):
            path = mounted.path / node.path
            status = path.lstat()
            attrs = node.attrs()
            assert status.st_ino == attrs.inode, node.path
            assert status.st_mode & 0o777 == attrs.mode, node.path
            assert status.st_mtime_ns == attrs.mtime_ns, node.path
            if isinstance(node, Link):
                assert os.readlink(path) == node.target
            elif isinstance(node, File):
                expected = content_of(node)
                assert bytes_of(path) == expected, node.path
                if isinstance(expected, bytes):
                    assert path.stat().st_size == len(expected), node.path
            else:
                assert attrs.kind is Kind.DIRECTORY
            seen += 1
    finally:
        source.close()
    assert seen > 30
    assert '"unexpectedErrors": 0' in (mounted.path / ".kafkafs/statistics").read_text()


def test_df_shows_the_disk_of_the_log_dir(mount: Mount) -> None:
    source = log_dir("sample")
    shown, disk = os.statvfs(mount(source).path), os.statvfs(source)
    assert shown.f_blocks == disk.f_blocks * disk.f_frsize // shown.f_frsize
    assert shown.f_files == disk.f_files


def fingerprint(folder: Path) -> list[tuple[object, ...]]:
    """Everything of a source that reading must not change."""
    found: list[tuple[object, ...]] = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found.append((str(path), status.st_mode, status.st_size, status.st_mtime_ns,
                      status.st_ctime_ns, status.st_ino, digest))  # fmt: skip
    return found


def test_reading_everything_changes_nothing_in_the_source(mount: Mount, tmp_path: Path) -> None:
    source = copy_of("current", tmp_path / "source")
    before = fingerprint(source)
    mounted = mount(source)
    for command in (
        "find {} -ls",
        "grep -r customer {}",
        "tar cf - {} --ignore-failed-read",
        "du {}",
    ):
        subprocess.run(command.format(mounted.path), shell=True, capture_output=True, check=False)
    assert fingerprint(source) == before


def test_grep_counts_in_records_and_finds_no_binary_files(mount: Mount) -> None:
    mounted = mount(log_dir("current"))
    done = subprocess.run(
        f"grep -rc . {mounted.path}/*/records", shell=True, capture_output=True, check=True
    )
    assert b"binary" not in (done.stdout + done.stderr).lower()
    counts = dict(line.rsplit(b":", 1) for line in done.stdout.splitlines())
    assert counts, "nothing was counted"
    assert all(int(count) for name, count in counts.items() if b"empty" not in name)


def files_below(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize(
    "place", ["orders-0/records", "orders-0/time", "time/2023-11-14", "orders-0/segments"]
)
def test_tar_cp_and_rsync_copy_byte_for_byte_and_rsync_once(
    mount: Mount, tmp_path: Path, place: str
) -> None:
    tarred, copied, synced = (tmp_path / name for name in ("tarred", "copied", "synced"))
    for folder in (tarred, copied, synced):
        folder.mkdir()
    for command in (
        "tar cf - -C {source} . | tar xf - -C {tarred}",
        "cp -a {source}/. {copied}",
        "rsync -a {source}/ {synced}/",
    ):
        # A mount for each: what one tool has opened, the next one finds with exact sizes.
        mounted = mount(log_dir("sample"))
        source = mounted.path / place
        text = command.format(source=source, tarred=tarred, copied=copied, synced=synced)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", text], capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b""), text
    expected = files_below(source)
    assert expected
    for folder in (tarred, copied, synced):
        assert files_below(folder) == expected, folder
    again = subprocess.run(
        ["rsync", "-ai", f"{source}/", f"{synced}/"], capture_output=True, check=True
    )
    assert again.stdout == b""


# -- a log that is written while it is mounted


class Writer:
    """Appends batches to a partition as a broker does."""

    def __init__(self, log: Path) -> None:
        self.folder = log / "orders-0"
        self.next_offset = 0
        self.file = Path(write_segment(self.folder, [self.batch(10)]))
        (log / "meta.properties").write_text("version=1\nnode.id=1\n")

    def batch(self, count: int) -> bytes:
        base = self.next_offset
        self.next_offset += count
        records = [Rec(b"v%d" % (base + n), timestamp=TIMESTAMP + base + n) for n in range(count)]
        return batch(records, base_offset=base)

    def append(self, count: int = 1) -> None:
        with self.file.open("ab") as file:
            file.write(self.batch(count))

    def roll(self, count: int = 1) -> None:
        base = self.next_offset
        self.file = Path(write_segment(self.folder, [self.batch(count)], base))


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "log")


def test_a_new_record_is_there_within_a_second(mount: Mount, writer: Writer) -> None:
    path = mount(writer.folder.parent).path / "orders-0" / "offset"
    for _ in range(5):
        offset = writer.next_offset
        assert not (path / str(offset)).exists()  # asked before it is there, as a consumer does
        writer.append()
        began = time.monotonic()
        assert wait_until(lambda offset=offset: (path / str(offset)).exists(), 3)
        assert time.monotonic() - began < 1.0
        assert f'"offset":{offset},' in (path / str(offset)).read_text()


def test_tail_f_follows_a_segment(mount: Mount, writer: Writer) -> None:
    path = mount(writer.folder.parent).path / "orders-0/records/00000000000000000000.jsonl"
    lines: list[bytes] = []
    with subprocess.Popen(["tail", "-n", "+1", "-f", path], stdout=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        os.set_blocking(tail.stdout.fileno(), False)

        def read_on() -> int:
            data = tail.stdout.read()  # type: ignore[union-attr]
            lines.extend((data or b"").splitlines())
            return len(lines)

        assert wait_until(lambda: read_on() == 10, 5)
        for _ in range(5):
            writer.append()
            assert wait_until(lambda: read_on() == writer.next_offset, 5)
        tail.kill()
    assert [b'"offset":%d,' % n in line for n, line in enumerate(lines)] == [True] * 15


def test_a_half_written_batch_is_not_shown_until_it_is_whole(mount: Mount, writer: Writer) -> None:
    path = mount(writer.folder.parent).path / "orders-0/records/00000000000000000000.jsonl"
    assert path.read_bytes().count(b"\n") == 10
    data = writer.batch(1)
    with writer.file.open("ab", buffering=0) as file:
        file.write(data[:40])
        time.sleep(1.2)
        text = path.read_bytes()
        file.write(data[40:])
    assert text.count(b'"offset":') == 10
    assert wait_until(lambda: path.read_bytes().count(b'"offset":') == 11, 3)
    assert b'"error"' not in path.read_bytes()


def test_a_roll_and_a_deletion_show_up_and_open_files_stay_readable(
    mount: Mount, writer: Writer
) -> None:
    partition = mount(writer.folder.parent).path / "orders-0"
    old = partition / "segments" / "00000000000000000000.log"
    expected = writer.file.read_bytes()
    with old.open("rb") as opened:
        first = writer.file
        writer.roll(5)
        new = partition / "records" / "00000000000000000010.jsonl"
        assert wait_until(new.exists, 3)
        assert new.read_bytes().count(b"\n") == 5
        for name in (".log", ".index", ".timeindex"):
            first.with_suffix(name).unlink()
        assert wait_until(lambda: not old.exists(), 3)
        assert opened.read() == expected
    assert wait_until(lambda: not (partition / "offset" / "3").exists(), 3)


@pytest.mark.parametrize("kept", [40, 400])
def test_who_has_a_segment_open_that_compaction_replaces_reads_it_to_its_end(
    kept: int, mount: Mount, writer: Writer
) -> None:
    first = writer.file
    old = b"".join(writer.batch(10) for _ in range(100))
    first.write_bytes(old)
    writer.roll()
    new = b"".join(batch([Rec(b"kept")], base_offset=n) for n in range(kept))
    folder = mount(writer.folder.parent).path / "orders-0" / "segments"
    path = folder / first.name
    with path.open("rb", buffering=0) as opened:
        read = opened.read(100)
        cleaned = first.with_suffix(".log.cleaned")
        cleaned.write_bytes(new)
        swap = cleaned.rename(first.with_suffix(".log.swap"))
        swap.rename(first)
        time.sleep(1.2)  # the kernel keeps attributes for a second
        assert path.stat().st_size >= len(old)
        read += opened.read(1000)
        assert wait_until(lambda: path.read_bytes() == new, 3)
        assert path.stat().st_size == len(new)
        assert os.fstat(opened.fileno()).st_size == len(old)
        read += b"".join(iter(lambda: opened.read(5000), b""))
    assert read == old
    assert path.read_bytes() == new


def test_a_new_partition_shows_up(mount: Mount, writer: Writer) -> None:
    root = mount(writer.folder.parent).path
    assert not (root / "orders-1").exists()
    write_segment(writer.folder.with_name("orders-1"), [batch([Rec(b"x")])])
    assert wait_until(lambda: (root / "orders-1" / "offset" / "0").exists(), 3)


def test_a_snapshot_stays_as_it_was(mount: Mount, writer: Writer) -> None:
    root = mount(writer.folder.parent, "snapshot").path
    writer.append(3)
    writer.roll(2)
    time.sleep(1.5)
    assert os.listdir(root / "orders-0" / "records") == ["00000000000000000000.jsonl"]
    text = (root / "orders-0/records/00000000000000000000.jsonl").read_bytes()
    assert text.count(b"\n") == 10
    assert not (root / "orders-0" / "offset" / "12").exists()


# -- starts that fail


@pytest.mark.parametrize("what", ["missing", "empty", "text"])
def test_a_source_that_is_none_is_one_line_and_nothing_is_mounted(
    tmp_path: Path, what: str
) -> None:
    (tmp_path / "mnt").mkdir()
    source = tmp_path / "source"
    if what != "missing":
        source.mkdir()
    if what == "text":
        (source / "notes.txt").write_text("not a log dir")
    command = [sys.executable, "-m", "kafkafs", "mount", str(source), str(tmp_path / "mnt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (2, 3)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("kafkafs: ")
    assert not os.path.ismount(tmp_path / "mnt")


def test_damage_that_arises_while_it_is_mounted_is_in_the_daemons_log_once_for_each_place(
    mount: Mount, tmp_path: Path
) -> None:
    """The partitions are damaged from the last to the first, as they are listed."""
    source = copy_of("sample", tmp_path / "source")
    mounted = mount(source)
    for partition in ("txn-0", "orders-1", "orders-0"):
        records = min((source / partition).glob("*.log"))
        with records.open("r+b") as file:
            file.seek(100)
            file.write(b"????")
        for _ in range(2):
            (mounted.path / partition / "records" / f"{records.stem}.jsonl").read_bytes()
        place = f"crc_mismatch: {partition}/{records.name} at byte 0: "
        assert wait_until(lambda place=place: place in mounted.log_text()), mounted.log_text()
    assert mounted.log_text().count("crc_mismatch: ") == 3
