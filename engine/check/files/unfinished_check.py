"""Check the remains of an interrupted compaction or split, as a broker handles them when it loads the log.

New segments are written as ``.cleaned``, renamed to ``.swap`` when all are complete, highest offsets first, and then lose
the suffix. So a ``.swap`` below all ``.cleaned`` replaces the segments with offsets in its range, whatever its content;
the others are deleted. See LogLoader in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding
from engine.errors import SourceRefusedError
from engine.files.file_names import FileKind, FileState, parse_file_name
from engine.log.segment.scan import BatchRun, Damage, Disorder, scan
from engine.units import MAX_INT64, Offset


class _New(NamedTuple):
    """A segment that will replace others: its damage, and one past its last offset."""

    name: str
    base_offset: Offset
    next_offset: Offset
    damages: list[Damage | Disorder]


def check_unfinished(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield findings about a broker's handling of ``.cleaned`` and ``.swap`` segments; none in a live log."""
    states = (FileState.CLEANED, FileState.SWAP)
    logs = [(base, state) for _, base, state in _logs(partition) if state in states]
    if not logs or partition.is_live:
        return
    cleaned = [base for base, state in logs if state is FileState.CLEANED]
    first_cleaned = min(cleaned, default=MAX_INT64)
    swaps = [base for base, state in logs if state is FileState.SWAP]
    undone = [base for base in swaps if base >= first_cleaned]
    if undone or cleaned:
        names = [_name(base, FileState.CLEANED) for base in sorted(cleaned)]
        names += [_name(base, FileState.SWAP) for base in sorted(undone)]
        yield partition.found(
            "unfinished-undone",
            names[0],
            f"a broker deletes {', '.join(names[:5])}: not all of the new segments are complete",
            files=names[:100],
        )
    new = [_read(partition, base) for base in sorted(swaps) if base < first_cleaned]
    known = [each for each in new if each is not None]
    if known:
        yield from _replaces(partition, known)


def _logs(partition: PartitionUnderCheck) -> Iterator[tuple[str, Offset, FileState]]:
    for name in partition.view.listing.files:
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind is FileKind.LOG and parsed.base_offset is not None:
            yield name, parsed.base_offset, parsed.state


def _name(base_offset: Offset, state: FileState) -> str:
    return f"{base_offset:020}{FileKind.LOG.value}{state.value}"


def _read(partition: PartitionUnderCheck, base_offset: Offset) -> _New | None:
    name = _name(base_offset, FileState.SWAP)
    damages: list[Damage | Disorder] = []
    following = base_offset
    try:
        with partition.root.open(partition.relative(name), fresh=True) as file:
            budgets = partition.view.log.budgets
            for item in scan(file, 0, file.size(), next_offset=base_offset, budgets=budgets):
                if isinstance(item, BatchRun):
                    following = max(following, item.next_offset)
                else:
                    damages.append(item)
    except (FileNotFoundError, SourceRefusedError):
        return None
    return _New(name, base_offset, following, damages)


def _replaces(partition: PartitionUnderCheck, new: list[_New]) -> Iterator[Finding]:
    first, following = new[0].base_offset, max(each.next_offset for each in new)
    bases = {each.base_offset for each in new}
    replaced = [
        name
        for name, base, state in _logs(partition)
        if state is FileState.LIVE and (first <= base < following or base in bases)
    ]
    what = ", ".join(replaced[:5]) if replaced else "no segment"
    names = ", ".join(each.name for each in new[:5])
    yield partition.found(
        "unfinished-replaces",
        new[0].name,
        f"a broker replaces {what} with {names}",
        first_offset=first,
        next_offset=following,
        files=[each.name for each in new],
        replaced=replaced[:1000],
    )
    for each in new:
        for damage in each.damages[:10]:
            yield partition.found(
                "unfinished-damaged",
                each.name,
                f"{damage.reason}, and a broker would replace {what} with this segment",
                position=damage.position,
                length=damage.length,
                first_offset=damage.first_offset,
                expected=damage.expected,
                found=damage.found,
            )
