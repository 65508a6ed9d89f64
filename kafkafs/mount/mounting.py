"""Options of a mount, and the checks before mounting.

The checks come before anything expensive, and their errors say what to do. A mount inside, equal to or above its
source would make the daemon wait for itself, or hide the source; a second mount on a dead one would only be stacked
on it. After a crash the dead mount stays on purpose: with an empty folder in its place `rsync --delete` would erase a
backup, whereas every program stops at «Transport endpoint is not connected».
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NoReturn

from engine.budgets import Budgets
from kafkafs.amounts import parsed_size
from kafkafs.mount.mount_table import Mount, is_dead, mount_at, real_mountpoint

LOOPS = ("fast", "stock")
VALUE_MODES = ("auto", "text", "json", "base64", "hex", "none")
FUSE_CONF = "/etc/fuse.conf"


class MountError(Exception):
    """A mount or unmount that is not possible; the sentence has the reason and what to do.

    `usage` marks wrong arguments of the command.
    """

    def __init__(self, reason: str, *, usage: bool = False) -> None:
        super().__init__(reason)
        self.usage = usage


def default_workers() -> int:
    """Return the number of worker threads; at least two, so that one slow disk does not block all reads."""
    return max(2, min(8, len(os.sched_getaffinity(0))))


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOptions:
    """Options of a mount. The names are those of `-o`, with `-` or `_`."""

    allow_other: bool = False
    """Admit other users, within the modes of the source files."""
    allow_root: bool = False
    auto_unmount: bool = False
    """Unmount even when the daemon crashes."""
    foreground: bool = False
    snapshot: bool = False
    """Show the source as of the time of mounting."""
    dry_run: bool = False
    """Check everything but do not mount: `mount -f`."""
    replace_dead: bool = False
    """Unmount a dead kafkafs mount on the mountpoint first."""
    allow_non_empty: bool = False
    cross_device: bool = False
    """Follow partition folders onto other file systems."""
    loop: str = "fast"
    values: str = "auto"
    schemas: str = "auto"
    """Schemas of keys and values: auto, none, or paths, with a colon between."""
    mask: str | None = None
    """Policy of what is shown of records."""
    at: str | None = None
    """The moment that is shown: a time, orders-0@500, before-delete:orders or after-transaction:ID; None for now."""
    workers: int = field(default_factory=default_workers)
    """Threads for slow work: twice as many for reads, four times as many for opens."""
    max_tasks: int = 64
    """Maximum number of requests waiting at one time."""
    max_inodes: int = 20_000
    """Number of inodes in the kernel above which it is asked to forget some."""
    attr_timeout: float | None = None
    """Seconds that the kernel caches attributes and names; None for the tree's values."""
    read_ahead_kb: int = 1024
    read_timeout: float = 30.0
    """Seconds after which a read without data fails."""
    plus_entries: int = 512
    """Number of entries of a folder that are listed with attributes; the others are names only."""
    log_file: str | None = None
    debug: bool = False
    quiet: bool = False
    """Print only warnings and errors of the log on the terminal."""
    budgets: Budgets = field(default_factory=Budgets)


_ALIASES = {
    "fg": "foreground",
    "fake": "dry_run",
    "nonempty": "allow_non_empty",
    "replace_dead_mount": "replace_dead",
}
_NEGATIVE = {"rw": "kafkafs mounts are read-only: -o rw is not possible"}
_IGNORED = """
    ro nosuid suid nodev dev noexec exec noatime atime relatime norelatime strictatime diratime
    nodiratime lazytime nolazytime sync async dirsync defaults default_permissions auto noauto user
    nouser users group owner nofail fail _netdev iversion noiversion mand nomand silent loud remount
    fsname subtype comment max_read
"""
IGNORED_OPTIONS = frozenset(_IGNORED.split())
"""Options of mount(8), fstab and libfuse that have no meaning here, are always on, or would break the mount."""


def parse_options(text: str | Iterable[str], base: MountOptions | None = None) -> MountOptions:
    """Parse one or more `-o` arguments, on top of `base`.

    `key` sets a switch, `nokey` or `key=false` clears it, `key=value` sets a value; a comma inside a value is written
    `\\,`. Budgets have their own names (`cached_bytes=64M`).

    Raises MountError for an unknown key or an invalid value.
    """
    options = base or MountOptions()
    known = {item.name for item in fields(MountOptions)} - {"budgets"}
    budgets = {item.name for item in fields(Budgets)}
    for argument in [text] if isinstance(text, str) else text:
        for item in split_options(argument):
            key, equals, value = item.partition("=")
            key = key.strip().replace("-", "_")
            key = _ALIASES.get(key, key)
            if key in _NEGATIVE:
                raise MountError(_NEGATIVE[key], usage=True)
            if key in IGNORED_OPTIONS or key.startswith(("x_", "X_")):
                continue
            if key in budgets:
                changed = replace(options.budgets, **{key: parse_size(key, value)})
                options = replace(options, budgets=changed)
            elif key in known:
                options = replace(options, **{key: _value(key, value if equals else None)})
            elif key.removeprefix("no") in known and key.startswith("no") and not equals:
                options = replace(options, **{key.removeprefix("no"): _value(key[2:], "false")})
            else:
                raise MountError(f"unknown mount option {key!r}", usage=True)
    return options


