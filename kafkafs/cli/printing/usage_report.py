"""Output of `kafkafs du`: tables for people, or one JSON object a line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import click

from engine.files.file_names import FolderState
from engine.json_facts import facts_of
from engine.usage.cleaning_rules import DirtyPart
from engine.usage.disk_usage import Bytes, FolderUsage, summed
from engine.usage.file_kinds import UsageKind
from engine.usage.growth import full_at
from engine.usage.predictions import Prediction
from engine.usage.source_usage import FileSystem, UsedDisk
from kafkafs.amounts import counted, size, time
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import print_json, print_table
from kafkafs.decode.shown_text import printable
from kafkafs.disk_words import bounds_text, kind_name
from kafkafs.mount.mount_table import read_mounts

_TOPICS = ("TOPIC", "PARTITIONS", "SIZE", "ALLOCATED", "APPARENT", "FILES", "A-DAY")
_FOLDERS = (
    "FOLDER", "SIZE", "ALLOCATED", "APPARENT", "LOG", "INDEXES", "SIDE-FILES", "SET-ASIDE", "A-DAY",
)  # fmt: skip
_KINDS = ("KIND", "SIZE", "ALLOCATED", "APPARENT", "FILES")
_RETENTION = ("PARTITION", "POLICY", "NOW", "SEGMENTS", "REASON", "THEN", "AT", "KEPT-BY")
_CLEANING = ("PARTITION", "CLEAN", "DIRTY", "RATIO", "FROM", "CLEANED-NEXT")
_ASIDE = (UsageKind.DELETED, UsageKind.CLEANED)


def print_usage(found: UsedDisk) -> None:
    """Print tables, the largest first, and sentences on what comes next."""
    _print_bytes(found)
    _print_growth(found)
    for system in found.file_systems:
        say(_disk_sentence(found, system))
    _print_retention(found)
    _print_cleaning(found)
    for each in found.advice:
        words = "may go without a loss" if each.may_go else "must not be deleted"
        more = len(each.paths) - 1 + each.others
        place = printable(each.paths[0]) + (f" and {counted(more, 'more folder')}" if more else "")
        kind = kind_name(each.kind)
        say(f"{words}: {kind}, {size(each.total.allocated)} in {place}: {each.reason}")
    for note in found.notes:
        say(printable(note))


def _print_bytes(found: UsedDisk) -> None:
    topics = _by_topic(found.folders)
    rows = [
        (topic, number, *_sizes(total), total.files, _a_day(found, names))
        for topic, (number, total, names) in topics
    ]
    if rows:
        print_table(_TOPICS, rows, has_numbers=True)
        click.echo()
    print_table(
        _FOLDERS,
        [_folder_row(found, each) for each in _largest(found.folders)],
        has_numbers=True,
    )
    click.echo()
    kinds = found.by_kind()
    print_table(
        _KINDS,
        [(kind_name(kind.value), *_sizes(total), total.files) for kind, total in kinds],
        has_numbers=True,
    )
    click.echo()
    total = found.total
    say(
        f"{size(total.allocated)} in {counted(total.files, 'file')}:"
        f" {total.allocated:,} bytes allocated (du -B1),"
        f" {total.apparent:,} apparent (du --apparent-size -B1)"
    )


def _sizes(total: Bytes) -> tuple[str, int, int]:
    return size(total.allocated), total.allocated, total.apparent


def _largest(folders: Iterable[FolderUsage]) -> list[FolderUsage]:
    return sorted(folders, key=lambda each: (-each.total.allocated, each.path))


def _by_topic(
    folders: Iterable[FolderUsage],
) -> list[tuple[str, tuple[int, Bytes, list[str]]]]:
    """Return topics with the number of their folders, bytes and names of logs, the largest first."""
    found: dict[str, tuple[int, Bytes, list[str]]] = {}
    for each in folders:
        if each.partition is not None:
            number, total, names = found.get(each.partition.topic, (0, Bytes(), []))
            total.add(each.total)
            found[each.partition.topic] = number + 1, total, [*names, each.name]
    return sorted(found.items(), key=lambda item: (-item[1][1].allocated, item[0]))


def _folder_row(found: UsedDisk, folder: FolderUsage) -> tuple[object, ...]:
    kinds = folder.kinds
    is_aside = folder.state is not FolderState.LOG
    aside = folder.total if is_aside else summed(kinds[kind] for kind in _ASIDE if kind in kinds)
    return (
        folder.name or folder.path,
        *_sizes(folder.total),
        _shown(kinds.get(UsageKind.LOG)),
        _shown(kinds.get(UsageKind.INDEXES)),
        _shown(kinds.get(UsageKind.SIDE_FILES)),
        _shown(aside),
        None if is_aside or folder.partition is None else _a_day(found, [folder.name]),
    )


def _shown(total: Bytes | None) -> str | None:
    return None if total is None or not total.files else size(total.allocated)


def _a_day(found: UsedDisk, names: Iterable[str]) -> str | None:
    grown = found.grown
    rates = [] if grown is None else [grown.a_day_of(name) for name in names if name in grown.sizes]
    known = [rate for rate in rates if rate is not None]
    return size(round(sum(known))) if known else None


def _print_growth(found: UsedDisk) -> None:
    grown = found.grown
    if grown is None:
        say("growth: unknown, no record has a timestamp")
    elif grown.a_day is None:
        say(f"growth: unknown, all records are of {time(grown.until)}")
    else:
        say(
            f"growth: {size(round(grown.a_day))} of records a day, from {time(grown.since)} to"
            f" {time(grown.until)} UTC by the records' timestamps: the producers' clocks, or the"
            " brokers' with LogAppendTime; never after a file's modification time"
        )


def _disk_sentence(found: UsedDisk, system: FileSystem) -> str:
    facts = (
        f"disk of {printable(', '.join(system.paths))} ({_mounted(system)}): {size(system.size)},"
        f" {size(system.free)} free"
    )
    if not system.is_live:
        return f"{facts}; no broker has it open: as it may be a copy's, when it is full is not said"
    grown, logs = found.grown, _logs_on(found, system)
    if grown is None or not grown.a_day:
        return f"{facts}; the growth is unknown, so when it is full is, too"
    kept = _moment(full_at(system.free, logs, grown, keeps_all=True))
    with_retention = _moment(full_at(system.free, logs, grown))
    return (
        f"{facts}; at that rate it is full {kept} if nothing is deleted,"
        f" {with_retention} with what retention takes"
    )


def _moment(at: int | None) -> str:
    return "never" if at is None else f"at {time(at)} UTC"


def _logs_on(found: UsedDisk, system: FileSystem) -> list[Prediction]:
    return [
        each
        for each in found.predictions
        if any(each.log.folder == path or each.log.folder.startswith(f"{path}/") for path in system.paths)
    ]  # fmt: skip


def _mounted(system: FileSystem) -> str:
    device = f"{os.major(system.device)}:{os.minor(system.device)}"
    for mount in reversed(read_mounts()):
        if mount.device == device:
            return f"{printable(mount.kind)} at {printable(mount.mountpoint)}"
    return "an unknown file system"


def _print_retention(found: UsedDisk) -> None:
    rows = [_retention_row(each) for each in found.next_to_go()]
    if not rows:
        return
    click.echo()
    source = (
        "topics' configurations from the metadata log"
        if found.has_metadata
        else "no metadata log here: the broker's configuration for all topics"
    )
    say(f"retention at {time(found.predictions[0].now)} UTC, {source}:")
    print_table(_RETENTION, rows)


def _retention_row(each: Prediction) -> tuple[object, ...]:
    due, later = each.due, each.later
    first = [one for one in later if one.at == later[0].at]
    then = size(sum(one.segment.allocated for one in first)) if first else None
    at: str | None = time(first[0].at) if first else None
    if not first and each.bytes_until_next is not None:
        at = f"after {size(each.bytes_until_next)} more"
    return (
        each.log.name,
        each.rules.policy,
        size(each.due_bytes) if due else None,
        f"{len(due)} of {len(each.log.segments)}" + (", rolls" if each.rolls else ""),
        ",".join(dict.fromkeys(one.reason for one in due)),
        then,
        at,
        bounds_text(each),
    )


def _print_cleaning(found: UsedDisk) -> None:
    cleaned = [each for each in found.predictions if each.cleaning is not None]
    if not cleaned:
        return
    click.echo()
    say(
        "compaction, of the filthiest log first, each log.cleaner.backoff.ms (15 s); tombstones stay"
        " delete.retention.ms after their first cleaning:"
    )
    print_table(_CLEANING, [_cleaning_row(each) for each in cleaned])


def _cleaning_row(each: Prediction) -> tuple[object, ...]:
    part = each.cleaning
    assert part is not None
    ratio = each.rules.config.min_cleanable_ratio
    return (
        each.log.name,
        size(part.clean_bytes),
        size(part.cleanable_bytes),
        f"{part.cleanable_ratio:.2f} of {ratio:.2f}",
        part.first_dirty_offset,
        _next_cleaning(each, part),
    )


def _next_cleaning(each: Prediction, part: DirtyPart) -> str:
    if each.is_cleaned_next:
        return "yes"
    missing = part.bytes_until(each.rules.config.min_cleanable_ratio)
    if missing is None:
        return "no"
    return f"after {size(missing)} more" if missing else "when a segment is rolled"


def print_usage_json(found: UsedDisk) -> None:
    """Print folders, predictions, advice, file systems and sums, one object a line."""
    for facts in _facts(found):
        print_json(facts)


def _facts(found: UsedDisk) -> Iterator[dict[str, Any]]:
    grown = found.grown
    for folder in _largest(found.folders):
        rate = (
            None if grown is None or folder.name not in grown.sizes else grown.a_day_of(folder.name)
        )
        yield {
            "type": "folder",
            "path": folder.path,
            "partition": folder.name if folder.partition is not None else None,
            "topic": None if folder.partition is None else folder.partition.topic,
            "state": folder.state.value.removeprefix("-") or "log",
            **folder.total.facts(),
            "kinds": {kind.value: total.facts() for kind, total in sorted(folder.kinds.items(), key=lambda item: item[0].value)},
            "bytesADay": None if rate is None else round(rate),
        }  # fmt: skip
    for prediction in found.predictions:
        yield _prediction_facts(prediction)
    for each in found.advice:
        yield {"type": "advice", **each.facts()}
    for system in found.file_systems:
        yield _system_facts(found, system)
    yield {
        "type": "summary",
        **found.total.facts(),
        "kinds": {kind.value: total.facts() for kind, total in found.by_kind()},
        "bytesADay": None if grown is None or grown.a_day is None else round(grown.a_day),
        "growthSince": None if grown is None else grown.since,
        "growthUntil": None if grown is None else grown.until,
        "hasMetadata": found.has_metadata,
        "notes": found.notes,
    }


def _prediction_facts(each: Prediction) -> dict[str, Any]:
    part, config = each.cleaning, each.rules.config
    return {
        "type": "prediction",
        **facts_of(each, "partition=log.name topic=log.partition.topic at=now "
"cleanupPolicy=rules.policy"),
        **facts_of(config, "retention_ms retentionBytes=retention_size file_delete_delay_ms"),
        **facts_of(each, "isTiered=rules.is_tiered isConfigurationKnown=rules.is_known "
"logStartOffset=log.log_start_offset logEndOffset=log.log_end_offset"),
        "due": [one.facts() for one in each.due],
        "later": [one.facts() for one in each.later],
        "rolls": each.rolls,
        "bytesUntilNext": each.bytes_until_next,
        "cleaning": None if part is None else {
            **facts_of(part, "first_dirty_offset endOffset=end clean_bytes cleanable_bytes cleanable_ratio"),
            "minCleanableRatio": config.min_cleanable_ratio,
            "bytesUntilNext": part.bytes_until(config.min_cleanable_ratio),
            "deleteRetentionMs": config.delete_retention_ms,
            "isNext": each.is_cleaned_next,
        },
    }  # fmt: skip


def _system_facts(found: UsedDisk, system: FileSystem) -> dict[str, Any]:
    grown, logs = found.grown, _logs_on(found, system)
    can_say = system.is_live and grown is not None and bool(grown.a_day)
    return {
        "type": "fileSystem",
        "paths": system.paths,
        "mounted": _mounted(system),
        **facts_of(system, "bytes=size freeBytes=free is_live"),
        "fullAt": full_at(system.free, logs, grown) if can_say and grown else None,
        "fullAtIfKept": full_at(system.free, logs, grown, keeps_all=True) if can_say and grown else None,
    }  # fmt: skip
