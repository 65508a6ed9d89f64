"""Words for ranges of offsets, and for the places that may still hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.log.segment.damage import Elsewhere, ElsewhereKind
from engine.units import Offset

_MOST_NAMES = 3


def offsets_are(first: Offset, following: Offset) -> str:
    """Return the subject of a sentence about the offsets [first, following), with its verb."""
    number = following - first
    if number == 1:
        return f"offset {first} is"
    return f"offsets {first} to {following - 1} ({number}) are"


def may_be_in(places: Iterable[Elsewhere]) -> str:
    """Return where lost records may still be, and what reads or takes them; "" for no place."""
    return "; ".join(_sentences(list(places)))


def _sentences(places: Sequence[Elsewhere]) -> Iterator[str]:
    def named(kind: ElsewhereKind, *, files: bool | None = None) -> list[str]:
        return [
            each.name
            for each in places
            if each.kind is kind and (files is None or files is ("/" in each.name))
        ]

    hold = "may still hold them"
    if names := named(ElsewhereKind.LEFTOVER, files=True):
        yield f"{_listed(names)} {hold}: kafkafs grep --deleted, kafkafs rebuild --deleted"
    if names := named(ElsewhereKind.LEFTOVER, files=False):
        yield f"{_listed(names)} {hold}: kafkafs grep --deleted, kafkafs rebuild --partition"
    if names := named(ElsewhereKind.COPY):
        yield f"{_listed(names)} {hold}: kafkafs rebuild --merge"
    if names := named(ElsewhereKind.TIERED):
        yield f"{_listed(names)} {hold}"
    nodes = named(ElsewhereKind.REPLICA)
    if nodes:
        have = f"broker {nodes[0]} has a replica"
        if len(nodes) > 1:
            have = f"brokers {_listed(nodes)} have replicas"
        yield f"{have}: kafkafs rebuild --merge"


def _listed(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
