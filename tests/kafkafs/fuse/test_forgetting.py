"""What the kernel is asked to forget, and how."""

from __future__ import annotations

import os
import struct

from kafkafs.fuse.forgetting import AT_ONCE, Forgetting, prune_message
from kafkafs.fuse.inode_table import InodeRecord
from tests.mount.fake_tree import Folder


def never() -> bool:
    return False


def records(count: int) -> list[InodeRecord]:
    return [InodeRecord(f"folder/{number}", 100 + number, 7) for number in range(count)]


def test_the_message_is_the_kernels() -> None:
    message = prune_message([5, 2**63 + 1])
    assert struct.unpack("=IiQIIQ2Q", message) == (48, 9, 0, 2, 0, 0, 5, 2**63 + 1)


def test_numbers_go_in_messages_of_bounded_size() -> None:
    reader, writer = os.pipe()
    called: list[int] = []
    forgetting = Forgetting(writer, lambda parent, name: called.append(parent))
    forgetting.ask(records(2 * AT_ONCE + 1), never)
    os.close(writer)
    with open(reader, "rb") as pipe:
        data = pipe.read()
    sizes, position = [], 0
    while position < len(data):
        length, _, _, count = struct.unpack_from("=IiQI", data, position)
        sizes.append(count)
        position += length
    assert sizes == [AT_ONCE, AT_ONCE, 1]
    assert called == []


def test_an_older_kernel_is_told_names_and_folders_are_spared() -> None:
    refusing = os.open("/dev/full", os.O_WRONLY)
    called: list[tuple[int, bytes]] = []
    forgetting = Forgetting(refusing, lambda parent, name: called.append((parent, name)))
    some = records(3)
    some[1].node = Folder("folder/1", [])
    forgetting.ask(some, never)
    os.close(refusing)
    assert not forgetting.by_number
    assert called == [(7, b"0"), (7, b"2")]


def test_names_that_the_kernel_has_dropped_are_no_error_and_a_stop_is_heard() -> None:
    called: list[bytes] = []

    def invalidate(parent: int, name: bytes) -> None:
        called.append(name)
        raise FileNotFoundError

    forgetting = Forgetting(None, invalidate)
    assert not forgetting.by_number
    forgetting.ask(records(10), lambda: len(called) == 4)
    assert called == [b"0", b"1", b"2", b"3"]
