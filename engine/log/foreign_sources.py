"""Recognize what is not Kafka's by names and first bytes: data of other systems, and images of disks."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress

from engine.errors import SourceRefusedError
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceFile, SourceRoot

MOUNT_FIRST = (
    "mount it first, read-only: mount -o ro,norecovery DEVICE /mnt (for an image: -o ro,loop,norecovery;"
    " ext4 also takes noload), then name the log dir in it"
)
_ZOOKEEPER = re.compile(r"(?:log|snapshot)\.[0-9a-f]+")
_REDPANDA = re.compile(r"[0-9]+-[0-9]+-v[0-9]\.log")
_ROCKSDB = re.compile(r"MANIFEST-[0-9]{6}|[0-9]{6}\.sst")
_TASK = re.compile(r"(?:[0-9]+_)?[0-9]+_[0-9]+")
_BOOKKEEPER = {"lastMark", "lastId"}
_IMAGES = (
    (0, b"XFSB", "an image of an XFS file system"),
    (1080, b"\x53\xef", "an image of an ext2, ext3 or ext4 file system"),
    (0x10040, b"_BHRfS_M", "an image of a Btrfs file system"),
    (0, b"QFI\xfb", "a disk image of QEMU (qcow2)"),
    (0, b"KDMV", "a disk image of VMware (vmdk)"),
    (0, b"hsqs", "an image of a SquashFS file system"),
    (512, b"EFI PART", "an image of a disk with partitions"),
    (510, b"\x55\xaa", "an image of a disk with partitions"),
)
_LOOK = 0x10048


def image_in(file: SourceFile) -> str | None:
    """Return what a file is an image of; None for another file. Raises OSError."""
    head = file.read_at(0, _LOOK)
    for position, magic, name in _IMAGES:
        if head[position : position + len(magic)] == magic:
            return name
    return None


def owner_of(root: SourceRoot, entries: Sequence[SourceEntry]) -> str | None:
    """Return whose data a folder holds, by its names and those in the folders in it; None if that is not known."""
    files = {name for name, kind in entries if kind is EntryKind.FILE}
    folders = {name for name, kind in entries if kind is EntryKind.DIRECTORY}
    if "version-2" in folders and _any(_ZOOKEEPER, _files_in(root, "version-2")):
        return "data of ZooKeeper, whose version-2 is no topic"
    if _any(_ZOOKEEPER, files) and not any(name.endswith(".index") for name in files):
        return "the transaction log of ZooKeeper"
    if "controller" in _folders_in(root, "redpanda", folders) or _any(_REDPANDA, files):
        return "data of Redpanda, whose segments have a format of their own"
    if {"bookkeeper", "metadata"} <= folders or {"bookkeeper", "zookeeper"} <= folders:
        return "data of Pulsar (BookKeeper)"
    if files & _BOOKKEEPER or ("current" in folders and _BOOKKEEPER & _files_in(root, "current")):
        return "data of BookKeeper, which Pulsar writes"
    if "CURRENT" in files and _any(_ROCKSDB, files):
        return "a RocksDB, such as a state store of Kafka Streams"
    if _is_of_streams(root, files, folders):
        return "the state of a Kafka Streams application, kept in RocksDB"
    return None


def _is_of_streams(root: SourceRoot, files: Collection[str], folders: Collection[str]) -> bool:
    if "kafka-streams-process-metadata" in files or "rocksdb" in folders:
        return True
    tasks = sorted(name for name in folders if _TASK.fullmatch(name))[:16]
    return any("rocksdb" in _folders_in(root, task, folders) for task in tasks)


def _any(pattern: re.Pattern[str], names: Collection[str]) -> bool:
    return any(map(pattern.fullmatch, names))


def _files_in(root: SourceRoot, folder: str) -> set[str]:
    with suppress(OSError, SourceRefusedError):
        return set(root.list_apart(folder)[0])
    return set()


def _folders_in(root: SourceRoot, folder: str, folders: Collection[str]) -> set[str]:
    if folder in folders:
        with suppress(OSError, SourceRefusedError):
            others = root.list_apart(folder)[1]
            return {name for name, kind in others if kind is EntryKind.DIRECTORY}
    return set()
