"""Directory entries with a name only, so that listing a million names leaves nothing in the kernel.

pyfuse3 always answers READDIRPLUS: for each entry the kernel creates an inode and a dentry, about 1 KB of its
memory. An entry with node id 0 is only a name, an inode number and a type for the listing (fuse_direntplus_link in
fs/fuse/readdir.c), but pyfuse3 always sets the node id together with the inode number. So this module clears the
node id in the object's memory, at an address that it finds and checks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pyfuse3

NameEntry: TypeAlias = "Callable[[int, int], pyfuse3.EntryAttributes]"
_MARK = 0x6B61_666B_6166_7331
_OTHER_MARK = 0x1357_9BDF_0246_8ACE
_WORD = ctypes.sizeof(ctypes.c_uint64)


def make_name_entry(pyfuse3: Any) -> NameEntry | None:  # noqa: ANN401
    """Return a function (inode, mode) -> entry for `readdir_reply`, which reuses one object.

    None if this build of pyfuse3 does not store the two numbers as expected.
    """
    entry = pyfuse3.EntryAttributes()
    place = _node_id_place(entry)
    if place is None:
        return None
    node_id = ctypes.c_uint64.from_address(id(entry) + place)

    def name_entry(inode: int, mode: int) -> pyfuse3.EntryAttributes:
        entry.st_ino = inode
        entry.st_mode = mode
        node_id.value = 0
        return entry

    return name_entry


def _words(entry: object, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(id(entry)))


def _node_id_place(entry: Any) -> int | None:  # noqa: ANN401
    """Return the byte position of the node id in the object; None if a check fails.

    The object holds fuse_entry_param: node id, generation, struct stat. So two words change with st_ino. The first is
    the node id; clearing it must show in st_ino and leave the other word unchanged.
    """
    count = type(entry).__basicsize__ // _WORD
    entry.st_ino = _MARK
    marked = {slot for slot, word in enumerate(_words(entry, count)) if word == _MARK}
    entry.st_ino = _OTHER_MARK
    words = _words(entry, count)
    places = sorted(slot for slot in marked if words[slot] == _OTHER_MARK)
    if len(places) != 2:
        return None
    node_id = ctypes.c_uint64.from_address(id(entry) + places[0] * _WORD)
    node_id.value = 0
    if entry.st_ino != 0 or _words(entry, count)[places[1]] != _OTHER_MARK:
        return None
    entry.st_ino = _MARK
    return places[0] * _WORD if node_id.value == _MARK else None
