"""Differences between brokers in the loading of a log, by version.

The sources of 2.8.2, 3.3.2, 3.9.1, 4.0.1 and 4.3.1, and the classes of 4.4.0, were compared; a release between two of them counts as the
older one. The differences:

- before 4.4 only the first byte of a version in a transaction index is read, and a version below 0 is accepted;
- before 4.1 an offset is looked up by the last offsets of batches instead of their base offsets, which matters
  if offsets are not in order;
- before 3.1 an interrupted replacement of segments is finished differently, see `finish_replacements`;
- from 3.7 on, in a cluster without ZooKeeper, logs that the cluster does not assign to the broker become stray,
  and a future log in the assigned log dir becomes the log;
- each release stops at levels of the cluster's features that it does not know, see `feature_levels`;
- before 4.0 a broker may run with ZooKeeper, and then needs no meta.properties.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.plan.loading.broker_segments import RULES_BEFORE_41, RULES_BEFORE_44
from engine.plan.loading.broker_steps import (
    BROKER_RULES,
    CLEANED,
    DELETED,
    INDEXES,
    LOG,
    SWAP,
    file_names,
    offset_of,
    open_segments,
    path_of,
    recover,
    recover_unflushed,
)
from engine.plan.loading.feature_levels import FEATURE_LEVELS, FeatureLevels
from engine.units import MAX_INT64
from engine.writing.log.log_loader import LoadingRules, LogLoader, splitting_overflows
from engine.writing.segment.segment_files import (
    delete_files_if_exist,
    offset_index_path,
    time_index_path,
    transaction_index_path,
)
from engine.writing.segment.segment_replacement import replace_segments

CURRENT = "4.4.0"
OLDEST = (2, 8)
NEWEST = (4, 4)
_LAST_MINOR = {2: 8, 3: 9}
_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9]{1,3})*")


def clear_leftovers(loader: LogLoader) -> None:
    """Remove incomplete files, and the indexes that replacements rebuild."""
    disk = loader.disk
    cleaned: list[str] = []
    swaps: list[str] = []
    for name in file_names(loader):
        if name.endswith(DELETED):
            disk.remove(path_of(loader, name))
        elif name.endswith(CLEANED):
            cleaned.append(name)
        elif name.endswith(SWAP):
            base = name.removesuffix(SWAP)
            if base.endswith((LOG, *INDEXES)):
                offset = offset_of(loader, name)
                for index_path in (offset_index_path, time_index_path, transaction_index_path):
                    disk.remove(index_path(loader.folder, offset), missing_ok=True)
            if base.endswith(LOG):
                swaps.append(name)
    first_cleaned = min((offset_of(loader, name) for name in cleaned), default=MAX_INT64)
    for name in swaps:
        offset = offset_of(loader, name)
        if offset >= first_cleaned:
            delete_files_if_exist(loader.folder, offset, SWAP, disk=disk)
            disk.remove(path_of(loader, name), missing_ok=True)
    for name in cleaned:
        disk.remove(path_of(loader, name))


def finish_replacements(loader: LogLoader) -> None:
    """Recover each .swap segment, and replace the segments that it overlaps."""
    for name in file_names(loader):
        if not name.endswith(LOG + SWAP):
            continue
        segment = loader.open_segment(offset_of(loader, name), suffix=SWAP)
        recover(loader, segment)
        base_offset, end = segment.base_offset, segment.read_next_offset()
        replaced = [
            each
            for each in loader.segments.values(base_offset, max(end, base_offset))
            if each.read_next_offset() > base_offset
        ]
        replace_segments(
            loader.log_folder,
            loader.segments,
            [segment],
            replaced,
            is_recovered_swap_file=True,
        )


RULES_41_TO_43 = BROKER_RULES._replace(segments=RULES_BEFORE_44)
RULES_31_TO_40 = BROKER_RULES._replace(segments=RULES_BEFORE_41)
RULES_28_TO_30 = RULES_31_TO_40._replace(
    steps=(
        clear_leftovers,
        splitting_overflows(open_segments),
        finish_replacements,
        splitting_overflows(recover_unflushed),
    )
)


_OLDER_RULES = (((4, 4), RULES_41_TO_43), ((4, 1), RULES_31_TO_40), ((3, 1), RULES_28_TO_30))
"""Rules before a release, the newest first."""


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """A version of the broker, as far as it matters for a start.

    Attributes:
        name: name as given.
        rules: rules of its loading.
        sets_aside_strays: whether the start renames stray logs, and promotes future logs.
        may_have_zookeeper: whether it may run with ZooKeeper, without a metadata log.
        feature_levels: levels of features that it knows; None before 3.3.
    """

    name: str
    rules: LoadingRules = BROKER_RULES
    sets_aside_strays: bool = True
    may_have_zookeeper: bool = False
    feature_levels: FeatureLevels | None = None


def broker_version(name: str = CURRENT) -> BrokerVersion:
    """Return the broker of a version. Raises ValueError for no version, and for an unknown one."""
    match = _VERSION.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no version of Kafka, such as {CURRENT}")
    release = int(match[1]), int(match[2])
    if not _is_release(*release):
        known = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
        raise ValueError(f"{name} is not a known version: {known} are known")
    rules = BROKER_RULES
    for first, older in _OLDER_RULES:
        if release < first:
            rules = older
    return BrokerVersion(
        name,
        rules,
        sets_aside_strays=release >= (3, 7),
        may_have_zookeeper=release < (4, 0),
        feature_levels=FEATURE_LEVELS.get(release),
    )


def _is_release(major: int, minor: int) -> bool:
    """Return whether a release exists and is known."""
    return OLDEST <= (major, minor) <= NEWEST and minor <= _LAST_MINOR.get(major, minor)
