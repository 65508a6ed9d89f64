"""Logs with bytes changed, cut and inserted at random: the tree's answers agree with each other all the same.

The damage to each kind of field has its tests beside the reader of that field. Here any damage will do: a
file is as long as it says, reads at any place agree, every record that a stream shows is found by its offset
with the same line (where offsets do not go back), and nothing but the errors of damage comes out.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from engine.errors import DamagedFileError, UnsupportedCodecError
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Directory, File
from kafkafs.tree.tree import Tree
from tests import builders
from tests.builders import CODECS, Producer, Rec
from tests.kafkafs.built_logs import BuiltLog, below, content_of, tree_over

P7 = Producer(id=7, epoch=0, sequence=0)
ROUNDS = 25


def good_log(folder: Path, pick: random.Random) -> BuiltLog:
    """Two segments of batches of all kinds."""
    log = BuiltLog(folder)
    offset = 0
    for _ in range(2):
        base, batches = offset, []
        for _ in range(pick.randrange(3, 12)):
            count = pick.randrange(1, 6)
            records = [
                Rec(b"v%d" % (offset + i), b"k", headers=[(b"h", None)]) for i in range(count)
            ]
            kind = pick.randrange(8)
            if kind == 0:
                batches += split_messages(builders.message_set(records, offset, magic=1))
            elif kind == 1:
                batches.append(builders.batch(records, offset, producer=P7, transactional=True))
            elif kind == 2:
                batches.append(builders.end_marker(offset, P7, commit=bool(pick.randrange(2))))
                count = 1
            else:
                batches.append(builders.batch(records, offset, pick.choice(CODECS)))
            offset += count
        log.segment(batches, base, index_interval=200)
    return log


def split_messages(data: bytes) -> list[bytes]:
    """A set of single messages as one piece each, as indexes are made of pieces."""
    pieces = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def broken(path: Path, pick: random.Random) -> None:
    """Change a file somewhere."""
    data = bytearray(path.read_bytes())
    if not data:
        return
    for _ in range(pick.randrange(1, 4)):
        at = pick.randrange(len(data))
        match pick.randrange(5):
            case 0:
                data[at] ^= 1 << pick.randrange(8)
            case 1:
                data[at : at + pick.randrange(1, 40)] = b""
            case 2:
                data[at:at] = pick.randbytes(pick.randrange(1, 40))
            case 3:
                data[at : at + 4] = pick.choice(
                    [b"\xff\xff\xff\xff", bytes(4), b"\x7f\xff\xff\xff"]
                )
            case 4:
                data[at:] = data[at:][: pick.randrange(len(data) - at + 1)]
        if not data:
            break
    path.write_bytes(bytes(data))


def read_or_error(node: File) -> bytes | None:
    try:
        data = content_of(node)
        assert b"".join(node.chunks()) == data
    except (DamagedFileError, UnsupportedCodecError):
        return None
    attrs = node.attrs()
    assert attrs.size == len(data), node.path
    return data


def lines_by_offset(text: bytes) -> dict[int, bytes]:
    """The first line of each offset that is served."""
    found: dict[int, bytes] = {}
    for line in text.splitlines(keepends=True):
        fields: dict[str, Any] = json.loads(line)
        if "offset" in fields and "belowLogStart" not in fields:
            found.setdefault(fields["offset"], line)
    return found


def records_of(tree: Tree) -> bytes:
    folder = tree.resolve("orders-0/records")
    assert isinstance(folder, Directory)
    texts = []
    for entry in folder.entries():
        node = folder.lookup(entry.name)
        assert isinstance(node, File)
        text = read_or_error(node)
        assert text is not None
        content = node.open()
        for start in range(0, len(text), 700):
            assert content.read(start, 900) == text[start : start + 900]
        content.close()
        texts.append(text)
    return b"".join(texts)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_broken_log_gives_answers_that_agree(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    log = good_log(tmp_path / "data", pick)
    for path in sorted(log.folder.iterdir()):
        if path.suffix == ".log" or pick.randrange(3) == 0:
            broken(path, pick)
    with tree_over(log.log_dir) as tree:
        view = tree.root().partitions.find("orders-0").view()  # type: ignore[union-attr]
        text = records_of(tree)
        lines = lines_by_offset(text)
        in_order = b'"kind":"offset_order"' not in text
        offsets = tree.resolve("orders-0/offset")
        assert isinstance(offsets, Directory)
        for offset in range(max(view.log_start_offset, 0), min(view.log_end_offset, 200) + 2):
            try:
                node = offsets.lookup(str(offset))
            except NotFound:
                assert offset not in lines or not in_order
                continue
            assert isinstance(node, File)
            shown = read_or_error(node)
            if shown is not None:
                assert shown == lines[offset] or not in_order
            else:
                assert "user.kafka.error" in node.xattrs()
        for node in below(tree.root()):
            node.attrs()
            node.xattrs()
            if isinstance(node, File):
                read_or_error(node)
