"""Everything that a tree shows of a source, read once, and what of it contradicts the rest.

The record lines of records/ are taken as what is served; every other view of the same records (by offset,
by range, by time, committed, raw bytes) has to agree with them. Nothing is expected about the bytes
themselves: that is for the tests.
"""

from __future__ import annotations

import base64
import json
import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.errors import KafkaStorageError
from engine.log.log_directory import open_source
from kafkafs.tree.errors import KafkaFsError
from kafkafs.tree.node import Directory, File, Kind, Link, Node
from kafkafs.tree.tree import Tree, TreeOptions

MEANT = (KafkaStorageError, KafkaFsError, OSError)
"""What a node may raise; anything else is a mistake of ours."""
MOST_NAMES = 3000
PIECE = 1 << 20
KEPT = 8 << 20
"""Files up to this size are kept as they are; of larger ones the size."""
LOOK_UPS = 40
FIELDS = 12
"""Of how many of these the key, the value, the batch and the attributes are read too."""


@dataclass
class Survey:
    """What there was.

    Attributes:
        names: of each folder.
        files: the bytes of each file up to KEPT, `sizes` the size of each.
        refused: files and folders that raised what they may raise: its class and its text.
        wrong: contradictions, each with its kind in front: stray (an exception that nobody expects), size,
            lookup, range, committed, time.
        problems: what the source noted.
        xattrs: of each node that has some.
        peak: bytes of memory that reading took at most; `seconds` how long it took.
    """

    names: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    xattrs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    peak: int = 0
    seconds: float = 0.0

    @property
    def partitions(self) -> list[str]:
        """Their names."""
        own = {"README.txt", ".kafkafs", "state", "time", "groups", "transactions", "cluster"}
        return [name for name in self.names[""] if name not in own]

    def lines(self, partition: str = "t-0", view: str = "records") -> list[bytes]:
        """All lines of records/ or committed/, error lines included."""
        folder = f"{partition}/{view}"
        files = (self.files.get(f"{folder}/{name}", b"") for name in self.names[folder])
        return [line for text in files for line in text.splitlines(keepends=True)]

    def records(self, partition: str = "t-0", view: str = "records") -> list[dict[str, Any]]:
        """The record lines, parsed."""
        return [fact for fact in self._facts(partition, view) if "error" not in fact]

    def values(self, partition: str = "t-0", view: str = "records") -> list[Any]:
        """The records' values."""
        return [fact["value"] for fact in self.records(partition, view)]

    def offsets(self, partition: str = "t-0", view: str = "records") -> list[int]:
        """The records' offsets."""
        return [fact["offset"] for fact in self.records(partition, view)]

    def errors(self, partition: str = "t-0", view: str = "records") -> list[dict[str, Any]]:
        """What the error lines say."""
        return [fact["error"] for fact in self._facts(partition, view) if "error" in fact]

    def kinds(self, partition: str = "t-0") -> list[tuple[str, int]]:
        """Kind and position of each error line."""
        return [(error["kind"], error["position"]) for error in self.errors(partition)]

    def noted(self, kind: str) -> list[dict[str, Any]]:
        """The problems of a kind."""
        return [problem for problem in self.problems if problem["kind"] == kind]

    def json(self, path: str) -> Any:
        """A JSON file's content."""
        return json.loads(self.files[path])

    def _facts(self, partition: str, view: str) -> Iterator[dict[str, Any]]:
        for line in self.lines(partition, view):
            yield json.loads(line)


def survey(
    source: str,
    *,
    budgets: Budgets = DEFAULT_BUDGETS,
    snapshot: bool = False,
    suspects: Iterable[int] = (),
    only: Iterable[str] | None = None,
) -> Survey:
    """Open a source, read its whole tree and compare its views.

    Args:
        source: as an operator names it.
        budgets, snapshot: for the source.
        suspects: offsets of records whose other views are not compared.
        only: nodes to read and nothing else; no views are compared then.
    """
    opened = open_source(source, budgets=budgets, snapshot=snapshot)
    tree = Tree(opened, options=TreeOptions(budgets=budgets))
    found = Survey()
    _read_all(tree, found, only)
    for partition in found.partitions if only is None else ():
        _compare(tree, found, partition, set(suspects))
    found.problems = opened.problems
    opened.close()
    return found


_PERIOD = re.compile("[^/]+/time/[^/]+")
"""Folders with content that is not listed."""


def _read_all(tree: Tree, found: Survey, only: Iterable[str] | None) -> None:
    left: list[tuple[str, Node | None]] = [(path, None) for path in only or [""]]
    while left:
        path, node = left.pop()
        try:
            node = tree.resolve(path) if node is None else node
            if "/committed/" in path:
                node = tree.follow(node)
            if node.xattrs():
                found.xattrs[path] = node.xattrs()
            node.attrs()
            if isinstance(node, Directory):
                entries = list(islice(node.entries(), MOST_NAMES))
                found.names[path] = [entry.name for entry in entries]
                if only is None:
                    left += [(node.child(entry.name), None) for entry in reversed(entries)]
                    if _PERIOD.fullmatch(path):
                        left += [(node.child(name), None) for name in ("records.jsonl", "log")]
            elif isinstance(node, File):
                _read_file(node, path, found)
            else:
                assert isinstance(node, Link)
                found.files[path] = node.target.encode("utf-8", "surrogateescape")
        except MEANT as error:
            found.refused[path] = f"{type(error).__name__}: {error}"
        except Exception:  # noqa: BLE001  what must not happen is what is looked for
            found.wrong.append(f"stray {path}: {traceback.format_exc()}")


