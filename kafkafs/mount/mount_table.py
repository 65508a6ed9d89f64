"""Reads the kernel's table of mounts, without accessing any mount.

Format: /proc/self/mountinfo, proc_pid_mountinfo(5). One line per mount, later ones are on top of earlier ones:

    36 35 0:42 / /mnt/kafka ro,nosuid - fuse.kafkafs kafkafs:/var/lib/kafka/data ro,user_id=0
    id parent device root mountpoint options [tags] - type source options
"""

from __future__ import annotations

import errno
import os
import re
from typing import NamedTuple

from kafkafs.mount.child_process import ask_in_child

MOUNTINFO = "/proc/self/mountinfo"
_OCTAL = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """A line of the table; `device` is "major:minor"."""

    mountpoint: str
    device: str
    kind: str
    source: str
    options: str

    @property
    def is_ours(self) -> bool:
        """Whether it is a mount of kafkafs."""
        return self.kind == "fuse.kafkafs"


def _unescape(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field))


def parse_mounts(text: bytes) -> list[Mount]:
    """Parse a mountinfo file, in its order; skip lines that do not parse."""
    mounts = []
    for line in text.splitlines():
        left, separator, right = line.partition(b" - ")
        before, after = left.split(b" "), right.split(b" ")
        if not separator or len(before) < 6 or len(after) < 3:
            continue
        mounts.append(
            Mount(
                mountpoint=_unescape(before[4]),
                device=os.fsdecode(before[2]),
                kind=_unescape(after[0]),
                source=_unescape(after[1]),
                options=os.fsdecode(before[5] + b"," + after[2]),
            )
        )
    return mounts


def read_mounts() -> list[Mount]:
    """Return the mounts that this process sees."""
    with open(MOUNTINFO, "rb") as file:
        return parse_mounts(file.read())


def mount_at(mountpoint: str) -> Mount | None:
    """Return the topmost mount at an absolute path without links, or None."""
    found = [mount for mount in read_mounts() if mount.mountpoint == mountpoint]
    return found[-1] if found else None


def real_mountpoint(mountpoint: str) -> str:
    """Return the absolute path without links, resolved without accessing the mountpoint itself.

    A dead mount answers with errors, and a hung one never.
    """
    if re.fullmatch(r"/dev/fd/[0-9]+", mountpoint):
        return mountpoint
    path = os.path.abspath(mountpoint)
    table = {mount.mountpoint for mount in read_mounts()}
    if path in table:
        return path
    parent, name = os.path.split(path)
    path = os.path.join(os.path.realpath(parent), name)
    return path if path in table else os.path.realpath(path)


def is_dead(mountpoint: str) -> bool:
    """Return whether the mount is dead: its daemon has ended. Raises TimeoutError if the mount hangs."""

    def question() -> bytes:
        os.statvfs(mountpoint)
        return b""

    try:
        ask_in_child(question)
    except TimeoutError:
        raise
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    return False
