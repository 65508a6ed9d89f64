"""The lost start of a log: segments that were there before the first one, and that nobody deleted.

Retention and DeleteRecords delete the first segments, and a broker then moves the first leader epoch to the new log start:
so an epoch that begins below the first records file belongs to records that neither deleted, and where the first epoch
does not, the log start has moved: log-start-offset-checkpoint, which is written once a minute, follows later. Compaction
keeps the base offset of the first segment. Tiered storage has the segments deleted by local retention; such logs are always in
log-start-offset-checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.errors import DamagedFileError
from engine.files.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    FileKind,
    FileState,
    log_file_name,
    parse_file_name,
)
from engine.log.tiered.root import TieredRoot
from engine.log.view.log_view import LogView
from engine.log.view.proven_end import orphan_indexes
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import EpochEntry, Offset
from engine.verdict.words import offsets_are


class Certainty(Enum):
    """How sure it is that the offsets below the first records file are lost."""

    CERTAIN = "certain"
    LIKELY = "likely"
    TIERED = "tiered"
    """Tiered storage holds them as a rule, so they are not lost."""


class StartClaim(NamedTuple):
    """An offset at which the log begins, or once began, and the file that says so."""

    offset: Offset
    file: str
    says: str


class LostStart(NamedTuple):
    """Offsets below the first records file that no file shows as deleted.

    Attributes:
        first, next: the lost offsets [first, next).
        file: name of the first records file.
        certainty: how sure the loss is.
        claims: what states that the log began earlier.
        sentence: the loss in words.
        expected: what the log should begin with.
    """

    first: Offset
    next: Offset
    file: str
    certainty: Certainty
    claims: tuple[StartClaim, ...]
    sentence: str
    expected: object


def lost_start(view: LogView, *, may_be_tiered: bool = False) -> LostStart | None:
    """Return the offsets that a log lost at its start; None where nothing shows a loss.

    Args:
        view: the log.
        may_be_tiered: whether the broker has tiered storage, which can hold a part of the log.
    """
    if view.log.only is not None or not view.base_offsets:
        return None
    if isinstance(view.log.root, TieredRoot):
        return None  # the epochs beside a copy are those of the day of the copy
    first = view.base_offsets[0]
    if view.partition.topic == CLUSTER_METADATA:
        return _metadata_log(view, first)
    stated = view.log.checkpoints.log_start_offset(view.partition)
    if stated is not None and stated >= first:
        return None
    epochs = _epochs(view)
    if epochs and epochs[0].start_offset >= first:
        return None
    claims = tuple(claim for claim in _claims(view, epochs, stated) if 0 <= claim.offset < first)
    if not claims:
        return None
    certainty = _certainty(view, is_stated=stated is not None, may_be_tiered=may_be_tiered)
    if certainty is None:
        return None
    start = min(claim.offset for claim in claims)
    says = ", ".join(claim.says for claim in claims)
    unless = ""
    if certainty is Certainty.TIERED:
        unless = " here; tiered storage holds them as a rule"
    elif stated is not None:
        unless = " here, unless tiered storage holds them"
    sentence = (
        f"{offsets_are(start, first)} gone{unless}:"
        f" the first records file begins at offset {first}, and {says}"
    )
    return LostStart(start, first, log_file_name(first), certainty, claims, sentence, start)


def _epochs(view: LogView) -> list[EpochEntry]:
    try:
        return parse_leader_epochs(view.read_side_file(LEADER_EPOCH_CHECKPOINT))
    except (DamagedFileError, OSError):
        return []


def _claims(view: LogView, epochs: list[EpochEntry], stated: Offset | None) -> Iterator[StartClaim]:
    for entry in epochs[:1]:
        says = f"leader epoch {entry.epoch} begins at offset {entry.start_offset}"
        yield StartClaim(entry.start_offset, LEADER_EPOCH_CHECKPOINT, says)
    if stated is not None:
        yield StartClaim(stated, LOG_START_OFFSET_CHECKPOINT, f"the log start is {stated}")
    for base, name in list(orphan_indexes(view.listing).items())[:1]:
        yield StartClaim(base, name, f"an index names a segment {base} that is not there")


def _certainty(view: LogView, *, is_stated: bool, may_be_tiered: bool) -> Certainty | None:
    """Return how sure a loss is; None where the broker was deleting segments when it stopped."""
    if is_stated and may_be_tiered:
        return Certainty.TIERED
    stopped_cleanly = view.log.checkpoints.stopped_cleanly()
    if stopped_cleanly and not view.live and not is_stated:
        return Certainty.CERTAIN
    if not stopped_cleanly and _deletes(view):
        return None
    return Certainty.LIKELY


def _deletes(view: LogView) -> bool:
    """Return whether the folder has records files that the broker has renamed for deletion."""
    names = map(parse_file_name, view.listing.files)
    return any(
        name is not None and name.kind is FileKind.LOG and name.state is FileState.DELETED
        for name in names
    )


def _metadata_log(view: LogView, first: Offset) -> LostStart | None:
    """Return the metadata records that are neither in a records file nor in the newest snapshot."""
    snapshots = view.listing.kraft_snapshots
    newest = snapshots[-1].end_offset if snapshots else 0
    if newest >= first:
        return None
    says = f"the newest snapshot ends at offset {newest}" if snapshots else "there is no snapshot"
    sentence = (
        f"{offsets_are(newest, first)} gone: the first records file begins at offset {first},"
        f" and {says}"
    )
    expected = f"a snapshot at offset {first} or later"
    return LostStart(newest, first, log_file_name(first), Certainty.CERTAIN, (), sentence, expected)
