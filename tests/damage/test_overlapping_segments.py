"""Segments that overlap, as a crash or a copy in the middle of a compaction or a split leaves them: every record once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from engine.log.log_directory import open_source
from tests.damage.moved_blocks import served
from tests.damage.moved_faces import differences_of_faces
from tests.swap_states import SHAPES, Shape, all_states, write_state

NAME = "t-0"
EACH = 4


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_face_shows_each_record_once(tmp_path: Path, shape: Shape) -> None:
    """What begins behind the base offset of a segment begins in it, as a fetch does: ranges are not compared.

    So a consumer that fetches again in the middle may get, once, what a compaction has removed.
    """
    states = list(all_states(shape, (".log",)))
    Random(shape.name).shuffle(states)
    overlapping = 0
    for number, state in enumerate(states):
        folder = tmp_path / str(number)
        write_state(folder / NAME, state)
        view = open_source(str(folder)).partitions()[NAME].view()
        if not any(view.segment_at(place).reaches_beyond for place in range(len(view))):
            continue
        records, _, wrong = served(view)
        wrong += differences_of_faces(folder, NAME, records)
        wrong = [each for each in wrong if not each.startswith("tree: range")]
        wrong = [each for each in wrong if not (each.startswith("serve") and "lost []" in each)]
        assert not wrong, (sorted(state), wrong)
        overlapping += 1
        if overlapping == EACH:
            break
    assert bool(overlapping) == any(each for each in shape.new.values())