def split_options(argument: str) -> list[str]:
    """Return the items of an `-o` argument; a comma inside an item is written `\\,`."""
    hidden = argument.replace("\\,", "\0")
    return [item.replace("\0", ",") for item in hidden.split(",") if item.strip()]


def _value(key: str, text: str | None) -> Any:  # noqa: ANN401
    """Parse an option's value by its type."""
    default = getattr(MountOptions(), key)
    if isinstance(default, bool):
        if text is None or text.lower() in ("1", "true", "yes", "on"):
            return True
        if text.lower() in ("0", "false", "no", "off"):
            return False
        _refuse(key, text)
    if text is None:
        raise MountError(f"mount option {key} needs a value: {key}=…", usage=True)
    choices = {"loop": LOOPS, "values": VALUE_MODES}.get(key)
    if choices is not None and text not in choices:
        raise MountError(f"mount option {key} is one of {', '.join(choices)}", usage=True)
    if isinstance(default, int):
        return parse_size(key, text)
    if isinstance(default, float) or key == "attr_timeout":
        try:
            seconds = float(text)
        except ValueError:
            _refuse(key, text)
        if not 0 <= seconds < 1e9:
            _refuse(key, text)
        return seconds
    return text


def parse_size(key: str, text: str) -> int:
    """Parse a positive whole number, with K, M or G for powers of 1024."""
    size = parsed_size(text)
    return _refuse(key, text) if size is None else size


def _refuse(key: str, text: str) -> NoReturn:
    raise MountError(f"mount option {key} cannot be {text!r}", usage=True)


# -- before mounting -----------------------------------------------------------------------------------


def check_mask(options: MountOptions) -> None:
    """Check that the policy of a mask can be used.

    Raises:
        MountError: it cannot, or other options contradict it.
    """
    if options.mask is None:
        return
    from kafkafs.masking.policy import MaskPolicy, MaskPolicyError

    if options.values != "auto":
        raise MountError("mask needs the usual record lines: leave out values", usage=True)
    try:
        MaskPolicy(options.mask)
    except MaskPolicyError as error:
        raise MountError(str(error), usage=True) from None


def check_machine(options: MountOptions) -> None:
    """Raise MountError if this machine or user cannot mount, with the command that helps."""
    if importlib.util.find_spec("pyfuse3") is None:
        raise MountError(
            f"mounting needs the Python package pyfuse3, which pip compiles: apt install {_headers()}"
            " libfuse3-dev pkg-config gcc && pip install 'kafkafs[fuse]' (ls, cat, cp and grep work without)"
        )
    if not os.path.exists("/dev/fuse"):
        raise MountError(
            "/dev/fuse is missing: modprobe fuse (in a container: run it with --device /dev/fuse "
            "--cap-add SYS_ADMIN; ls, cat, cp and grep work without)"
        )
    as_root = os.geteuid() == 0
    if shutil.which("fusermount3") is None and (not as_root or options.auto_unmount):
        raise MountError("fusermount3 is missing: apt install fuse3")
    if not as_root and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise MountError("this user may not open /dev/fuse: chmod 666 /dev/fuse, as root")
    if not as_root and (options.allow_other or options.allow_root) and not _other_users_allowed():
        raise MountError(f"allow_other needs root, or a line «user_allow_other» in {FUSE_CONF}")


