"""A disk that notes every call, and what a crash after any of them could leave.

What is guaranteed is only what was synced: a file's bytes by the sync of the file, a name by the sync of its
folder. Of all later calls any part may have reached the device: of a file's writes none, all, the first half,
the second half, or only its new length with zeros in it; of the names each or none, in order or not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

from engine.disk.disk import Bytes, Disk, StrPath, WritableFile

BEFORE = -1
"""The time of everything that was there when the recording began."""


class Write(NamedTuple):
    """Bytes written to a file. `at` counts calls."""

    at: int
    position: int
    data: bytes


class Truncate(NamedTuple):
    """A new length of a file."""

    at: int
    size: int


Change: TypeAlias = Write | Truncate


@dataclass(eq=False)
class FileNode:
    """A file, whatever its name: what was there first, its changes, and when it was synced."""

    start: bytes = b""
    changes: list[Change] = field(default_factory=list)
    syncs: list[int] = field(default_factory=list)

    def content(self, crash: int, choose: Choose) -> bytes:
        """The bytes after a crash before the call number `crash`."""
        synced_at = max((at for at in self.syncs if at < crash), default=BEFORE)
        synced = applied(self.start, [change for change in self.changes if change.at < synced_at])
        open_changes = [change for change in self.changes if synced_at < change.at < crash]
        return choose(synced, open_changes) if open_changes else synced


@dataclass(eq=False)
class FolderNode:
    """A folder: its names when the recording began, and when it was synced."""

    start: dict[str, Node] = field(default_factory=dict)
    syncs: list[int] = field(default_factory=list)


Node: TypeAlias = FileNode | FolderNode


class Naming(NamedTuple):
    """A change of names: `node` is no longer `old` and is now `new`, each a folder and a name in it, or None."""

    at: int
    node: Node
    old: tuple[FolderNode, str] | None
    new: tuple[FolderNode, str] | None

    def is_durable(self, crash: int) -> bool:
        """Whether a sync of its folder came before the crash."""
        folder = (self.new or self.old or (FolderNode(), ""))[0]
        return any(self.at < at < crash for at in folder.syncs)


Choose: TypeAlias = Callable[[bytes, list[Change]], bytes]


def applied(content: bytes, changes: list[Change]) -> bytes:
    """Content after changes."""
    result = bytearray(content)
    for change in changes:
        if isinstance(change, Truncate):
            del result[change.size :]
            result.extend(bytes(change.size - len(result)))
        else:
            end = change.position + len(change.data)
            result.extend(bytes(max(end - len(result), 0)))
            result[change.position : end] = change.data
    return bytes(result)


def _split(changes: list[Change]) -> tuple[list[Change], list[Change]]:
    """The first and the second half of what was written; a write in the middle is torn."""
    left = sum(len(change.data) for change in changes if isinstance(change, Write)) // 2
    for number, change in enumerate(changes):
        if isinstance(change, Write):
            if len(change.data) > left:
                torn = change._replace(data=change.data[:left])
                rest = change._replace(position=change.position + left, data=change.data[left:])
                return [*changes[:number], torn], [rest, *changes[number + 1 :]]
            left -= len(change.data)
    return changes, []


def nothing(synced: bytes, changes: list[Change]) -> bytes:
    """None of the writes."""
    return synced


def everything(synced: bytes, changes: list[Change]) -> bytes:
    """All of the writes."""
    return applied(synced, changes)


def first_half(synced: bytes, changes: list[Change]) -> bytes:
    """The first half of the writes, the last of them torn."""
    return applied(synced, _split(changes)[0])


def second_half(synced: bytes, changes: list[Change]) -> bytes:
    """The second half of the writes: pages go to the device in any order."""
    return applied(synced, _split(changes)[1])


def zeros(synced: bytes, changes: list[Change]) -> bytes:
    """The new length and no bytes in what is new."""
    size = len(applied(synced, changes))
    return (synced + bytes(max(size - len(synced), 0)))[:size]


def half_zeros(synced: bytes, changes: list[Change]) -> bytes:
    """The new length, and the first half of the writes."""
    size = len(applied(synced, changes))
    half = first_half(synced, changes)
    return (half + bytes(max(size - len(half), 0)))[:size]


FATES: tuple[Choose, ...] = (nothing, everything, first_half, second_half, zeros, half_zeros)


class Mark(NamedTuple):
    """What a scenario said between two calls."""

    at: int
    value: object


class Recording:
    """All that happened below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = FolderNode()
        self.path = os.path.abspath(root)
        self.clock = 0
        self.names: list[Naming] = []
        self.marks: list[Mark] = []
        self.calls: list[str] = []
        self._live: dict[str, Node] = {self.path: self.root}
        self._places: dict[Node, tuple[FolderNode, str]] = {}
        self._scan(root, self.root)

    def _scan(self, folder: Path, node: FolderNode) -> None:
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                child = FolderNode()
                self._scan(path, child)
                self._keep(node, path, child)
            else:
                self._keep(node, path, FileNode(path.read_bytes()))

    def _keep(self, folder: FolderNode, path: Path, node: Node) -> None:
        folder.start[path.name] = self._live[os.path.abspath(path)] = node
        self._places[node] = folder, path.name

    def tick(self, what: str) -> int:
        """The number of this call."""
        self.calls.append(what)
        self.clock += 1
        return self.clock - 1

    def mark(self, value: object) -> None:
        """Say something about what comes next."""
        self.marks.append(Mark(self.clock, value))

    def node(self, path: StrPath) -> Node | None:
        """What is at a path now."""
        return self._live.get(os.path.abspath(path))

    def make(self, path: StrPath, node: Node) -> None:
        """A new file or folder."""
        at = self.tick(f"make {os.path.basename(path)}")
        full = os.path.abspath(path)
        self._live[full] = node
        self.names.append(Naming(at, node, None, self._place(full)))

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Another name, with all that is below it."""
        at = self.tick(f"rename {os.path.basename(old)} to {os.path.basename(new)}")
        source, target = os.path.abspath(old), os.path.abspath(new)
        node = self._live[source]
        self.names.append(Naming(at, node, self._place(source), self._place(target)))
        for path in [
            each for each in self._live if each == source or each.startswith(f"{source}/")
        ]:
            self._live[target + path[len(source) :]] = self._live.pop(path)

    def remove(self, path: StrPath) -> None:
        """A name that is gone."""
        at = self.tick(f"remove {os.path.basename(path)}")
        full = os.path.abspath(path)
        self.names.append(Naming(at, self._live.pop(full), self._place(full), None))

    def _place(self, full: str) -> tuple[FolderNode, str]:
        folder = self._live[os.path.dirname(full)]
        assert isinstance(folder, FolderNode)
        return folder, os.path.basename(full)

    # -- crashes

    def tree(self, crash: int, kept: Callable[[Naming], bool], choose: Choose) -> Tree:
        """What a crash before the call number `crash` leaves: bytes of files, and folders, by name.

        Args:
            crash: up to `clock`.
            kept: whether a change of names that no sync made durable is there.
            choose: what is left of a file's unsynced changes.
        """
        names: dict[FolderNode, dict[str, Node]] = {}
        where = dict(self._places)

        def entries(folder: FolderNode) -> dict[str, Node]:
            if folder not in names:
                names[folder] = dict(folder.start)
            return names[folder]

        for change in self.names:
            if change.at >= crash or not (change.is_durable(crash) or kept(change)):
                continue
            # A later name of a file stands for its earlier ones: it never has two.
            was = where.pop(change.node, None)
            if was is not None and entries(was[0]).get(was[1]) is change.node:
                del entries(was[0])[was[1]]
            if change.new is not None:
                entries(change.new[0])[change.new[1]] = change.node
                where[change.node] = change.new

        def built(folder: FolderNode) -> Tree:
            return {
                name: node.content(crash, choose) if isinstance(node, FileNode) else built(node)
                for name, node in sorted(entries(folder).items())
            }

        return built(self.root)

    def open_names(self, crash: int) -> list[Naming]:
        """Changes of names that a crash may undo."""
        return [each for each in self.names if each.at < crash and not each.is_durable(crash)]

    def marks_before(self, crash: int) -> list[object]:
        """What was said before the call number `crash` began."""
        return [mark.value for mark in self.marks if mark.at <= crash]


Tree: TypeAlias = "dict[str, bytes | Tree]"


class State(NamedTuple):
    """What one crash leaves; `what` tells it apart from others of its recording."""

    crash: int
    what: str
    tree: Tree


def plain_states(recording: Recording, crash: int) -> Iterator[State]:
    """All files share a fate, and names are all there, all lost, or there up to some call."""
    for cut in name_cuts(recording, crash):
        for fate in FATES:
            yield plain_state(recording, crash, cut, fate)


def random_plain_state(recording: Recording, crash: int, random: Random) -> State:
    """One of them."""
    cut = random.choice(name_cuts(recording, crash))
    return plain_state(recording, crash, cut, random.choice(FATES))


def name_cuts(recording: Recording, crash: int) -> list[int]:
    """The calls up to which names may be there."""
    return sorted({BEFORE, crash, *(each.at for each in recording.open_names(crash))})


def plain_state(recording: Recording, crash: int, cut: int, fate: Choose) -> State:
    """Names up to a call, and the same fate for all files."""
    tree = recording.tree(crash, lambda naming: naming.at <= cut, fate)
    return State(crash, f"names up to {cut}, {fate.__name__}", tree)


def random_state(recording: Recording, crash: int, random: Random, *, in_order: bool) -> State:
    """Each file has a fate of its own; names are there up to some call, or, out of order, each or not."""
    fates: list[str] = []

    def choose(synced: bytes, changes: list[Change]) -> bytes:
        fate = random.choice(FATES)
        fates.append(fate.__name__)
        return fate(synced, changes)

    pending = recording.open_names(crash)
    if in_order:
        cut = random.choice([BEFORE, *(each.at for each in pending)])
        kept = {each for each in pending if each.at <= cut}
    else:
        kept = {each for each in pending if random.random() < 0.5}
    tree = recording.tree(crash, lambda naming: naming in kept, choose)
    lost = [recording.calls[each.at] for each in pending if each not in kept]
    return State(crash, f"lost: {lost}, fates: {fates}", tree)


def materialize(tree: Tree, folder: Path) -> None:
    """Make the files and folders."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, entry in tree.items():
        if isinstance(entry, dict):
            materialize(entry, folder / name)
        else:
            (folder / name).write_bytes(entry)


