"""What an interrupted compaction or split left, as a broker sees it when it loads the log.

New segments are written as ``.cleaned``, renamed to ``.swap`` when all are complete, those of the highest offsets first, and
then lose the suffix. So a ``.swap`` below all ``.cleaned`` takes the place of the segments whose offsets it covers, whatever
it holds; all else is removed. See LogLoader in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding
from engine.errors import SourceRefusedError
from engine.files.file_names import FileKind, FileState, parse_file_name
from engine.files.folder_entries import EntryKind
from engine.log.segment.scan import Damage, scan
from engine.units import MAX_INT64, Offset


class _New(NamedTuple):
    """A segment that is to replace others: what is wrong in it, and one past its last offset."""

    name: str
    base_offset: Offset
    next_offset: Offset
    damages: list[Damage]


def check_unfinished(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """What a broker would do with ``.cleaned`` and ``.swap`` segments; in a live log one is at work."""
    logs = _unfinished_logs(partition)
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
            f"a broker removes {', '.join(names[:5])}: not all of the new segments are complete",
            files=names[:100],
        )
    new = [_read(partition, base) for base in sorted(swaps) if base < first_cleaned]
    known = [each for each in new if each is not None]
    if known:
        yield from _replaces(partition, known)


def _unfinished_logs(partition: PartitionUnderCheck) -> list[tuple[Offset, FileState]]:
    found: list[tuple[Offset, FileState]] = []
    for name, kind in partition.view.files:
        parsed = parse_file_name(name) if kind is EntryKind.FILE else None
        if parsed is None or parsed.kind is not FileKind.LOG or parsed.base_offset is None:
            continue
        if parsed.state in (FileState.CLEANED, FileState.SWAP):
            found.append((parsed.base_offset, parsed.state))
    return found


def _name(base_offset: Offset, state: FileState) -> str:
    return f"{base_offset:020}{FileKind.LOG.value}{state.value}"


def _read(partition: PartitionUnderCheck, base_offset: Offset) -> _New | None:
    name = _name(base_offset, FileState.SWAP)
    damages: list[Damage] = []
    following = base_offset
    try:
        with partition.root.open(partition.relative(name), fresh=True) as file:
            budgets = partition.view.log.budgets
            for item in scan(file, 0, file.size(), next_offset=base_offset, budgets=budgets):
                if isinstance(item, Damage):
                    damages.append(item)
                else:
                    following = max(following, item.next_offset)
    except (FileNotFoundError, SourceRefusedError):
        return None
    return _New(name, base_offset, following, damages)


def _replaces(partition: PartitionUnderCheck, new: list[_New]) -> Iterator[Finding]:
    first, following = new[0].base_offset, max(each.next_offset for each in new)
    replaced = [
        segment.name for segment in partition.segments if first <= segment.base_offset < following
    ]
    what = ", ".join(replaced[:5]) if replaced else "no other"
    names = ", ".join(each.name for each in new[:5])
    yield partition.found(
        "unfinished-replaces",
        new[0].name,
        f"a broker puts {names} in the place of {what}",
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
                f"{damage.reason}, and a broker puts it in the place of {what}",
                position=damage.position,
                length=damage.length,
                first_offset=damage.first_offset,
                expected=damage.expected,
                found=damage.found,
            )