def _headers() -> str:
    """Return the package with the headers of this Python, as Debian and Ubuntu call it."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}-dev"


def _other_users_allowed() -> bool:
    try:
        with open(FUSE_CONF, encoding="utf-8", errors="replace") as file:
            return any(line.strip() == "user_allow_other" for line in file)
    except OSError:
        return False


def check_mountpoint(mountpoint: str, sources: Sequence[str], options: MountOptions) -> str:
    """Check the mountpoint, and return its absolute path without links.

    A dead kafkafs mount on it is unmounted if options.replace_dead.

    Raises:
        MountError: with a way out.
    """
    if mountpoint.startswith("/dev/fd/"):
        return mountpoint  # opened and checked by mount(8), which dropped our privileges
    path = real_mountpoint(mountpoint)
    present = mount_at(path)
    if present is not None:
        _clear(path, present, options)
    try:
        entries = os.scandir(path)
    except FileNotFoundError:
        raise MountError(f"mountpoint {path} does not exist: mkdir -p {path}") from None
    except NotADirectoryError:
        raise MountError(f"mountpoint {path} is not a folder", usage=True) from None
    except OSError as error:
        raise MountError(f"mountpoint {path}: {error.strerror}") from None
    with entries:
        if not options.allow_non_empty and next(entries, None) is not None:
            raise MountError(
                f"mountpoint {path} is not empty: choose an empty folder, or --allow-non-empty"
            )
    if os.geteuid() != 0 and not os.access(path, os.W_OK):
        raise MountError(f"mountpoint {path} must be writable by this user, for fusermount3")
    for source in sources:
        _check_apart(path, source)
    return path


def _clear(path: str, present: Mount, options: MountOptions) -> None:
    """Check an existing mount: only a dead kafkafs mount may be replaced."""
    try:
        dead = is_dead(path)
    except TimeoutError:
        raise MountError(
            f"{path}: the {present.kind} mount there does not answer; kafkafs umount --lazy {path}"
        ) from None
    if not dead:
        if present.is_ours:
            raise MountError(
                f"{path} is already a kafkafs mount ({present.source}); to end it: kafkafs umount {path}"
            )
        if present.kind.startswith("fuse"):
            raise MountError(f"{path} is already a mount of {present.kind} ({present.source})")
        return  # the root of an ordinary file system is a folder like any other
    if not present.is_ours:
        raise MountError(f"{path} is a dead mount of {present.kind}: fusermount3 -uz {path}")
    if not options.replace_dead:
        raise MountError(
            f"{path} is the mount of a kafkafs daemon that has died ({present.source}); to replace it: "
            f"kafkafs mount --replace-dead … (or first fusermount3 -uz {path})"
        )
    detach(path)
    if (below := mount_at(path)) is not None:
        _clear(path, below, options)


def detach(path: str) -> None:
    """Unmount lazily, as root or with fusermount3. Raises MountError."""
    command = ["umount", "-l", path] if os.geteuid() == 0 else ["fusermount3", "-uz", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MountError(f"{' '.join(command)}: {done.stderr.strip()}")


def _check_apart(mountpoint: str, source: str) -> None:
    """Raise MountError if the mountpoint is inside, equal to or above the source.

    Compares device and inode of all parent folders, so that links and bind mounts are recognised.
    """
    folder = os.path.realpath(source)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    source_ids, mount_ids = _ids_upwards(folder), _ids_upwards(mountpoint)
    if not source_ids or not mount_ids:
        return  # a missing source is reported when it is opened
    if source_ids[0] == mount_ids[0]:
        raise MountError(
            f"mountpoint {mountpoint} is the source itself: choose another", usage=True
        )
    if source_ids[0] in mount_ids:
        raise MountError(
            f"mountpoint {mountpoint} is inside the source {source}: choose one outside", usage=True
        )
    if mount_ids[0] in source_ids:
        raise MountError(
            f"mountpoint {mountpoint} is above the source {source} and would hide it: choose another",
            usage=True,
        )


def _ids_upwards(path: str) -> list[tuple[int, int]]:
    """Return (device, inode) of a folder and of all its parents."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            status = os.stat(path)
        except OSError:
            return found
        found.append((status.st_dev, status.st_ino))
        parent = os.path.dirname(path)
        if parent == path:
            return found
        path = parent


# -- the mount itself ----------------------------------------------------------------------------------

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@")


def shown_source(paths: Sequence[str]) -> str:
    """Return the source for the table of mounts; pyfuse3 takes ASCII only, and commas end an option."""
    text = os.fsencode("+".join(paths))
    return "kafkafs:" + "".join(
        chr(code) if chr(code) in _PLAIN else f"%{code:02X}" for code in text
    )


def fuse_options(paths: Sequence[str], options: MountOptions) -> set[str]:
    """Return the options for libfuse. Never max_read: with it libfuse 3.14 ends without serving a request."""
    chosen = {"ro", "nosuid", "nodev", "noexec", "noatime", "default_permissions"}
    chosen |= {f"fsname={shown_source(paths)}", "subtype=kafkafs"}
    for name in ("allow_other", "allow_root", "auto_unmount"):
        if getattr(options, name):
            chosen.add(name)
    return chosen
