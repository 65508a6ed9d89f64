"""The node id that is cleared in pyfuse3's memory."""

from __future__ import annotations

import ctypes

import pytest

from kafkafs.fuse.pyfuse3_patches.names_only import make_name_entry


def test_a_name_entry_has_a_number_a_type_and_no_node_id() -> None:
    pyfuse3 = pytest.importorskip("pyfuse3")
    name_entry = make_name_entry(pyfuse3)
    assert name_entry is not None
    entry = name_entry(2**62 + 5, 0o100444)
    assert entry.st_ino == 0  # what pyfuse3 reads back is the node id
    words = (ctypes.c_uint64 * (type(entry).__basicsize__ // 8)).from_address(id(entry))
    assert 2**62 + 5 in list(words)
    assert entry.st_mode == 0o100444
    assert name_entry(7, 0o040555) is entry
    assert entry.st_ino == 0


def test_an_entry_of_another_make_is_not_touched() -> None:
    class Entry:
        """Keeps its number somewhere else."""

        __slots__ = ("st_ino", "st_mode")

    class Module:
        EntryAttributes = Entry

    assert make_name_entry(Module) is None
