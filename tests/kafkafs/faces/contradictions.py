"""What faces say of a damaged log dir that differs from the truth, or from each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.kafkafs.faces.damage import METADATA, Damaged
from tests.kafkafs.faces.naming import NAMING, READERS, Said
from tests.kafkafs.faces.saying import answers


def contradictions(node: Damaged) -> Iterator[str]:
    """What any face says that differs."""
    yield from of_naming(node, {face.__name__: face(node) for face in NAMING})
    gone = _provably_gone(node)
    for answer in answers(node, gone or set()) if gone is not None else ():
        if not node.unsure:
            yield from answer.contradictions(node)


def of_naming(node: Damaged, said: Mapping[str, Said]) -> Iterator[str]:
    """What faces that name offsets say that differs.

    Args:
        node: the log dir.
        said: by the name of the face.
    """
    gone = _provably_gone(node)
    for face, says in said.items():
        truth = node.truth(of_rebuild=face == "rebuild")
        yield from _against_truth(face, says, node, truth, gone, next(iter(said.values())))


def _provably_gone(node: Damaged) -> set[str] | None:
    """The partitions that are lost for certain; None where files that would prove it are damaged, too."""
    are_spoiled = any(
        METADATA in name or "checkpoint" in name or name == "meta.properties"
        for name in node.spoiled
    )
    is_hurt = METADATA in node.unproven or METADATA in node.gone
    return None if node.gone and (are_spoiled or is_hurt) else node.gone


def _against_truth(
    face: str,
    says: Said,
    node: Damaged,
    truth: dict[str, set[int]],
    gone: set[str] | None,
    other: Said,
) -> Iterator[str]:
    does_show = face in READERS
    for name in node.partitions():
        if "serve" in face and name == METADATA:
            continue  # no client reads it
        held, is_true = node.held(name), truth.get(name, set())
        named = says.lost.get(name, set()) & held
        missed, added = is_true - named, named - is_true
        if name in node.unsure:  # nothing on disk can tell it all, so all say the same
            first = other.lost.get(name, set()) & held
            missed, added = first - named, (named - is_true) | (named - first)
        if missed or added:
            yield f"{face}, {name}: misses {_short(missed)}, adds {_short(added)}"
        shown = says.shown.get(name, set()) if does_show else held - is_true
        shows_all = name in node.unsure or face in ("python", "Spark") or shown == held - is_true
        if not (shown <= held - is_true and shows_all):
            yield f"{face}, {name}: shows {_short(shown)} of {_short(held - is_true)}"
    if gone is not None and says.gone != gone:
        yield f"{face}: {says.gone or 'nothing'} is gone, not {gone or 'nothing'}"
    is_lost = bool(truth or gone)
    is_only_lost = does_show and not (node.linked or node.unsure)
    if gone is None:
        return
    if bool(says.status) != is_lost and (is_only_lost or (is_lost and not node.unsure)):
        yield f"{face} ends with status {says.status}"


def _short(offsets: set[int]) -> str:
    return f"{len(offsets)} from {min(offsets)} on" if offsets else "none"
