"""Tiered copies of segments: read what each holds, and choose those that are the log.

A segment may be copied more than once: a copy was retried, or another leader copied its own segments, which start
at other offsets. Kafka's remote log metadata tells the copies apart by leader epochs and takes, for an offset, the
copy with the highest start. Here only the copies exist: the newest leader epochs in one of them are the lineage of
the log. Copies that contradict the lineage, or that another copy covers, are left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.budgets import DEFAULT_BUDGETS
from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from engine.errors import DamagedFileError
from engine.files.file_names import parse_tiered_file_name
from engine.files.source_files import SourceFile, SourceRoot
from engine.index.offset_index import OffsetIndex
from engine.log.segment.scan import BatchRun, scan
from engine.log.tiered.data_keys import may_open
from engine.log.tiered.decoded_file import decoded_status, opened_part
from engine.log.tiered.manifest import INDEXES, MANIFEST, SegmentManifest, parse_manifest
from engine.record.batch_frame import MAGIC_POSITION, UP_TO_MAGIC
from engine.units import MAX_INT64, EpochEntry, Offset, Position

LOG, OFFSET_INDEX = ".log", ".index"
LEADER_EPOCHS = ".leader_epoch_checkpoint"
_LAST_FILES = (".snapshot", MANIFEST)
"""Files that are copied last: a copy with one is complete."""
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class TieredCopy:
    """One copy of a segment.

    Attributes:
        base_offset: base offset in the name.
        files: paths by the suffix after the segment's id, `.log` among them; those in `.indexes` too.
        next_offset: one past the last good batch.
        last_epoch: leader epoch of that batch; -1 without one.
        is_whole: whether all files are there, and the last batch ends at the end of the `.log`.
        epochs: starts of its leader epochs, when known without its checkpoint.
        manifest: its manifest, if it has one that can be read.
        fault: why a manifest that it should have is not known; "" if it is.
    """

    base_offset: Offset
    files: Mapping[str, str]
    next_offset: Offset
    last_epoch: int
    is_whole: bool
    epochs: tuple[EpochEntry, ...] = ()
    manifest: SegmentManifest | None = None
    fault: str = ""

    @property
    def path(self) -> str:
        """Path of the records file."""
        return self.files[LOG]

    @property
    def end(self) -> Offset:
        """One past the offsets of the copy, which has at least its base offset."""
        return max(self.next_offset, self.base_offset + 1)


class ChosenCopy(NamedTuple):
    """A copy that is a segment of the log, up to `end`, at which another copy may go on."""

    copy: TieredCopy
    end: Offset

    @property
    def is_cut(self) -> bool:
        """Whether the log goes on in another copy before this one ends."""
        return self.end < self.copy.end


class Choice(NamedTuple):
    """The log's segments, ascending; its newest copy; the reasons to leave out other copies, by path."""

    chosen: list[ChosenCopy]
    newest: TieredCopy | None
    reasons: dict[str, str]


# Contents of a copy


def is_encoded(manifest: SegmentManifest | None, suffix: str) -> bool:
    """Return whether a file of a copy is not an object of its own, with the same bytes."""
    if manifest is None:
        return False
    return suffix in manifest.sections or (suffix == LOG and manifest.is_encoded)


def object_path(path: str, suffix: str) -> str:
    """Return the path of the object that has a file which `is_encoded`, by the path that it would have of its own."""
    return path if suffix == LOG else path.removesuffix(suffix) + INDEXES


def open_part(
    root: SourceRoot,
    path: str,
    manifest: SegmentManifest | None,
    suffix: str,
    *,
    end: Position = MAX_INT64,
) -> SourceFile:
    """Return a file of a copy as a log dir would have it, up to a position if it is encoded. Raises OSError."""
    if manifest is None or not is_encoded(manifest, suffix):
        return root.open_fresh(path)
    file = root.open_fresh(object_path(path, suffix))
    status = decoded_status(file.opened_as, manifest, suffix)
    return opened_part(file, status, manifest, suffix, end)


def open_decoded(root: SourceRoot, path: str) -> SourceFile:
    """Open a file of a source as it is, or the `.log` of a tiered copy as its manifest says. Raises OSError."""
    name = path.rpartition("/")[2]
    manifest = None
    if name.endswith(LOG) and parse_tiered_file_name(name) is not None:
        beside = path.removesuffix(LOG) + MANIFEST
        manifest, _ = manifest_of(root, {LOG: path, MANIFEST: beside})
    return open_part(root, path, manifest, LOG)


