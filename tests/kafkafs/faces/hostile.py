"""The faces over a hostile log dir, of which nobody knows the truth: they say one thing.

Lost is what no reader can have any more. A record that cannot be decoded is not lost, as its bytes are there; nor is a
batch that was being written. A face that refuses a source with a sentence says nothing.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from engine.files.file_names import FolderState
from engine.log.leftover_logs import state_of
from engine.log.log_directory import open_source
from engine.verdict.log_losses import losses_of
from tests.kafkafs.faces import naming
from tests.kafkafs.faces.damage import Damaged, SoundNode
from tests.kafkafs.faces.naming import READERS, Said

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


class Hostile(Damaged):
    """A hostile log dir: the logs that it has, and the largest offset that any of them had."""

    def partitions(self) -> list[str]:
        """The logs."""
        return sorted(self.sound.ends)

    def controls(self, name: str) -> set[int]:
        """None: readers without control records are not compared for them."""
        return set()


def hostile(path: Path, room: Path) -> Hostile:
    """Look at a log dir; commands may write below the room."""
    sound = SoundNode(path)
    with closing(open_source(str(path))) as source:
        for name, log in source.partitions().items():
            view = log.view_or_none() if state_of(log) is FolderState.LOG else None
            if view is not None and name.isprintable():
                end = losses_of(view).end
                lost = 0 if end is None else end.next_offset or 0
                sound.ends[name] = max(view.log_end_offset, lost)
    return Hostile(path, sound, room=room)


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


TELLING: dict[str, tuple[str, ...]] = {
    "grep": ("grep", "-c", "."),
    "stats": ("stats",),
    "export": ("export",),
}
"""Commands that name no offsets, and have to end with a status that tells of a loss."""


def contradictions(path: Path, room: Path) -> Iterator[str]:
    """What the faces say of a log dir that differs.

    Args:
        path: the log dir.
        room: an empty folder for what commands write.
    """
    node = hostile(path, room)
    rows = table(node)
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
    out = room / "exported"
    for face, words in TELLING.items():
        options: tuple[Any, ...] = (out, "--on-corrupt", "skip") if face == "export" else ()
        try:
            done = naming.run(*words, path, *options)
        except OSError:  # the program tells it, and ends with status 3
            continue
        shutil.rmtree(out, ignore_errors=True)
        if first and not done.status:
            yield f"{face} ends with status 0, and {_short(first)} is lost"


def _short(lost: dict[str, set[int]]) -> str:
    spans: dict[str, str] = defaultdict(str)
    for name, offsets in lost.items():
        spans[name] = f"{min(offsets)}..{max(offsets) + 1} ({len(offsets)})"
    return str(dict(spans)) if spans else "nothing"
