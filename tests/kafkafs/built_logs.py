"""Log dirs that tests write and change, and trees over them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.log.log_directory import open_source
from kafkafs.tree.node import Directory, File, Link, Node
from kafkafs.tree.tree import Tree, TreeOptions
from tests import builders
from tests.builders import Rec

DAY_MS = 24 * 60 * 60 * 1000
START_MS = 1_700_000_000_000


class BuiltLog:
    """A partition's folder in a log dir; segments and batches are added as a broker adds them."""

    def __init__(self, log_dir: Path, name: str = "orders-0") -> None:
        self.log_dir = log_dir
        self.folder = log_dir / name
        self.folder.mkdir(parents=True)
        self.next_offset = 0

    def segment(self, batches: Sequence[bytes], base_offset: int, **options: Any) -> Path:
        """Write a segment with its indexes; the next offset follows its last batch."""
        path = builders.write_segment(self.folder, batches, base_offset, **options)
        if batches:
            self.next_offset = builders.last_offset(batches[-1]) + 1
        return path

    def append(self, *batches: bytes) -> Path:
        """Add batches to the newest segment, without touching its indexes."""
        path = self.active
        with open(path, "ab") as log:
            log.writelines(batches)
        if batches:
            self.next_offset = builders.last_offset(batches[-1]) + 1
        return path

    @property
    def active(self) -> Path:
        """The newest segment's .log."""
        return max(self.folder.glob("*.log"))

    def compact(self, base_offset: int, *batches: bytes) -> None:
        """Put another file in a segment's place, as the cleaner does: the old one stays for a while."""
        path = self.folder / f"{base_offset:020}.log"
        swap = path.with_name(path.name + ".swap")
        swap.write_bytes(b"".join(batches))
        for old in (path, path.with_suffix(".index"), path.with_suffix(".timeindex")):
            if old.exists():
                old.rename(old.with_name(old.name + ".deleted"))
        swap.rename(path)
        self.cleaned_to(self.next_offset)

    def cleaned_to(self, offset: int) -> None:
        """What the cleaner leaves: the offset up to which it has compacted the log."""
        topic, _, number = self.folder.name.rpartition("-")
        text = f"0\n1\n{topic} {number} {offset}\n"
        (self.log_dir / "cleaner-offset-checkpoint").write_text(text)

    def start_at(self, offset: int) -> None:
        """What DeleteRecords leaves: a log start offset in the checkpoint."""
        topic, _, number = self.folder.name.rpartition("-")
        text = f"0\n1\n{topic} {number} {offset}\n"
        (self.log_dir / "log-start-offset-checkpoint").write_text(text)


@contextmanager
def tree_over(path: Path, *, snapshot: bool = False, **options: Any) -> Iterator[Tree]:
    """A tree over a log dir."""
    source = open_source(str(path), snapshot=snapshot)
    try:
        yield Tree(source, options=TreeOptions(**options))
    finally:
        source.close()


def after_a_tick() -> None:
    """Let the clock of folder times go on: two changes within one tick of it look like one."""
    time.sleep(0.06)


def look_again(tree: Tree) -> None:
    """Have the tree see now what has changed."""
    after_a_tick()
    for log in tree.source.partitions(0.0).values():
        log.view(0.0)


def text_batch(first: int, count: int, *, size: int = 20, timestamp: int = START_MS) -> bytes:
    """A batch of records whose values tell their offsets, a second apart."""
    records = [
        Rec(f"{offset:0{size}}".encode(), b"k", timestamp + offset * 1000)
        for offset in range(first, first + count)
    ]
    return builders.batch(records, first)


def batches_of(count: int, each: int = 10, *, first: int = 0, size: int = 20) -> list[bytes]:
    """Consecutive batches."""
    return [text_batch(first + i * each, each, size=size) for i in range(count)]


def content_of(node: Node) -> bytes:
    """All bytes of a file, read in pieces."""
    assert isinstance(node, File)
    content = node.open()
    try:
        pieces = []
        position = 0
        while piece := content.read(position, 100_000):
            pieces.append(piece)
            position += len(piece)
        assert position == content.size
        return b"".join(pieces)
    finally:
        content.close()


def lines_of(node: Node) -> list[dict[str, Any]]:
    """The JSON lines of a file."""
    return [json.loads(line) for line in content_of(node).splitlines()]


def offsets_of(node: Node) -> list[int]:
    """The offsets of the records in a file of lines."""
    return [line["offset"] for line in lines_of(node) if "offset" in line]


def names_in(node: Node) -> list[str]:
    """What a folder lists."""
    assert isinstance(node, Directory)
    return [entry.name for entry in node.entries()]


def below(node: Node) -> Iterator[Node]:
    """All listed nodes below one."""
    if isinstance(node, Directory):
        for entry in node.entries():
            child = node.lookup(entry.name)
            yield child
            yield from below(child)


def shape(node: Node) -> Any:
    """A node as a value: a folder as a dict, a file as its kind of content, a link as its target."""
    if isinstance(node, Directory):
        return {entry.name: shape(node.lookup(entry.name)) for entry in node.entries()}
    return f"-> {node.target}" if isinstance(node, Link) else "file"