def manifest_of(root: SourceRoot, files: Mapping[str, str]) -> tuple[SegmentManifest | None, str]:
    """Return the manifest that Aiven's plugin writes beside a segment, or why it is not known.

    Copies of LocalTieredStorage have none, and need none.
    """
    path = files.get(MANIFEST)
    if path is None:
        if files.keys() - {LOG, INDEXES}:
            return None, ""
        return (
            None,
            "it has no manifest, which is written last: its copy was not finished, or it is lost",
        )
    try:
        data = root.read(path, limit=DEFAULT_BUDGETS.checkpoint_bytes)
        return parse_manifest(data, path=root.display(path)), ""
    except (OSError, DamagedFileError) as error:
        return None, str(error)


def encoding_of(root: SourceRoot, base_offset: Offset, path: str) -> str | None:
    """Return why a records file without a manifest cannot be read, None when it can. Raises OSError."""
    with root.open_fresh(path) as file:
        head = file.read_at(0, UP_TO_MAGIC)
    if head.startswith(_ZSTD):
        return "it is compressed by chunks"
    begins = int.from_bytes(head[:8], "big") == base_offset
    if len(head) < UP_TO_MAGIC or (begins and head[MAGIC_POSITION] <= 2):
        return None
    return "no batch is at its start: it is encrypted, or damaged there"


def read_copy(root: SourceRoot, base_offset: Offset, files: Mapping[str, str]) -> TieredCopy | str:
    """Return the contents of a copy, from its manifest, or from its end by the offset index, or else from all of it.

    A copy that cannot be read without the manifest that it lacks is a sentence about that. Raises OSError.
    """
    manifest, fault = manifest_of(root, files)
    if fault and LOG in files:
        encoding = encoding_of(root, base_offset, files[LOG])
        if encoding is not None:
            return f"{encoding}; {fault}"
    if manifest is not None and INDEXES in files and may_open(manifest.encryption):
        stem = files[LOG].removesuffix(LOG)
        files = {**{suffix: stem + suffix for suffix in manifest.sections}, **files}
    is_complete = any(suffix in files for suffix in _LAST_FILES)
    with open_part(root, files[LOG], manifest, LOG) as file:
        if manifest is not None:
            stated = _stated(manifest, base_offset, files, root.stat(files[LOG]).st_size)
            if stated is not None:
                return stated
        size = file.size()
        epochs: dict[int, Offset] = {}
        start, end, last = 0, 0, base_offset - 1
        for run in _runs_near(file, _last_place(root, base_offset, files, manifest)):
            start = start if end else run.position
            end, last = run.end_position, max(last, run.next_offset - 1)
            for epoch, offset in _epochs_in(run):
                epochs.setdefault(epoch, offset)
    known = tuple(EpochEntry(*entry) for entry in sorted(epochs.items()) if entry[0] >= 0)
    return TieredCopy(
        base_offset,
        files,
        last + 1,
        known[-1].epoch if known else -1,
        is_complete and end == size,
        known if not start else (),
        manifest,
        fault,
    )


def _runs(file: SourceFile, start: Position) -> Iterator[BatchRun]:
    for item in scan(file, start, file.size()):
        if isinstance(item, BatchRun):
            yield item


def _runs_near(
    file: SourceFile, hint: Position, *, below: Offset = MAX_INT64
) -> Iterator[BatchRun]:
    """Yield good batches from a hint on, if one below an offset is there, else all of them."""
    if hint > 0:
        runs = _runs(file, hint)
        first = next(runs, None)
        if first is not None and first.position == hint and first.base_offset < below:
            yield first
            yield from runs
            return
    yield from _runs(file, 0)


def _epochs_in(run: BatchRun) -> Iterator[tuple[int, Offset]]:
    """Return leader epoch and base offset of each batch."""
    return zip(run.table["leader_epoch"].tolist(), run.table["base_offset"].tolist(), strict=True)


def _last_place(
    root: SourceRoot,
    base_offset: Offset,
    files: Mapping[str, str],
    manifest: SegmentManifest | None,
) -> Position:
    """Return the position in the last entry of the offset index; 0 without one."""
    if OFFSET_INDEX not in files:
        return 0
    try:
        with open_part(root, files[OFFSET_INDEX], manifest, OFFSET_INDEX) as index:
            return OffsetIndex(index, base_offset).last_entry.position
    except OSError:
        return 0


def _stated(
    manifest: SegmentManifest, base_offset: Offset, files: Mapping[str, str], size: int
) -> TieredCopy | None:
    """Return the copy that the manifest describes; None for an object of another size, or another segment's."""
    if size != manifest.chunks.object_size or manifest.start_offset != base_offset:
        return None
    epochs = manifest.epochs
    return TieredCopy(
        base_offset, files, manifest.end_offset + 1, epochs[-1].epoch, True, epochs, manifest
    )


# Choice of copies


