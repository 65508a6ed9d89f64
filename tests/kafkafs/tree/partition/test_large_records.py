"""Records whose lines are too long to be kept: their files are made when they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.coding.compression import CompressionType
from engine.log.log_directory import open_source
from engine.memory_gate import LARGE
from kafkafs.tree.node import File
from kafkafs.tree.tree import Tree
from tests.builders import Rec, batch, write_segment

VALUE = b"\xff\x00ab" * (LARGE // 2)
RECORDS = [Rec(b"first", b"k"), Rec(VALUE, b"k" * 10, 1_700_000_000_007), Rec(b"last", b"k")]


def read(tree: Tree, path: str) -> bytes:
    """A file by ranges, as a mount reads it; it must be what `cat` gives."""
    node = tree.resolve(path)
    assert isinstance(node, File)
    content = node.open()
    parts = [content.read(at, 1_000_000) for at in range(0, content.size, 1_000_000)]
    content.close()
    whole = b"".join(parts)
    assert b"".join(node.chunks()) == whole
    assert node.attrs().size == len(whole)
    return whole


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZSTD])
def test_a_large_record_is_read_by_ranges(tmp_path: Path, codec: CompressionType) -> None:
    data = batch(RECORDS, 0, codec)
    write_segment(tmp_path / "t-0", [data], 0)
    tree = Tree(open_source(str(tmp_path)))
    lines = read(tree, f"t-0/records/{0:020}.jsonl").splitlines(keepends=True)
    assert [read(tree, f"t-0/offset/{n}") for n in range(3)] == lines
    assert read(tree, "t-0/offset/1.value") == VALUE
    assert read(tree, "t-0/offset/1.key") == b"k" * 10
    assert read(tree, "t-0/offset/1.batch") == data
    assert json.loads(lines[1])["valueEncoding"] == "base64"
    facts = tree.resolve("t-0/offset/1").xattrs()
    assert facts["user.kafka.timestamp"] == b"1700000000007"
    assert facts["user.kafka.batch_base_offset"] == b"0"


def test_a_large_batch_is_not_kept(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", [batch(RECORDS, 0)], 0)
    tree = Tree(open_source(str(tmp_path)))
    nodes = [tree.resolve(f"t-0/offset/{name}") for name in ("0.value", "1", "2.value", "1.value")]
    assert all(not node._found.batch.buffer for node in nodes)  # type: ignore[attr-defined]
    assert tree.context.chunks.bytes == 0
