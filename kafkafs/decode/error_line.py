"""Damage as JSON facts and as error lines, which replace missing records in a decoded stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.columns.batch_table import BatchProblem, Problem
from engine.errors import DamagedFileError, UnreadableError, UnsupportedCodecError
from engine.json_facts import facts_of
from engine.lines.line_decoder import LineMasking
from engine.log.segment.scan import Damage, Disorder
from kafkafs.decode.shown_text import plain_json, valid_text

if TYPE_CHECKING:
    import numpy as np

    from engine.log.segment.problems import Problems


def shown_path(path: str | None) -> str | None:
    """Return the last folder and the name of a source file's path."""
    if path is None:
        return None
    return valid_text("/".join(path.split("/")[-2:]))


def shown_facts(facts: dict[str, Any], mask: LineMasking | None) -> dict[str, Any]:
    """Return facts of damage without what may be bytes of masked records."""
    return facts if mask is None else mask.damage(facts)


def damage_facts(damage: Damage | Disorder) -> dict[str, Any]:
    """Return the JSON facts of damage in a file."""
    facts: dict[str, Any] = {
        "file": shown_path(damage.path),
        **facts_of(damage, "position length reason kind"),
        "expected": _number_or_text(damage.expected),
        "found": _number_or_text(damage.found),
        "firstOffset": damage.first_offset,
        "lastOffset": damage.last_offset,
    }
    if isinstance(damage, Damage) and damage.stretches:
        facts["unreadable"] = [
            {"position": each.position, "length": each.length} for each in damage.stretches
        ]
        facts["unprovenOffsets"] = damage.unproven
    if isinstance(damage, Damage) and damage.elsewhere:
        facts["elsewhere"] = [each.to_json() for each in damage.elsewhere]
    return facts


def error_line(damage: Damage | Disorder, mask: LineMasking | None = None) -> bytes:
    """Return the error line for bytes without readable records."""
    return _line_of(damage_facts(damage), mask)


def problem_facts(problem: BatchProblem, row: np.void, path: str) -> dict[str, Any]:
    """Return the JSON facts of a batch with a correct checksum that cannot be decoded completely.

    The offsets are those that may be lost: from the record where decoding stopped to the batch's last offset.
    """
    first: int | None = int(row["base_offset"])
    last: int | None = int(row["last_offset"])
    if problem.code is Problem.LEFTOVER_BYTES:
        first = last = None
    elif problem.record_index > 0 and row["record_count"] == last - first + 1:  # type: ignore[operator]
        first += problem.record_index  # type: ignore[operator]
    return {
        "file": shown_path(path),
        "position": int(row["position"]),
        "length": int(row["size"]),
        "reason": problem.detail,
        "kind": Problem(problem.code).name.lower(),
        "record": problem.record_index,
        "firstOffset": first,
        "lastOffset": last,
    }


def add_problem(problems: Problems, file: str, problem: BatchProblem, row: np.void) -> None:
    """Add a batch that cannot be decoded completely to a partition's problems."""
    problems.add("records", file, problem.detail, position=int(row["position"]))


def problem_line(
    problem: BatchProblem, row: np.void, path: str, mask: LineMasking | None = None
) -> bytes:
    """Return the error line that follows the records of a batch that cannot be decoded completely."""
    return _line_of(problem_facts(problem, row, path), mask)


def _line_of(facts: dict[str, Any], mask: LineMasking | None) -> bytes:
    return plain_json({"error": shown_facts(facts, mask)}) + b"\n"


def exception_facts(error: Exception) -> dict[str, Any]:
    """Return the JSON facts of an exception of the engine."""
    if isinstance(error, UnreadableError):
        return {
            "file": shown_path(error.path),
            **facts_of(error, "position length reason"),
            "kind": "unreadable",
        }
    if not isinstance(error, DamagedFileError):
        kind = "codec_missing" if isinstance(error, UnsupportedCodecError) else "unreadable"
        return {"reason": str(error), "kind": kind}
    return {
        "file": shown_path(error.path),
        "position": error.position,
        "reason": error.reason,
        "kind": type(error).__name__,
        "expected": _number_or_text(error.expected),
        "found": _number_or_text(error.found),
    }


def _number_or_text(value: object) -> int | str | None:
    return value if value is None or isinstance(value, int) else str(value)