def choose(root: SourceRoot, copies: Iterable[TieredCopy]) -> Choice:
    """Choose the copies that are the log's segments, without overlaps. Raises OSError."""
    by_age = sorted(copies, key=lambda copy: (copy.last_epoch, copy.next_offset), reverse=True)
    lineage = _lineage(by_age, lambda copy: _epochs_of(root, copy))
    reasons: dict[str, str] = {}
    agreed: list[ChosenCopy] = []
    for copy in by_age:
        end = _agreed_end(root, copy, lineage)
        if end > copy.base_offset:
            agreed.append(ChosenCopy(copy, end))
        else:
            there = _epoch_at(lineage, end)
            reasons[copy.path] = (
                f"another lineage of leader epochs: offset {end} is of epoch {there} in the log"
            )
    return Choice(_without_overlaps(agreed, reasons), by_age[0] if by_age else None, reasons)


def _epochs_of(root: SourceRoot, copy: TieredCopy) -> Sequence[EpochEntry]:
    """Return the starts of a copy's leader epochs and, with a checkpoint, of those before."""
    if LEADER_EPOCHS in copy.files:
        try:
            path = copy.files[LEADER_EPOCHS]
            with open_part(root, path, copy.manifest, LEADER_EPOCHS) as file:
                data = file.read_at(0, min(file.size(), DEFAULT_BUDGETS.checkpoint_bytes))
            if found := sorted(parse_leader_epochs(data, path=path)):
                return found
        except (OSError, DamagedFileError):
            pass
    if copy.epochs or copy.last_epoch < 0:
        return copy.epochs
    return [EpochEntry(copy.last_epoch, copy.base_offset)]


def _lineage(
    by_age: Sequence[TieredCopy], epochs_of: Callable[[TieredCopy], Sequence[EpochEntry]]
) -> list[EpochEntry]:
    """Return the epochs of the newest copy, with those of the newest other copies below their start."""
    lineage: list[EpochEntry] = []
    lowest = min((copy.base_offset for copy in by_age), default=0)
    for copy in by_age:
        if lineage and lineage[0].start_offset <= lowest:
            break
        if lineage and copy.base_offset >= lineage[0].start_offset:
            continue
        below = [entry for entry in epochs_of(copy) if not lineage or entry < lineage[0]]
        if lineage:
            below = [entry for entry in below if entry.start_offset < lineage[0].start_offset]
        lineage = below + lineage
    return lineage


def _epoch_at(lineage: Sequence[EpochEntry], offset: Offset) -> int | None:
    """Return the leader epoch of an offset; None below the lineage."""
    place = bisect_right(lineage, offset, key=lambda entry: entry.start_offset) - 1
    return None if place < 0 else lineage[place].epoch


def _agreed_end(root: SourceRoot, copy: TieredCopy, lineage: Sequence[EpochEntry]) -> Offset:
    """Return the end of a copy's part in the lineage: logs that agree on an offset's epoch agree on all before it."""
    if copy.last_epoch < 0 or _epoch_at(lineage, copy.next_offset - 1) in (None, copy.last_epoch):
        return copy.end
    with open_part(root, copy.path, copy.manifest, LOG) as file:
        for run in _runs(file, 0):
            for epoch, offset in _epochs_in(run):
                if _epoch_at(lineage, offset) not in (None, epoch):
                    return max(offset, copy.base_offset)
    return copy.end


def _without_overlaps(agreed: list[ChosenCopy], reasons: dict[str, str]) -> list[ChosenCopy]:
    """Leave out copies that others cover, cut those that go on in another; add reasons."""
    chosen: list[ChosenCopy] = []
    for each in sorted(agreed, key=_before):
        last = chosen[-1] if chosen else None
        if last is not None and each.end <= last.end:
            name = last.copy.path.rpartition("/")[2]
            offsets = f"{each.copy.base_offset} to {each.end - 1}"
            reasons[each.copy.path] = f"a further copy of offsets {offsets}, which {name} holds too"
            continue
        if last is not None and last.end > each.copy.base_offset:
            chosen[-1] = last._replace(end=each.copy.base_offset)
        chosen.append(each)
    return chosen


def _before(each: ChosenCopy) -> tuple[object, ...]:
    copy = each.copy
    return copy.base_offset, -each.end, not copy.is_whole, -copy.last_epoch, copy.path


def cut_position(root: SourceRoot, chosen: ChosenCopy) -> Position:
    """Return the end of a copy's batches that are in the log. Raises OSError."""
    copy, hint = chosen.copy, 0
    if OFFSET_INDEX in copy.files:
        with open_part(root, copy.files[OFFSET_INDEX], copy.manifest, OFFSET_INDEX) as index:
            hint = OffsetIndex(index, copy.base_offset).lookup(chosen.end - 1).position
    with open_part(root, copy.path, copy.manifest, LOG) as file:
        for run in _runs_near(file, hint, below=chosen.end):
            behind = run.table["position"][run.table["base_offset"] >= chosen.end]
            if len(behind):
                return int(behind[0])
        return file.size()
