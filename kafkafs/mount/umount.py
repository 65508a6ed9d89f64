"""Unmounting, including the daemon's end: then no file of the source is open any more."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_CANNOT_READ
from kafkafs.mount.child_process import ask_in_child
from kafkafs.mount.mount_table import Mount, mount_at, real_mountpoint
from kafkafs.mount.mounting import MountError

ANSWER_SECONDS = 2.0
SHOWN_USERS = 5


def umount(
    mountpoint: str,
    *,
    lazy: bool = False,
    timeout: float = 30.0,
    note: Callable[[str], None] = lambda _: None,
) -> int:
    """Unmount, and wait up to `timeout` seconds for the daemon's end; return the exit status.

    With `lazy` the mount disappears at once, and the daemon ends when the last open file is closed; this is waited for
    only if no process uses the mount now.

    `note` gets a sentence that is no error.

    Raises MountError: not a kafkafs mount, in use, or no permission.
    """
    path = real_mountpoint(mountpoint)
    present = mount_at(path)
    if present is None:
        raise MountError(f"{path} is not mounted")
    if not present.is_ours:
        raise MountError(f"{path} is a mount of {present.kind}, not of kafkafs: umount {path}")
    pid = daemon_pid(path)
    daemon = _open_pid(pid)
    users = users_of(path) if lazy else []
    try:
        _detach(path, present, lazy=lazy)
        if daemon is None:
            _wait_until_gone(path, timeout)
            return 0
        if users:
            note(f"{path} is detached; the daemon (process {pid}) ends with its last user")
            return 0
        if not _ends_within(daemon, timeout):
            _say(f"{path} is unmounted, but its daemon (process {pid}) is still running")
            return EXIT_CANNOT_READ
    finally:
        if daemon is not None:
            os.close(daemon)
    return 0


def daemon_pid(mountpoint: str) -> int:
    """Return the daemon's process id, read from the mount; 0 if unknown."""

    def question() -> bytes:
        with open(f"{mountpoint}/.kafkafs/pid", "rb") as file:
            return file.read(32)

    try:
        answer = ask_in_child(question, ANSWER_SECONDS).strip()
    except OSError:
        return 0
    return int(answer) if answer.isdigit() else 0


def _open_pid(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None for a missing process."""
    if pid <= 0:
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _ends_within(daemon: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    return bool(poll.poll(max(seconds, 0) * 1000))


def _detach(path: str, present: Mount, *, lazy: bool) -> None:
    if os.geteuid() == 0:
        command = ["umount", "-l" if lazy else "-i", path]
    else:
        command = ["fusermount3", "-uz" if lazy else "-u", path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MountError(f"{command[0]} is missing: apt install fuse3 mount") from None
    if done.returncode == 0 or mount_at(path) != present:
        return
    reason = done.stderr.strip().splitlines()[-1:] or ["it failed"]
    if "busy" not in reason[0]:
        raise MountError(f"cannot unmount {path}: {reason[0]}")
    users = users_of(path)
    by = f" by {', '.join(users[:SHOWN_USERS])}" if users else ""
    more = f" and {len(users) - SHOWN_USERS} more" if len(users) > SHOWN_USERS else ""
    raise MountError(
        f"{path} is in use{by}{more}: leave it and close its files, or kafkafs umount --lazy {path}"
    )


def users_of(mountpoint: str) -> list[str]:
    """Return «command (pid)» of processes with an open file or folder on the mount, as far as visible.

    Reads the names of open files in /proc, so the mount is not accessed.
    """
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid() and _uses(pid, mountpoint):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                    found.append(f"{file.read().strip()} ({pid})")
            except OSError:
                continue
    return found


def _uses(pid: str, mountpoint: str) -> bool:
    links = [f"/proc/{pid}/cwd", f"/proc/{pid}/root"]
    with suppress(OSError):
        links += [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    for link in links:
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target == mountpoint or target.startswith(mountpoint + "/"):
            return True
    return False


def _wait_until_gone(path: str, seconds: float) -> None:
    """Wait for the mount to disappear; without the daemon's id nothing else can be waited for."""
    end = time.monotonic() + seconds
    while mount_at(path) is not None and time.monotonic() < end:
        time.sleep(0.02)


def _say(sentence: str) -> None:
    print(f"kafkafs: {printable(sentence)}", file=sys.stderr)  # noqa: T201
