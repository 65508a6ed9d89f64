"""Partition folders as a crash leaves them in the middle of a compaction or a split: all states of the files' names.

See replaceSegments in LocalLog of Kafka: new segments are `.cleaned`, then `.swap`, then have their names; the old
ones become `.deleted` before that, and go later. A file system may bring these names to the disk in another order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tests.builders import Rec, batch, segment_files

State = Mapping[str, bytes]
"""Contents of a partition's folder by name."""
Files = dict[str, bytes]
_ORDER = (".log", ".index", ".timeindex", ".txnindex")
_INTERVAL = 100


class Shape(NamedTuple):
    """A replacement of segments.

    Attributes:
        name: names it in a test.
        old, new: files of the segments by their names in the log.
        others: files that stay: earlier and later segments.
        before, after: offsets of the records of the log, with the old segments and with the new ones.
    """

    name: str
    old: Files
    new: Files
    others: Files
    before: list[int]
    after: list[int]

    @property
    def leaves_records(self) -> bool:
        """Whether the new segments have records."""
        return any(self.new.values())


def _segment(base: int, offsets: list[int], *, snapshot: bool = False) -> Files:
    """A segment with a batch for each record, which is large enough for several index entries."""
    batches = [batch([Rec(b"%d" % each * 40, key=b"k%d" % (each % 5))], each) for each in offsets]
    return segment_files(batches, base, index_interval=_INTERVAL, snapshot=() if snapshot else None)


def _made(
    name: str,
    old: dict[int, list[int]],
    new: dict[int, list[int]],
    others: dict[int, list[int]],
) -> Shape:
    def files(segments: dict[int, list[int]], *, snapshot: bool = False) -> Files:
        found: Files = {}
        for base, offsets in segments.items():
            found |= _segment(base, offsets, snapshot=snapshot and base > 0)
        return found

    def offsets(segments: dict[int, list[int]]) -> list[int]:
        return sorted(
            each for found in (segments, others) for some in found.values() for each in some
        )

    snapshots = {
        each: data for each, data in files(old, snapshot=True).items() if each.endswith(".snapshot")
    }
    return Shape(
        name,
        files(old),
        files(new),
        files(others) | snapshots,
        offsets(old),
        offsets(new),
    )


def _range(start: int, stop: int) -> list[int]:
    return list(range(start, stop))


SHAPES = (
    _made(
        "compaction of three into one",
        {0: _range(0, 8), 8: _range(8, 16), 16: _range(16, 24)},
        {0: [2, 7, 11, 17, 18, 23]},
        {24: _range(24, 30)},
    ),
    _made(
        "compaction of two between others",
        {8: _range(8, 23), 23: [23]},
        {8: [9, 15, 23]},
        {0: _range(0, 8), 24: _range(24, 30)},
    ),
    _made(
        "compaction that leaves nothing",
        {8: _range(8, 16), 16: _range(16, 24)},
        {8: []},
        {0: _range(0, 8), 24: _range(24, 30)},
    ),
    _made(
        "split of one into three",
        {8: _range(8, 24)},
        {8: _range(8, 12), 12: _range(12, 20), 20: _range(20, 24)},
        {0: _range(0, 8), 24: _range(24, 30)},
    ),
    _made(
        "split of the last segment",
        {8: _range(8, 24)},
        {8: _range(8, 16), 16: _range(16, 24)},
        {0: _range(0, 8)},
    ),
    _made("split of all", {0: _range(0, 24)}, {0: _range(0, 12), 12: _range(12, 24)}, {}),
)


def _by_base(files: Files) -> dict[int, list[str]]:
    """The names of segments' files, in the order in which Kafka renames them."""
    found: dict[int, list[str]] = {}
    for name in sorted(files, key=lambda each: _ORDER.index(each[20:])):
        found.setdefault(int(name[:20]), []).append(name)
    return found


def states_in_order(shape: Shape) -> Iterator[tuple[State, bool]]:
    """Each state that a broker passes through, and whether the log has its new segments: once none is `.cleaned`."""
    state = {**shape.others, **shape.old}
    yield dict(state), False
    new, old = _by_base(shape.new), _by_base(shape.old)
    for base in sorted(new):
        for name in new[base]:
            state[f"{name}.cleaned"] = shape.new[name]
            yield dict(state), False
    moves = [
        (f"{name}.cleaned", f"{name}.swap")
        for base in sorted(new, reverse=True)
        for name in new[base]
    ]
    moves += [(name, f"{name}.deleted") for base in sorted(old) for name in old[base]]
    moves += [(f"{name}.swap", name) for base in sorted(new) for name in new[base]]
    for before, after in moves:
        state[after] = state.pop(before)
        yield dict(state), not any(each.endswith(".cleaned") for each in state)
    for name in [each for each in state if each.endswith(".deleted")]:
        del state[name]
        yield dict(state), True


def replace_segments(folder: Path, shape: Shape, chance: random.Random) -> None:
    """Do to a folder with the old segments what a broker does, at its pace."""
    before: State | None = None
    for state, _ in states_in_order(shape):
        if before is not None:
            gone, new = before.keys() - state.keys(), state.keys() - before.keys()
            if gone and new:
                (folder / gone.pop()).rename(folder / new.pop())
            elif new:
                name = new.pop()
                (folder / name).write_bytes(state[name])
            else:
                (folder / gone.pop()).unlink()
            time.sleep(chance.choice((0.0, 0.0, 0.0001, 0.002)))
        before = state


def all_states(shape: Shape, suffixes: tuple[str, ...] = (".log", ".index")) -> Iterator[State]:
    """Every combination: each new file `.cleaned`, `.swap` or renamed, each old one there, `.deleted` or gone.

    Files of other suffixes stay with the records file of their segment.
    """
    new = [name for name in shape.new if name.endswith(suffixes)]
    old = [name for name in shape.old if name.endswith(suffixes)]
    choices = [(".cleaned", ".swap", "")] * len(new) + [("", ".deleted", None)] * len(old)
    for chosen in product(*choices):
        yield _state(
            shape,
            dict(zip(new, chosen[: len(new)], strict=True)),
            dict(zip(old, chosen[len(new) :], strict=True)),
        )


def some_states(shape: Shape, seed: int, number: int) -> Iterator[State]:
    """Some of the combinations of all files."""
    chance = random.Random(seed)
    for _ in range(number):
        yield _state(
            shape,
            {name: chance.choice((".cleaned", ".swap", ".swap", "")) for name in shape.new},
            {name: chance.choice(("", ".deleted", None)) for name in shape.old},
        )


def _state(shape: Shape, new: Mapping[str, str | None], old: Mapping[str, str | None]) -> State:
    def ending(choices: Mapping[str, str | None], name: str) -> str | None:
        return choices[name] if name in choices else choices[f"{name[:20]}.log"]

    state = dict(shape.others)
    for name, data in shape.old.items():
        end = ending(old, name)
        if end is not None:
            state[name + end] = data
    for name, data in shape.new.items():
        end = ending(new, name)
        assert end is not None
        state[name + end] = data
    return state


def write_state(folder: Path, state: State) -> Path:
    """Make a partition's folder."""
    folder.mkdir(parents=True)
    for name, data in state.items():
        (folder / name).write_bytes(data)
    return folder
