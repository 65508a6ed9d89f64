"""A tree with a mask: no name, attribute or byte of it has what the policy hides; each refusal is noted."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import KafkaStorageError
from engine.log.log_directory import open_source
from kafkafs.decode.failures import KafkaFsError
from kafkafs.fuse.errnos import errno_of
from kafkafs.masking.policy import MaskPolicy
from kafkafs.tree.errors import MaskedError
from kafkafs.tree.node import Directory, File, Link, Node
from kafkafs.tree.tree import Tree, TreeOptions
from tests.fixtures_data import DATA, log_dir
from tests.kafkafs.masked_source import found_in, write_source, written_policy

UNLISTED = [
    "customers-0/key", "customers-0/segments", f"customers-0/segments/{0:020}.log",
    *(f"customers-0/offset/{at}{part}" for at in (*range(20), *range(50, 76)) for part in ("", ".key", ".value", ".batch")),
    "customers-0/offset/0..", "customers-0/offset/..", "customers-0/offset/-3", "customers-0/offset/10+60",
    *(f"customers-0/time/{period}/{name}" for period in ("2023", "1970..2030")
      for name in ("records.jsonl", "exact.jsonl", "log", f"log/{0:020}.log", "README.txt")),
    "customers-0/committed/0.jsonl", "customers-0/committed/51.jsonl", "customers-0/records/51.jsonl",
    "time/2023/customers-0", f"time/2023/customers-0/{0:020}.log", "time/2023",
    f"customers-1.{'0' * 32}-delete/records/0.jsonl", f"customers-1.{'0' * 32}-delete/segments",
]  # fmt: skip
REFUSED = [
    "customers-0/key",
    "customers-0/key/anything",
    "customers-0/segments",
    "customers-0/offset/0.key",
    "customers-0/offset/0.value",
    "customers-0/offset/0.batch",
    "customers-0/time/2023/log",
    "time/2023/customers-0",
    f"customers-1.{'0' * 32}-delete/segments",
]


@pytest.fixture
def masked(tmp_path: Path) -> Iterator[Tree]:
    write_source(tmp_path / "data")
    with closing(open_source(str(tmp_path / "data"))) as source:
        yield Tree(source, options=TreeOptions(mask=MaskPolicy(written_policy(tmp_path))))


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Tree]:
    with closing(open_source(str(tmp_path / "data"))) as source:
        yield Tree(source)


def shown(tree: Tree, node: Node, *, below: bool = True) -> Iterator[bytes]:
    """Yield all that a node shows: its path, attributes, extended attributes and bytes, and those below it."""
    yield node.path.encode("utf-8", "surrogateescape")
    yield repr(node.attrs()).encode()
    for name, value in node.xattrs().items():
        yield name.encode() + b"=" + value
    if isinstance(node, Link):
        yield node.target.encode()
    elif isinstance(node, Directory):
        for entry in node.entries(0):
            yield entry.name.encode("utf-8", "surrogateescape")
            if below:
                yield from shown(tree, node.lookup(entry.name))
    else:
        assert isinstance(node, File)
        try:
            yield b"".join(node.chunks())
            content = node.open()
            yield b"".join(iter_content(content.size, content.read))
            content.close()
        except (KafkaStorageError, OSError, KafkaFsError) as error:
            yield str(error).encode()
        for name, value in node.xattrs().items():
            yield name.encode() + b"=" + value


def iter_content(size: int, read) -> Iterator[bytes]:  # type: ignore[no-untyped-def]
    position = 0
    while position < size:
        data = read(position, 100_000)
        assert data
        yield bytes(data)
        position += len(data)


def test_a_walk_of_the_whole_tree_finds_no_form_of_the_canary(masked: Tree) -> None:
    walked = b"\n".join(shown(masked, masked.root()))
    assert b"open sesame" in walked
    assert found_in(walked) == []


def test_no_path_that_is_not_listed_shows_the_canary(masked: Tree) -> None:
    tried = 0
    for path in UNLISTED:
        try:
            node = masked.resolve(path)
            seen = b"\n".join(shown(masked, masked.follow(node)))
            tried += 1
        except (KafkaFsError, KafkaStorageError) as error:
            seen = str(error).encode()
        assert found_in(seen) == [], path
    assert tried > 30
    assert found_in(b"\n".join(shown(masked, masked.resolve(".kafkafs")))) == []


def test_without_a_mask_the_same_walks_find_it(masked: Tree, plain: Tree) -> None:
    assert len(found_in(b"\n".join(shown(plain, plain.root())))) > 3
    assert found_in(b"\n".join(shown(plain, plain.resolve("customers-0/offset/7.value")))) != []


@pytest.mark.parametrize("path", REFUSED)
def test_bytes_and_names_of_records_are_refused_and_the_problems_say_why(
    masked: Tree, path: str
) -> None:
    with pytest.raises(MaskedError, match=r"read records/|search the lines") as caught:
        masked.resolve(path)
    assert errno_of(caught.value) == errno.EACCES
    file = masked.resolve(".kafkafs/problems")
    assert isinstance(file, File)
    noted = [json.loads(line) for line in b"".join(file.chunks()).splitlines()]
    assert {"kind": "masked", "file": caught.value.path, "reason": caught.value.reason} in noted


def test_what_is_refused_is_not_listed(masked: Tree) -> None:
    folder = masked.resolve("customers-0")
    assert isinstance(folder, Directory)
    names = [entry.name for entry in folder.entries(0)]
    assert names == ["offset", "time", "records", "committed", "state"]
    period = masked.resolve("time/2023")
    assert isinstance(period, Directory)
    assert [entry.name for entry in period.entries(0)] == ["other-0"]


def test_topics_without_a_mask_are_as_in_a_tree_without_one(masked: Tree, plain: Tree) -> None:
    for path in ("other-0", "time/2023/other-0"):
        assert list(shown(masked, masked.resolve(path))) == list(shown(plain, plain.resolve(path)))


def test_the_size_of_masked_lines_is_exact_when_they_are_open(masked: Tree) -> None:
    for base in (0, 51):
        file = masked.resolve(f"customers-0/records/{base}.jsonl")
        assert isinstance(file, File)
        content = file.open()
        whole = b"".join(iter_content(content.size, content.read))
        assert len(whole) == content.size == file.attrs().size
        assert whole == b"".join(file.chunks())
        lines = [json.loads(line) for line in whole.splitlines()]
        assert all("error" in line or "offset" in line for line in lines)
        content.close()


def test_what_is_replayed_from_masked_topics_is_refused(tmp_path: Path) -> None:
    names = ["__consumer_offsets", "__transaction_state", "__cluster_metadata", "_schemas"]
    topics = json.dumps(names)
    policy = written_policy(
        tmp_path, f'[[rules]]\ntopics = {topics}\nfields = {{ ".value" = "drop" }}\n'
    )
    options = TreeOptions(mask=MaskPolicy(policy))
    refused = set()
    for path in (str(log_dir("current")), str(DATA / "schemas-confluent" / "data")):
        with closing(open_source(path)) as source:
            tree, bare = Tree(source, options=options), Tree(source)
            for name in ("groups", "transactions", "cluster", "schemas"):
                if name not in {entry.name for entry in bare.root().entries(0)}:
                    continue
                assert name not in {entry.name for entry in tree.root().entries(0)}
                for place in (name, f"time/2023/{name}"):
                    with pytest.raises(MaskedError, match="leave that topic out"):
                        tree.resolve(place)
                refused.add(name)
    assert refused >= {"groups", "schemas"}


def test_names_of_the_policy_are_in_no_file(masked: Tree, tmp_path: Path) -> None:
    walked = b"\n".join(shown(masked, masked.root()))
    assert os.fsencode(tmp_path / "mask.key") not in walked
