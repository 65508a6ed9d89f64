"""The files beside a metadata log: its snapshots and quorum-state, without those that would stop a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.check.files.kraft_snapshot_check import control_types
from engine.checkpoint.quorum_state import parse_quorum_state
from engine.errors import DamagedFileError, LimitExceededError
from engine.files.file_names import QUORUM_STATE, kraft_checkpoint_name
from engine.files.read_failures import failure_text
from engine.log.folder_listing import KRaftSnapshot
from engine.log.segment.scan import BatchRun, scan
from engine.log.view.log_view import LogView
from engine.rebuild.assembly.pieces import ScannedBytes
from engine.rebuild.selection import LeftOut
from engine.record.control_records import ControlRecordType
from engine.units import Offset

LARGEST_SNAPSHOT = 1 << 30


class KRaftFiles(NamedTuple):
    """The files beside a metadata log.

    Attributes:
        files: files to write, by name.
        left_out: files that are left out.
        end: end of the newest snapshot that can be read; 0 without one.
    """

    files: dict[str, bytes]
    left_out: list[LeftOut]
    end: Offset = 0


def kraft_files(views: Sequence[LogView], leading: int) -> KRaftFiles:
    """Return the files beside a metadata log: of the leading copy, and snapshots of the others where these are bad.

    Args:
        views: views of the copies.
        leading: index of the leading copy.
    """
    view = views[leading]
    files: dict[str, bytes] = {}
    bad: dict[KRaftSnapshot, tuple[str, str]] = {}
    for each in [view, *(other for other in views if other is not view)]:
        for snapshot in each.kraft_snapshots:
            name = kraft_checkpoint_name(*snapshot)
            if name in files or (each is not view and snapshot not in bad):
                continue
            data, flaw = _read_snapshot(each, name)
            if flaw is None:
                files[name] = data
            elif each is view:
                bad[snapshot] = _display(view, name), flaw
    good = [each for each in view.kraft_snapshots if kraft_checkpoint_name(*each) in files]
    end = max((each.end_offset for each in good), default=0)
    left_out = [
        _without(snapshot, path, flaw, end, view)
        for snapshot, (path, flaw) in bad.items()
        if kraft_checkpoint_name(*snapshot) not in files
    ]
    left_out += _add_quorum_state(view, files)
    return KRaftFiles(files, left_out, end)


def _without(snapshot: KRaftSnapshot, path: str, flaw: str, end: Offset, view: LogView) -> LeftOut:
    first = view.base_offsets[0] if view.base_offsets else snapshot.end_offset
    if first <= end:
        held = f"the snapshot at offset {end} and the log hold" if end else "the log holds"
        return LeftOut(path, f"{flaw}; {held} the same metadata")
    return LeftOut(
        path,
        f"{flaw}: the metadata of offsets {end} to {first - 1} is lost, and a broker does not start"
        " without it; --merge takes the snapshot from the log dir of another node",
        is_loss=True,
    )


def _add_quorum_state(view: LogView, files: dict[str, bytes]) -> list[LeftOut]:
    """Add quorum-state to the files; return it as left out if a broker cannot read it."""
    if not view.listing.has_file(QUORUM_STATE):
        return []
    try:
        data = view.read_side_file(QUORUM_STATE)
        parse_quorum_state(data, path=QUORUM_STATE, is_strict=True)
    except (OSError, DamagedFileError) as error:
        reason = (
            f"{_reason(error)}: a broker would not start with it; it writes the file anew, and the"
            " controllers elect a leader again"
        )
        return [LeftOut(_display(view, QUORUM_STATE), reason)]
    files[QUORUM_STATE] = data
    return []


def _read_snapshot(view: LogView, name: str) -> tuple[bytes, str | None]:
    """Return the bytes of a snapshot, and why a broker cannot read them; None if it can."""
    try:
        data = view.log.root.read(view.log.relative(name), limit=LARGEST_SNAPSHOT)
    except (OSError, LimitExceededError) as error:
        return b"", _reason(error)
    return data, snapshot_flaw(data)


def snapshot_flaw(data: bytes, *, has_frame: bool = True) -> str | None:
    """Return why a broker cannot read a file of metadata records; None if it can.

    Args:
        data: bytes of a snapshot or a bootstrap.checkpoint.
        has_frame: whether the records must begin with a header and end with a footer.
    """
    if not data:
        return "it is empty"
    if not any(data):
        return f"its {len(data)} bytes are all zeros"
    frame: list[set[ControlRecordType]] = []
    for item in scan(ScannedBytes(data), 0, len(data), path=""):
        if not isinstance(item, BatchRun):
            return f"it is damaged at byte {item.position}: {item.reason}"
        for problem in (each for columns in item.columns() for each in columns.problems):
            position = int(item.table["position"][problem.row])
            return f"it is damaged at byte {position}: {problem.detail}"
        frame += [control_types(item, row) for row in (0, len(item.table) - 1)]
    if has_frame and ControlRecordType.SNAPSHOT_HEADER not in frame[0]:
        return "it does not begin with a header record"
    if has_frame and ControlRecordType.SNAPSHOT_FOOTER not in frame[-1]:
        return "it does not end with a footer record: it is not complete"
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, DamagedFileError):
        return f"it cannot be read: {failure_text(error)}"
    return f"it is damaged: {error}"


def _display(view: LogView, name: str) -> str:
    return view.log.root.display(view.log.relative(name))
