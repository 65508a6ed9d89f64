"""The treemap: areas are bytes, nothing overlaps, and few rectangles stand for many folders."""

from __future__ import annotations

import random

import pytest

from engine.files.file_names import FolderState
from engine.units import TopicPartition
from engine.usage.disk_usage import Bytes, FolderUsage
from engine.usage.file_kinds import UsageKind
from kafkafs.report.axes import WIDTH
from kafkafs.report.treemap import HEIGHT, MOST_FOLDERS, MOST_TOPICS, squares, treemap


def folder(topic: str, number: int, size: int, state: FolderState = FolderState.LOG) -> FolderUsage:
    name = f"{topic}-{number}"
    kinds = {UsageKind.LOG: Bytes(size, size, 1)}
    return FolderUsage(f"/d/{name}", TopicPartition(topic, number), name, state, kinds)


@pytest.mark.parametrize("seed", range(20))
def test_rectangles_fill_the_box_by_their_weights(seed: int) -> None:
    rng = random.Random(seed)
    weights = sorted(
        (rng.randrange(1, 10 ** rng.randrange(1, 12)) for _ in range(50)), reverse=True
    )
    box = 3.0, 7.0, rng.uniform(1, 1000), rng.uniform(1, 1000)
    found = squares(weights, box)
    area = box[2] * box[3]
    for weight, (x, y, width, height) in zip(weights, found, strict=True):
        assert width * height == pytest.approx(area * weight / sum(weights), rel=1e-6, abs=1e-6)
        assert x >= box[0] - 1e-6
        assert y >= box[1] - 1e-6
        assert x + width <= box[0] + box[2] + 1e-6
        assert y + height <= box[1] + box[3] + 1e-6


def test_each_folder_has_a_rectangle_that_names_it() -> None:
    drawn = treemap([folder("a", 0, 3000), folder("a", 1, 2000), folder("b", 0, 1000)])
    assert drawn is not None
    assert [shape.text.partition(":")[0] for shape in drawn.shapes] == ["a-0", "a-1", "b-0"]
    assert [shape.kind for shape in drawn.shapes] == ["block0", "block0", "block1"]
    assert [label.text for label in drawn.labels] == ["a", "b"]


def test_what_a_broker_set_aside_has_a_colour_of_its_own() -> None:
    kept = folder("a", 0, 3000)
    kept.kinds[UsageKind.DELETED] = Bytes(1000, 1000, 1)
    drawn = treemap([kept, folder("b", 0, 500, FolderState.STRAY)])
    assert drawn is not None
    assert [(shape.text.partition(":")[0], shape.kind) for shape in drawn.shapes] == [
        ("a-0", "block0"),
        ("a-0, set aside", "below"),
        ("b-0, set aside", "below"),
    ]


def test_many_topics_and_folders_are_few_rectangles_within_the_picture() -> None:
    folders = [folder(f"t{n}", 0, n + 1) for n in range(2 * MOST_TOPICS)]
    folders += [folder("large", n, 10_000) for n in range(3 * MOST_FOLDERS)]
    drawn = treemap(folders)
    assert drawn is not None
    assert len(drawn.shapes) <= MOST_TOPICS + MOST_FOLDERS + 1
    for shape in drawn.shapes:
        assert 0 <= shape.x <= shape.x + shape.width <= WIDTH + 1
        assert 0 <= shape.y <= shape.y + shape.height <= HEIGHT + 1
    assert any("more" in shape.text for shape in drawn.shapes)


def test_without_bytes_there_is_no_picture() -> None:
    assert treemap([]) is None
    assert treemap([folder("a", 0, 0)]) is None
