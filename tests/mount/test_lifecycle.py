"""Starts and ends of the daemon: signals, unmounts, crashes, dead mounts, failures in the background."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkafs.mount.mount_table import is_dead, mount_at
from kafkafs.mount.mounting import MountError
from kafkafs.mount.umount import daemon_pid, umount
from tests.mount.mounted import SERVE, Mounted, is_running, make_folder, needs_fuse, wait_until

pytestmark = [pytest.mark.mount, needs_fuse]

Start = Callable[..., Mounted]


def run_in_background(
    folder: Path, *options: str, mountpoint: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Start a daemon the usual way; `source` and `mnt` are made in the folder."""
    for name in ("source", "mnt"):
        make_folder(folder / name)
    command = [sys.executable, SERVE, folder / "source", mountpoint or folder / "mnt", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose mnt is unmounted at the end, its daemon ended."""
    yield tmp_path
    path = str(tmp_path / "mnt")
    while mount_at(path) is not None:
        pid = daemon_pid(path)
        subprocess.run(["umount", "-l", path], check=False)
        if pid:
            wait_until(lambda pid=pid: not is_running(pid), 5)


# -- ends


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_unmounts_and_ends_with_0(start: Start, number: signal.Signals) -> None:
    mounted = start()
    mounted.process.send_signal(number)
    assert mounted.ended() == 0
    assert not mounted.is_mounted()


def test_a_signal_ends_it_even_with_users_inside(start: Start) -> None:
    mounted = start()
    fd = os.open(mounted.path / "big", os.O_RDONLY)
    mounted.process.send_signal(signal.SIGTERM)
    assert mounted.ended() == 0
    assert not mounted.is_mounted()
    with pytest.raises(OSError, match="not connected"):
        os.close(fd)


def test_a_signal_ends_it_under_load(start: Start) -> None:
    mounted = start()
    clients = [
        subprocess.Popen(["sh", "-c", f"while cat {mounted.path}/numbers/{n}; do :; done"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for n in range(3)
    ]  # fmt: skip
    time.sleep(0.5)
    mounted.process.send_signal(signal.SIGTERM)
    assert mounted.ended() == 0
    for client in clients:
        client.wait(10)
    assert not mounted.is_mounted()


def test_a_signal_does_not_wait_for_a_long_open(start: Start) -> None:
    mounted = start()
    with subprocess.Popen(["cat", mounted.path / "slow"], stderr=subprocess.DEVNULL) as reader:
        time.sleep(0.3)
        began = time.monotonic()
        mounted.process.send_signal(signal.SIGTERM)
        assert mounted.ended() == 0
        assert time.monotonic() - began < 5
        assert reader.wait(10) != 0


def test_sigint_ends_it_even_where_the_shell_had_it_ignored(tmp_path: Path) -> None:
    # `command &` in a script starts with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        mounted = Mounted(tmp_path)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        mounted.process.send_signal(signal.SIGINT)
        assert mounted.ended() == 0
    finally:
        mounted.stop()


@pytest.mark.parametrize("command", [["umount"], ["fusermount3", "-u"], ["umount", "-l"]])
def test_an_unmount_from_outside_ends_it_with_0(start: Start, command: list[str]) -> None:
    mounted = start()
    (mounted.path / "small").read_bytes()
    subprocess.run([*command, mounted.path], check=True)
    assert mounted.ended() == 0


def test_the_stock_loop_ends_as_well(start: Start) -> None:
    for end in ("signal", "umount"):
        mounted = start("loop=stock", name=end)
        (mounted.path / "small").read_bytes()
        if end == "signal":
            mounted.process.send_signal(signal.SIGTERM)
        else:
            subprocess.run(["umount", mounted.path], check=True)
        assert mounted.ended() == 0


def test_the_loops_give_the_same_answers(start: Start) -> None:
    def walk(root: Path) -> list[object]:
        found: list[object] = []
        for name in (".", "guessed", "few", "grower"):
            for path in sorted((root / name).iterdir()):
                if path.name in (".kafkafs", "slow", "sleepy"):
                    continue
                status = path.lstat()
                found.append((path.name, status.st_mode, status.st_size, status.st_ino))
                if path.is_file():
                    found.append(hashlib.sha256(path.read_bytes()).digest())
        return found

    fast, stock = start(name="fast"), start("loop=stock", name="stock")
    assert json.loads((fast.path / ".kafkafs/status").read_text())["loop"] == "fast"
    assert json.loads((stock.path / ".kafkafs/status").read_text())["loop"] == "stock"
    assert walk(fast.path) == walk(stock.path)


# -- an ordinary user

NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="these tests run as an ordinary user already")
@pytest.mark.skipif(
    not os.stat("/dev/fuse").st_mode & 0o002 if os.path.exists("/dev/fuse") else True,
    reason="/dev/fuse is for root alone on this machine",
)
def test_an_ordinary_user_mounts_reads_and_unmounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUN_AS_USER", str(NOBODY))
    folder = Path(tempfile.mkdtemp(prefix="kafkafs-user-"))  # pytest's own are for root alone
    try:
        folder.chmod(0o755)
        for name in ("source", "mnt"):
            (folder / name).mkdir()
            os.chown(folder / name, NOBODY, NOBODY)
        mounted = Mounted(folder)
        try:
            done = subprocess.run(
                ["cat", mounted.path / "small"],
                capture_output=True, check=False, user=NOBODY, group=NOBODY, extra_groups=[],
            )  # fmt: skip
            assert (done.stdout, done.stderr) == (b"hello\n", b""), mounted.log_text()
            with pytest.raises(PermissionError):
                os.listdir(mounted.path)  # not even root, without allow_other
            mounted.process.send_signal(signal.SIGTERM)
            assert mounted.ended() == 0
            assert not mounted.is_mounted()
        finally:
            mounted.stop()
    finally:
        shutil.rmtree(folder)


# -- interrupted callers


@pytest.mark.parametrize("loop", ["fast", "stock"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_reader_killed_in_a_long_open_dies_at_once(
    start: Start, number: signal.Signals, loop: str
) -> None:
    mounted = start(f"loop={loop}")
    # Who runs the tests in the background may have SIGINT ignored, and children inherit that.
    reader = subprocess.Popen(
        ["cat", mounted.path / "slow"],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(0.4)
    began = time.monotonic()
    reader.send_signal(number)
    assert reader.wait(10) == -number
    assert time.monotonic() - began < 0.5
    assert (mounted.path / "small").read_bytes() == b"hello\n"
    assert wait_until(lambda: '"busyThreads": 0' in (mounted.path / ".kafkafs/status").read_text())


def test_clients_killed_at_any_moment_do_no_harm(start: Start) -> None:
    mounted = start()
    script = f"import os\nwhile 1:\n for n in os.listdir('{mounted.path}/few'):\n  open('{mounted.path}/few/'+n).read()"
    for round_ in range(25):
        client = subprocess.Popen([sys.executable, "-S", "-c", script])
        time.sleep(0.05 + round_ * 0.004)
        client.kill()
        client.wait(10)
        assert (mounted.path / "few" / str(round_)).read_bytes() == str(round_).encode() * 20
    assert mounted.process.poll() is None


def test_many_long_opens_leave_room_for_others(start: Start) -> None:
    mounted = start()
    readers = [subprocess.Popen(["cat", mounted.path / "slow"]) for _ in range(30)]
    time.sleep(0.5)
    began = time.monotonic()
    assert (mounted.path / "guessed" / "00.jsonl").stat().st_size
    assert (mounted.path / "numbers" / "7").read_bytes() == b"7" * 20
    assert time.monotonic() - began < 1
    for reader in readers:
        reader.kill()
    for reader in readers:
        reader.wait(10)


# -- the daemon's own affairs


def test_sighup_looks_at_the_source_again(start: Start) -> None:
    mounted = start()
    assert not (mounted.path / "rescanned").exists()
    mounted.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: (mounted.path / "rescanned").exists(), 5)


def test_sigusr1_writes_stacks_and_goes_on(start: Start) -> None:
    mounted = start()
    mounted.process.send_signal(signal.SIGUSR1)
    assert wait_until(lambda: "most recent call first" in mounted.log_text(), 5)
    assert (mounted.path / "small").read_bytes() == b"hello\n"


WITH_SHORT_THREADS = """
import sys, threading
from kafkafs.mount.daemon import print_stacks_on_sigusr1

def recurse(depth):
    return depth and recurse(depth - 1)

sys.setswitchinterval(0.0005)
print_stacks_on_sigusr1(open("/dev/null", "wb", buffering=0))
print("ready", flush=True)
for _ in range(2_000):
    thread = threading.Thread(target=recurse, args=[30])
    thread.start()
    thread.join()
"""


def test_stacks_can_be_written_while_threads_start_and_end() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WITH_SHORT_THREADS], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        while process.poll() is None:
            process.send_signal(signal.SIGUSR1)
    assert process.returncode == 0


def test_read_ahead_is_raised_where_that_is_allowed(start: Start) -> None:
    mounted = start()
    mount = mount_at(str(mounted.path))
    assert mount is not None
    setting = Path(f"/sys/class/bdi/{mount.device}/read_ahead_kb")
    if not os.access(setting, os.W_OK):
        pytest.skip(f"{setting} may not be written")
    assert setting.read_text() == "1024\n"


def test_the_mount_is_as_safe_as_a_mount_can_be(start: Start) -> None:
    mounted = start()
    mount = mount_at(str(mounted.path))
    assert mount is not None
    assert mount.kind == "fuse.kafkafs"
    assert mount.source == f"kafkafs:{mounted.source}"
    options = mount.options.split(",")
    for wanted in ("ro", "nosuid", "nodev", "noexec", "noatime", "default_permissions"):
        assert wanted in options
    assert "allow_other" not in options


def test_service_managers_are_told_when_it_is_ready_and_when_it_stops(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        mounted = start()
        assert b"READY=1" in manager.recv(4096)
        mounted.process.send_signal(signal.SIGTERM)
        assert b"STOPPING=1" in manager.recv(4096)


# -- crashes and dead mounts


def test_after_a_crash_the_mount_is_dead_and_stays(start: Start) -> None:
    mounted = start()
    mounted.process.kill()
    mounted.process.wait()
    assert mounted.is_mounted()
    assert is_dead(str(mounted.path))
    with pytest.raises(OSError) as caught:  # noqa: PT011
        os.listdir(mounted.path)
    assert caught.value.errno == errno.ENOTCONN


def test_rsync_delete_from_a_dead_mount_deletes_nothing(start: Start, tmp_path: Path) -> None:
    mounted = start()
    mounted.process.kill()
    mounted.process.wait()
    backup = tmp_path / "backup"
    backup.mkdir()
    (backup / "kept").write_bytes(b"precious")
    command = ["rsync", "-a", "--delete", f"{mounted.path}/", f"{backup}/"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode != 0
    assert (backup / "kept").read_bytes() == b"precious"


def test_a_dead_mount_is_named_with_the_way_to_replace_it(start: Start) -> None:
    mounted = start()
    mounted.process.kill()
    mounted.process.wait()
    done = run_in_background(mounted.folder)
    assert done.returncode == 3
    assert "has died" in done.stderr
    assert "--replace-dead" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_replace_dead_replaces_it_without_stacking(start: Start) -> None:
    first = start()
    first.process.kill()
    first.process.wait()
    second = start("replace_dead")
    assert (second.path / "small").read_bytes() == b"hello\n"
    second.process.send_signal(signal.SIGTERM)
    assert second.ended() == 0
    assert not second.is_mounted()


def test_auto_unmount_unmounts_after_a_crash(start: Start) -> None:
    mounted = start("auto_unmount")
    mounted.process.kill()
    mounted.process.wait()
    assert wait_until(lambda: not mounted.is_mounted(), 120)


def test_a_second_daemon_on_a_live_mount_is_refused(start: Start) -> None:
    mounted = start()
    done = run_in_background(mounted.folder)
    assert done.returncode == 3
    assert "already" in done.stderr
    assert (mounted.path / "small").read_bytes() == b"hello\n"


# -- the background


def test_in_the_background_it_returns_when_the_tree_answers(folder: Path) -> None:
    done = run_in_background(folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "mnt" / "small").read_bytes() == b"hello\n"
    pid = int((folder / "mnt" / ".kafkafs" / "pid").read_text())
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) != os.getsid(0)
    assert {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in range(3)} == {"/dev/null"}


def test_the_daemon_keeps_no_descriptor_of_its_caller(folder: Path) -> None:
    for name in ("source", "mnt"):
        (folder / name).mkdir()
    with (folder / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        command = [sys.executable, SERVE, folder / "source", folder / "mnt"]
        subprocess.run(command, check=True, close_fds=False, timeout=60)
    pid = int((folder / "mnt" / ".kafkafs" / "pid").read_text())
    open_files = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    assert str(folder / "lock") not in open_files


def test_a_start_that_fails_in_the_background_says_why(folder: Path) -> None:
    done = run_in_background(folder, "values=hex")  # makes the fake tree fail
    assert done.returncode == 1
    assert "ZeroDivisionError: a start that fails" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert mount_at(str(folder / "mnt")) is None


def test_a_mount_that_libfuse_refuses_is_reported_from_the_background(folder: Path) -> None:
    done = run_in_background(folder, f"log_file={folder}/no/such/folder/log")
    assert done.returncode == 3
    assert "log file" in done.stderr
    assert mount_at(str(folder / "mnt")) is None


@pytest.mark.parametrize(
    ("place", "status", "message"),
    [
        ("missing", 3, "mkdir -p"),
        ("source/file", 2, "not a folder"),
        ("full", 3, "not empty"),
        ("source", 2, "is the source itself"),
        ("source/inside", 2, "inside the source"),
        (".", 3, "not empty"),
    ],
)
def test_fault_097_a_bad_mountpoint_is_one_line_and_nothing_is_mounted(
    folder: Path, place: str, status: int, message: str
) -> None:
    (folder / "source" / "inside").mkdir(parents=True)
    (folder / "source" / "file").write_bytes(b"")
    (folder / "full" / "something").mkdir(parents=True)
    options = ["allow_non_empty"] if place == "source" else []
    done = run_in_background(folder, *options, mountpoint=folder / place)
    assert message in done.stderr
    assert (done.returncode, len(done.stderr.splitlines())) == (status, 1)
    assert mount_at(os.path.realpath(folder / place)) is None


def test_fault_097_a_mountpoint_above_the_source_is_refused(folder: Path) -> None:
    done = run_in_background(folder, "allow_non_empty", mountpoint=folder)
    assert done.returncode == 2
    assert "above the source" in done.stderr


def test_fault_097_a_link_into_the_source_is_seen_through(folder: Path) -> None:
    (folder / "source" / "inside").mkdir(parents=True)
    (folder / "link").symlink_to(folder / "source" / "inside")
    done = run_in_background(folder, mountpoint=folder / "link")
    assert done.returncode == 2
    assert "inside the source" in done.stderr


# -- umount


def test_umount_returns_when_the_daemon_is_gone(folder: Path) -> None:
    run_in_background(folder)
    pid = daemon_pid(str(folder / "mnt"))
    assert pid > 0
    assert umount(str(folder / "mnt")) == 0
    assert not is_running(pid)
    assert mount_at(str(folder / "mnt")) is None


def test_umount_of_a_busy_mount_names_who_uses_it_and_lazy_helps(folder: Path) -> None:
    run_in_background(folder)
    user = subprocess.Popen(["sleep", "60"], cwd=folder / "mnt" / "few")
    try:
        with pytest.raises(MountError, match=rf"in use by .*\({user.pid}\).*--lazy"):
            umount(str(folder / "mnt"))
        assert (folder / "mnt" / "small").read_bytes() == b"hello\n"
        assert umount(str(folder / "mnt"), lazy=True) == 0
        assert mount_at(str(folder / "mnt")) is None
    finally:
        user.kill()
        user.wait()


def test_umount_of_what_is_not_mounted_says_so(tmp_path: Path) -> None:
    with pytest.raises(MountError, match="not mounted"):
        umount(str(tmp_path))


def test_umount_of_anothers_mount_is_refused() -> None:
    with pytest.raises(MountError, match="not of kafkafs"):
        umount("/proc")


def test_umount_of_a_dead_mount_removes_it(start: Start) -> None:
    mounted = start()
    mounted.process.kill()
    mounted.process.wait()
    assert umount(str(mounted.path)) == 0
    assert not mounted.is_mounted()


def test_umount_of_a_hung_daemon_does_not_hang(start: Start) -> None:
    mounted = start()
    mounted.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert umount(str(mounted.path), lazy=True, timeout=1) == 0
    assert time.monotonic() - began < 10
    mounted.process.send_signal(signal.SIGCONT)
    assert mounted.ended() == 0
