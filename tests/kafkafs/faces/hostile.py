"""The faces over a hostile log dir, of which nobody knows the truth: they say one thing.

Lost is what no reader can have any more. A record that cannot be decoded is not lost, as its bytes are there; nor is a
batch that was being written. A face that refuses a source with a sentence says nothing.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.files.file_names import FolderState
from engine.log.leftover_logs import state_of
from engine.log.log_directory import open_source
from engine.verdict.log_losses import losses_of
from tests.kafkafs.faces import naming
from tests.kafkafs.faces.damage import Damaged, SoundNode
from tests.kafkafs.faces.naming import READERS, Said
from tests.kafkafs.faces.saying import GROUPS
from tests.kafkafs.faces.shared_mount import SharedMount

Face = Callable[[Damaged], Said]
NAMING: tuple[Face, ...] = (
    naming.cat,
    naming.tree,
    naming.python,
    naming.serve,
    naming.check,
    naming.rebuild,
    naming.plan,
    naming.report,
)
MOST_TOPICS = 3
"""Topics of a log dir that are asked for one by one."""


@dataclass
class Hostile(Damaged):
    """A hostile log dir: the logs that it has, and the largest offset that any of them had.

    Attributes:
        cut: the logs whose ends are lost.
    """

    cut: set[str] = field(default_factory=set)

    def partitions(self) -> list[str]:
        """The logs."""
        return sorted(self.sound.ends)

    def controls(self, name: str) -> set[int]:
        """None: readers without control records are not compared for them."""
        return set()


def hostile(path: Path, room: Path) -> Hostile:
    """Look at a log dir; commands may write below the room."""
    sound = SoundNode(path)
    node = Hostile(path, sound, room=room)
    with closing(open_source(str(path))) as source:
        for name, log in source.partitions().items():
            view = log.view_or_none() if state_of(log) is FolderState.LOG else None
            if view is not None and name.isprintable():
                end = losses_of(view).end
                node.cut |= set() if end is None else {name}
                lost = 0 if end is None else end.next_offset or 0
                sound.ends[name] = max(view.log_end_offset, lost)
    return node


class Row(NamedTuple):
    """What a face says, without what is no loss."""

    status: int
    lost: dict[str, set[int]]
    shown: dict[str, set[int]]


def table(node: Hostile) -> dict[str, Row]:
    """What each face says; those that refuse the source are not in it."""
    found = {}
    for face in NAMING:
        try:
            said = face(node)
        except naming.RefusedError:
            continue
        found[face.__name__] = Row(said.status, _known(said.lost, node), _known(said.shown, node))
    return found


def _known(offsets: dict[str, set[int]], node: Hostile) -> dict[str, set[int]]:
    found = {}
    for name, end in node.sound.ends.items():
        below = {each for each in offsets.get(name, ()) if each < end}
        if below:
            found[name] = below
    return found


def contradictions(path: Path, room: Path, shared: SharedMount | None = None) -> Iterator[str]:
    """What the faces say of a log dir that differs.

    Args:
        path: the log dir.
        room: an empty folder for what commands write.
        shared: takes the logs for a mount.
    """
    node = hostile(path, room)
    rows = table(node)
    if shared is not None and "tree" in rows:
        case = os.environ.get("PYTEST_CURRENT_TEST", str(path))
        shared.add(case, node, rows["tree"].lost, rows["tree"].shown)
    losses = {face: row.lost for face, row in rows.items()}
    first = next(iter(losses.values()), {})
    for face, lost in losses.items():
        if lost != first:
            yield f"{face} says {_short(lost)} is lost, {next(iter(losses))} says {_short(first)}"
        if first and not rows[face].status:
            yield f"{face} ends with status 0, and {_short(first)} is lost"
    for face in READERS & rows.keys():
        for name, offsets in rows[face].shown.items():
            if both := offsets & first.get(name, set()):
                yield f"{face} shows offsets of {name} that are lost: {sorted(both)[:5]}"
    for words, lost in _telling(node, first):
        try:
            done = naming.run(*words)
        except (OSError, KafkaStorageError):  # the program tells it, and ends with status 3
            continue
        finally:
            shutil.rmtree(room / "exported", ignore_errors=True)
        is_told = "not all was searched" in done.told or " gone" in done.told
        if lost and (not is_told if words[0] == "get" else not done.status):
            yield f"{words[0]} ends with status {done.status}, and {_short(lost)} is lost"


def _telling(
    node: Hostile, lost: dict[str, set[int]]
) -> Iterator[tuple[tuple[str | Path, ...], dict[str, set[int]]]]:
    """Yield commands that name no offsets, each with the losses that it has to tell of, by its status or in words."""
    path, out = node.path, (node.room or node.path) / "exported"
    yield ("grep", "-c", ".", path), lost
    yield ("stats", path), lost
    own = {name: offsets for name, offsets in lost.items() if not name.startswith("__")}
    yield ("export", path, out, "--on-corrupt", "skip"), own
    yield ("offsets", path), {name: lost[name] for name in node.cut & lost.keys()}
    topics = sorted({name.rpartition("-")[0] for name in node.partitions()})
    if GROUPS in topics:
        yield ("groups", path), _of_topic(GROUPS, lost)
    for topic in topics[:MOST_TOPICS]:
        name = topic.replace('"', '""')
        yield ("sql", f'select count(*) from "{name}"', path), _of_topic(topic, lost)
        yield ("get", path, topic, "no such key"), _of_topic(topic, lost)


def _of_topic(topic: str, lost: dict[str, set[int]]) -> dict[str, set[int]]:
    return {name: offsets for name, offsets in lost.items() if name.rpartition("-")[0] == topic}


def _short(lost: dict[str, set[int]]) -> str:
    spans: dict[str, str] = defaultdict(str)
    for name, offsets in lost.items():
        spans[name] = f"{min(offsets)}..{max(offsets) + 1} ({len(offsets)})"
    return str(dict(spans)) if spans else "nothing"