# -- the disk


class RecordingFile(WritableFile):
    """Notes what changes the file."""

    def __init__(
        self, fd: int, path: str, recording: Recording, node: FileNode, *, writable: bool
    ) -> None:
        super().__init__(fd, path, writable=writable)
        self._recording = recording
        self._node = node

    def write_at(self, position: int, data: Bytes) -> None:
        super().write_at(position, data)
        at = self._recording.tick(f"write {len(data)} to {os.path.basename(self.path)}")
        self._node.changes.append(Write(at, position, bytes(memoryview(data).cast("B"))))

    def truncate(self, size: int) -> None:
        super().truncate(size)
        at = self._recording.tick(f"truncate {os.path.basename(self.path)} to {size}")
        self._node.changes.append(Truncate(at, size))

    def sync(self) -> None:
        if self.syncs:
            self._node.syncs.append(self._recording.tick(f"sync {os.path.basename(self.path)}"))


class RecordingDisk(Disk):
    """Does everything but the syncing, and notes everything below `root`."""

    def __init__(self, root: Path) -> None:
        self.recording = Recording(root)

    def open(
        self,
        path: StrPath,
        *,
        create: bool = False,
        exclusive: bool = False,
        writable: bool = True,
    ) -> WritableFile:
        was_there = os.path.lexists(path)
        file = super().open(path, create=create, exclusive=exclusive, writable=writable)
        if not was_there:
            assert isinstance(file, RecordingFile)
            self.recording.make(path, file._node)
        return file

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        node = self.recording.node(path) or FileNode()
        assert isinstance(node, FileNode)
        return RecordingFile(fd, path, self.recording, node, writable=writable)

    def rename(self, old: StrPath, new: StrPath) -> None:
        super().rename(old, new)
        self.recording.rename(old, new)

    def rename_new(self, old: StrPath, new: StrPath) -> None:
        super().rename_new(old, new)
        self.recording.rename(old, new)

    def remove(self, path: StrPath, missing_ok: bool = False) -> bool:
        was_there = super().remove(path, missing_ok)
        if was_there:
            self.recording.remove(path)
        return was_there

    def remove_folder(self, path: StrPath) -> None:
        super().remove_folder(path)
        self.recording.remove(path)

    def make_folder(self, path: StrPath) -> None:
        missing = []
        above = os.path.abspath(path)
        while not os.path.isdir(above):
            missing.append(above)
            above = os.path.dirname(above)
        for folder in reversed(missing):
            os.mkdir(folder)
            self.recording.make(folder, FolderNode())
            self.sync_folder(os.path.dirname(folder))

    def make_new_folder(self, path: StrPath) -> None:
        super().make_new_folder(path)
        self.recording.make(path, FolderNode())

    def sync_folder(self, path: StrPath) -> None:
        node = self.recording.node(path) if self.syncs else None
        if node is None:
            super().sync_folder(path)
            return
        assert isinstance(node, FolderNode)
        node.syncs.append(self.recording.tick(f"sync folder {os.path.basename(path)}"))