def _read_file(node: File, path: str, found: Survey) -> None:
    content = node.open()
    try:
        size = content.size
        found.sizes[path] = size
        attrs = node.attrs()
        is_changing = path.startswith(".kafkafs/")
        if attrs.kind is not Kind.FILE or (attrs.size != size and not is_changing):
            found.wrong.append(f"size {path}: stat says {attrs.size}, open says {size}")
        pieces = []
        for at in range(0, size, PIECE):
            piece = content.read(at, PIECE)
            if len(piece) != min(PIECE, size - at):
                found.wrong.append(f"size {path}: {len(piece)} bytes at {at} of {size}")
            if size <= KEPT:
                pieces.append(piece)
        if size <= KEPT:
            found.files[path] = b"".join(pieces)
            middle = content.read(size // 3, 100)
            if middle != found.files[path][size // 3 : size // 3 + 100]:
                found.wrong.append(f"size {path}: other bytes at {size // 3} the second time")
    finally:
        content.close()


# -- one view against the other


def _compare(tree: Tree, found: Survey, partition: str, suspects: set[int]) -> None:
    served: dict[int, bytes] = {}
    facts = []
    for line in found.lines(partition):
        fact = json.loads(line)
        if "error" in fact or "belowLogStart" in fact or fact["offset"] in suspects:
            continue
        facts.append(fact)
        served.setdefault(fact["offset"], line)
    _compare_offsets(tree, found, partition, served)
    _compare_ranges(tree, found, partition, served)
    _compare_committed(tree, found, partition, facts, suspects)
    _compare_times(tree, found, partition, facts)


def _spread(items: Iterable[Any], most: int) -> list[Any]:
    """Some of the items, evenly, the first and the last among them."""
    known = list(items)
    if len(known) <= most:
        return known
    return [known[i * (len(known) - 1) // (most - 1)] for i in range(most)]


def _content(tree: Tree, path: str) -> bytes | str:
    """A file's bytes, or the class of what it raises."""
    try:
        node = tree.resolve(path)
        if isinstance(node, Link):
            return node.target.encode()
        assert isinstance(node, File), path
        content = node.open()
        try:
            return content.read(0, content.size)
        finally:
            content.close()
    except MEANT as error:
        return type(error).__name__
    except Exception:  # noqa: BLE001  as above
        return f"stray {path}: {traceback.format_exc()}"


def _compare_offsets(tree: Tree, found: Survey, partition: str, served: dict[int, bytes]) -> None:
    in_full = _spread(sorted(served), FIELDS)
    for offset in _spread(sorted({*in_full, *_spread(sorted(served), LOOK_UPS)}), LOOK_UPS):
        path = f"{partition}/offset/{offset}"
        line = served[offset]
        got = _content(tree, path)
        if got != line:
            found.wrong.append(f"lookup {path}: {got!r:.300} instead of {line!r:.300}")
            continue
        if len(line) > PIECE or offset not in in_full:
            continue
        fact = json.loads(line)
        for name in ("key", "value"):
            data = _content(tree, f"{path}.{name}")
            if not _stands_for(fact[name], fact.get(f"{name}Encoding"), data):
                found.wrong.append(f"lookup {path}.{name}: {data!r:.300}")
        if not isinstance(_content(tree, f"{path}.batch"), bytes):
            found.wrong.append(f"lookup {path}.batch")
        attributes = tree.resolve(path).xattrs()
        if attributes["user.kafka.offset"] != b"%d" % offset:
            found.wrong.append(f"lookup {path}: xattrs {attributes}")


def _stands_for(shown: Any, encoding: str | None, data: bytes | str) -> bool:
    if shown is None:
        return data == "NotFound"
    if not isinstance(data, bytes):
        return False
    if encoding == "json":
        return bool(json.loads(data) == shown)
    return data == (base64.b64decode(shown) if encoding == "base64" else shown.encode())


def _compare_ranges(tree: Tree, found: Survey, partition: str, served: dict[int, bytes]) -> None:
    offsets = sorted(served)
    if not offsets:
        return
    middle, last = offsets[len(offsets) // 3], offsets[-1]
    for low, high in ((offsets[0], last + 1), (middle, last), (middle, middle + 1)):
        path = f"{partition}/offset/{low}..{high}"
        wanted = [served[offset] for offset in offsets if low <= offset < high]
        got = _content(tree, path)
        if isinstance(got, bytes):
            shown = dict.fromkeys(got.splitlines(keepends=True))
            if sorted(line for line in shown if line in served.values()) == sorted(wanted):
                continue
        found.wrong.append(f"range {path}: {got!r:.300} instead of {wanted!r:.300}")


def _compare_committed(
    tree: Tree, found: Survey, partition: str, facts: list[dict[str, Any]], suspects: set[int]
) -> None:
    state = json.loads(found.files.get(f"{partition}/state/offsets.json", b"{}"))
    stable = state.get("lastStableOffset", -1)
    wanted = [
        fact["offset"]
        for fact in facts
        if "control" not in fact
        and fact["offset"] < stable
        and fact.get("transaction", {}).get("state") in (None, "committed")
    ]
    got = [offset for offset in found.offsets(partition, "committed") if offset not in suspects]
    if got != wanted:
        found.wrong.append(f"committed {partition}: {got!r:.300} instead of {wanted!r:.300}")


def _compare_times(tree: Tree, found: Survey, partition: str, facts: list[dict[str, Any]]) -> None:
    timed = [fact for fact in facts if fact["timestamp"] >= 0]
    for wanted in _spread(sorted({fact["timestamp"] for fact in timed}), 8):
        first = next(fact["offset"] for fact in timed if fact["timestamp"] >= wanted)
        path = f"{partition}/time/{wanted}"
        got = _content(tree, path)
        if got != b"../offset/%d" % first:
            found.wrong.append(f"time {path}: {got!r:.300} instead of {first}")
