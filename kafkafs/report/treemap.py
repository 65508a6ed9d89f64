"""Sizes on the disk as nested rectangles: topics, and in them their folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from engine.files.file_names import FolderState
from engine.usage.disk_usage import FolderUsage
from engine.usage.file_kinds import UsageKind
from kafkafs import amounts
from kafkafs.report.axes import WIDTH
from kafkafs.report.pictures import Shape

HEIGHT = 340
MOST_TOPICS = 60
MOST_FOLDERS = 40
_OTHERS = "others"
_LABEL_WIDTH, _LABEL_HEIGHT = 60, 18
_ASIDE = (UsageKind.DELETED, UsageKind.CLEANED, UsageKind.TIERED_CACHE)


class Label(NamedTuple):
    """A text in a rectangle: place and size in percent across and in pixels down, and the text."""

    x: float
    y: float
    width: float
    height: float
    text: str


class Treemap(NamedTuple):
    """Rectangles whose areas are bytes.

    Attributes:
        height: of the coordinates.
        shapes: a rectangle for each folder, or for the smallest ones together; what a broker set aside is apart.
        labels: names of topics.
    """

    height: int
    shapes: list[Shape]
    labels: list[Label]


class _Part(NamedTuple):
    name: str
    size: int
    kind: str


def treemap(folders: Iterable[FolderUsage]) -> Treemap | None:
    """Draw the allocated bytes of folders; None without bytes."""
    topics: dict[str, list[_Part]] = {}
    for folder in folders:
        name = folder.name or "files of the log dir"
        topic = name if folder.partition is None else folder.partition.topic
        topics.setdefault(topic, []).extend(_parts(folder, name))
    sizes = {topic: sum(each.size for each in parts) for topic, parts in topics.items()}
    order = sorted(
        (topic for topic in topics if sizes[topic]), key=lambda each: (-sizes[each], each)
    )
    if not order:
        return None
    drawn = order[:MOST_TOPICS]
    left = [part for topic in order[MOST_TOPICS:] for part in topics[topic]]
    areas = [(topic, topics[topic]) for topic in drawn]
    if left:
        others = f"{len(order) - len(drawn):,} more"
        areas.append((others, [_Part(others, sum(part.size for part in left), "below")]))
    shapes: list[Shape] = []
    labels: list[Label] = []
    weights = [sum(part.size for part in parts) for _, parts in areas]
    whole = 0.0, 0.0, float(WIDTH), float(HEIGHT)
    for number, ((topic, parts), box) in enumerate(
        zip(areas, squares(weights, whole), strict=True)
    ):
        shapes += _folders(parts, box, f"block{number % 2}")
        x, y, width, height = box
        if width >= _LABEL_WIDTH and height >= _LABEL_HEIGHT:
            at = round(100 * x / WIDTH, 2), round(y, 1)
            size = round(100 * width / WIDTH, 2), round(height, 1)
            labels.append(Label(*at, *size, topic))
    return Treemap(HEIGHT, shapes, labels)


def _parts(folder: FolderUsage, name: str) -> Iterator[_Part]:
    """Yield what of a folder is in use, and what a broker set aside."""
    total = folder.total.allocated
    aside = sum(folder.kinds[kind].allocated for kind in _ASIDE if kind in folder.kinds)
    if folder.state is not FolderState.LOG:
        aside = total
    if total > aside:
        yield _Part(name, total - aside, "")
    if aside:
        yield _Part(f"{name}, set aside", aside, "below")


def _folders(
    parts: Sequence[_Part], box: tuple[float, float, float, float], kind: str
) -> Iterator[Shape]:
    """Yield the rectangles of a topic's folders, the largest first."""
    order = sorted((part for part in parts if part.size), key=lambda each: (-each.size, each.name))
    drawn, left = order[:MOST_FOLDERS], order[MOST_FOLDERS:]
    if left:
        drawn.append(_Part(f"{len(left):,} more", sum(part.size for part in left), ""))
    for part, (x, y, width, height) in zip(
        drawn, squares([part.size for part in drawn], box), strict=True
    ):
        gap = 1.0 if min(width, height) > 4 else 0.0
        yield Shape(
            round(x, 2),
            round(y, 2),
            round(max(width - gap, 0.3), 2),
            round(max(height - gap, 0.3), 2),
            part.kind or kind,
            f"{part.name}: {amounts.size(part.size)}",
        )


def squares(
    weights: Sequence[int], box: tuple[float, float, float, float]
) -> list[tuple[float, float, float, float]]:
    """Return rectangles with areas by weights, nearly square, that fill a box; the squarified treemap.

    Args:
        weights: positive, descending.
        box: x, y, width and height.

    >>> squares([2, 1, 1], (0, 0, 4, 2))
    [(0, 0.0, 2.0, 2.0), (2.0, 0.0, 2.0, 1.0), (2.0, 1.0, 2.0, 1.0)]
    """
    x, y, width, height = box
    left = sum(weights)
    found: list[tuple[float, float, float, float]] = []
    at = 0
    while at < len(weights):
        short = min(width, height)
        scale = width * height / left
        end = at + 1
        while end < len(weights) and _worst(weights[at : end + 1], short, scale) <= _worst(
            weights[at:end], short, scale
        ):
            end += 1
        total = sum(weights[at:end])
        thick = total * scale / short if short else 0.0
        along = 0.0
        for weight in weights[at:end]:
            long = short * weight / total
            if width >= height:
                found.append((x, y + along, thick, long))
            else:
                found.append((x + along, y, long, thick))
            along += long
        if width >= height:
            x, width = x + thick, max(width - thick, 0.0)
        else:
            y, height = y + thick, max(height - thick, 0.0)
        left -= total
        at = end
    return found


def _worst(row: Sequence[int], short: float, scale: float) -> float:
    """Return the largest ratio of the sides of a row's rectangles."""
    total = sum(row) * scale
    if not total or not short:
        return 1.0
    return max(
        short * short * max(row) * scale / (total * total),
        total * total / (short * short * min(row) * scale),
    )
