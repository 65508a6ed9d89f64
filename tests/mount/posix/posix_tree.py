"""The files, folders and links that the tests of system calls need: as nodes of a mount, and on a disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.mount.fake_tree import MTIME_NS

BESIDE = "posix"
"""The folder of the tree, beside the partitions of a mount."""
NAME_MAX = 255
PATH_MAX = 4096
"""Bytes of a path, with the zero at its end."""
MOST_LINKS = 40
"""Links that Linux follows in one path."""
ME = os.geteuid()
"""The user that runs the tests, who may hold a lease on a file."""
OTHER = 12_345
"""A user that runs no test."""
HUGE = (4 << 30) + 2
MANY = 300
Y2106_NS = (2**32 + 5) * 10**9 + 987_654_321


@dataclass(frozen=True)
class Leaf:
    """A file of `size` bytes that ends with `data`; what is before is zeros."""

    data: bytes = b""
    size: int = 0
    mode: int = 0o444
    owner: int = ME
    mtime_ns: int = MTIME_NS
    xattrs: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Branch:
    """A folder."""

    children: Mapping[str, Item] = field(default_factory=dict)
    mode: int = 0o555
    owner: int = ME


Item: TypeAlias = Leaf | Link | Branch


def nested(names: list[str], leaf: Leaf) -> Item:
    """Folders in each other, with a file in the innermost."""
    return Branch({names[0]: nested(names[1:], leaf)}) if names else leaf


DEEP = ["d" * 254] * 15 + ["d" * 9, "f" * NAME_MAX]
"""Names below `deep` that make a path as long as it can be."""
LONGEST_PATH = "/".join(["deep", *DEEP])
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
ODD = {
    name: Leaf(os.fsencode(name))
    for name in (
        "new\nline",
        "tab\t",
        "back\\slash",
        " ",
        "-r",
        "*",
        "...",
        "a:b",
        "\x7f",
        "\U0001f600",
        os.fsdecode(b"\xff\xfe"),
        os.fsdecode(b"half\xc3"),
        COMPOSED,
        DECOMPOSED,
    )
}
"""Names that programs stumble over; each file holds its name."""
XATTRS = {
    "user.a": b"",
    "user.with/slash": b"1",
    f"user.{COMPOSED}": b"composed",
    f"user.{DECOMPOSED}": b"decomposed",
    "user.zeros": bytes(300),
}
TREE = Branch(
    {
        "file": Leaf(b"hello\n"),
        "one": Leaf(b"x"),
        "described": Leaf(b"x", xattrs=XATTRS),
        "none": Leaf(),
        "folder": Branch({"below": Leaf(b"below\n"), "inner": Branch(), "up": Link("../file")}),
        "empty": Branch(),
        "link": Link("file"),
        "folder-link": Link("folder"),
        "dangling": Link("missing"),
        "self": Link("self"),
        "loop-a": Link("loop-b"),
        "loop-b": Link("loop-a"),
        "long-link": Link("/".join(["a" * 254] * 4)),
        "n" * NAME_MAX: Leaf(b"longest name"),
        "deep": nested(DEEP, Leaf(b"longest path")),
        "closed": Branch({"inside": Leaf(b"x")}, mode=0o600, owner=OTHER),
        "secret": Leaf(b"x", mode=0o200, owner=OTHER),
        "sticky": Branch({"file": Leaf(b"x"), "folder": Branch()}, mode=0o1777, owner=OTHER),
        "huge": Leaf(b"a", size=HUGE),
        "late": Leaf(b"x", mtime_ns=Y2106_NS),
        "odd": Branch(ODD),
        "many": Branch({str(number): Leaf(b"%d" % number) for number in range(MANY)}),
        "chain": Branch(
            {
                "0": Link("../file"),
                **{str(number): Link(str(number - 1)) for number in range(1, MOST_LINKS + 1)},
            }
        ),
    }
)


def make_on_disk(root: str, item: Item, name: str = ".") -> None:
    """Make an item below a folder; names may be longer than a path from the root of the file system could be."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _make(folder, name, item)
    finally:
        os.close(folder)


def _make(folder: int, name: str, item: Item) -> None:
    if isinstance(item, Link):
        os.symlink(item.target, name, dir_fd=folder)
        return
    if isinstance(item, Branch):
        if name != ".":
            os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        for child, below in item.children.items():
            _make(inner, child, below)
    else:
        inner = os.open(name, os.O_RDWR | os.O_CREAT, dir_fd=folder)
        os.pwrite(inner, item.data, max(item.size - len(item.data), 0))
        for key, value in item.xattrs.items():
            os.setxattr(inner, key, value)
        os.utime(inner, ns=(item.mtime_ns, item.mtime_ns))
    os.fchown(inner, item.owner, item.owner)
    os.fchmod(inner, item.mode)
    os.close(inner)
