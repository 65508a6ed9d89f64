"""Make log dirs without chosen records out of all copies, and prove that the records are gone.

The result gets the target's name only after everything is written, compared with the sources, searched for what was erased,
and read again. After a failure nothing is left. The sources stay as they are.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from engine.budgets import Budgets
from engine.disk.disk import DISK, Disk
from engine.erase.choice import RecordChoice, Removed
from engine.erase.comparing import compare_files
from engine.erase.found_files import FoundFile, files_of, why_left_out
from engine.erase.new_indexes import make_indexes
from engine.erase.reach import unreached
from engine.erase.records_file import FileResult, NewFile, erase_records
from engine.erase.report import Json, erase_report
from engine.erase.scanning import Traces
from engine.erase.state import EraseState, UncopiedFile
from engine.errors import UnreadableError
from engine.files.file_names import FileKind
from engine.files.source_files import SourceFile
from engine.log.log_directory import LogSource, open_source
from engine.log.tiered.root import TieredRoot
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.partition_rebuild import Advance
from engine.rebuild.target.manifest import FileHash
from engine.rebuild.target.staging import Staging, refuse_target, sync_tree
from engine.rebuild.target.verification import verified_files
from engine.recover.errors import RecoverRefusedError

_BUDGETS = Budgets(open_files=64)
"""Files are read one after the other, and the target needs descriptors too."""
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)


class Erased(NamedTuple):
    """A finished erase, or a plan: the target, None for a plan, and the report; see `engine.erase.report`."""

    target: str | None
    report: Json


class NothingChosenError(RebuildRefusedError):
    """No record is chosen."""


def erase(
    paths: Sequence[str],
    target: str | None,
    choice: RecordChoice,
    *,
    texts: Sequence[bytes] = (),
    drops_damage: bool = False,
    facts: Json | None = None,
    disk: Disk = DISK,
    advance: Advance | None = None,
) -> Erased:
    """Erase records.

    Args:
        paths: log dirs that hold all copies.
        target: folder of the new log dirs; None to write nothing and only return the report.
        choice: chooses the records.
        texts: further texts to look for in the result.
        drops_damage: whether damaged bytes of logs that may have chosen records are left out.
        facts: facts for the report, such as who erases.
        disk: disk to write with.
        advance: called with progress.

    Raises:
        RebuildRefusedError: the erase is refused; NothingChosenError: no record is chosen.
        RebuildFailedError: the result is not as planned.
        SourceError: a source cannot be read.
        OSError: a source cannot be read or the disk fails. The target does not exist then.
    """
    if target is not None:
        refuse_target(target, list(paths))
    with ExitStack() as stack:
        sources: dict[str, LogSource] = {}
        for name, path in zip(_names(paths), paths, strict=True):
            sources[name] = _opened(path, writes=target is not None)
            stack.callback(sources[name].close)
        state = EraseState(sources, Removed(secrets.token_bytes(16)))
        run = _Erase(state, choice, disk, advance or _nothing, drops_damage=drops_damage)
        if target is None:
            run.plan(texts)
            return Erased(None, erase_report(state, facts or {}, [], None))
        return run.write(Staging(target, disk), texts, facts or {})


def _nothing(_: str, __: int) -> None:
    return None


def _names(paths: Sequence[str]) -> list[str]:
    """Return a folder name for each log dir: the ends of their paths that tell them apart."""
    parts = [os.path.realpath(path).strip("/").split("/") for path in paths]
    for count in range(1, max(map(len, parts), default=1) + 1):
        names = ["-".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    raise RebuildRefusedError("a log dir is named twice", "name each one once")


def _opened(path: str, *, writes: bool) -> LogSource:
    """Open a log dir; for a plan, while a broker writes to it, a snapshot of this moment."""
    source = open_source(path, budgets=_BUDGETS)
    try:
        _refuse(source, path, writes=writes)
    except RebuildRefusedError:
        source.close()
        raise
    if source.broker_pid is None:
        return source
    source.close()
    return open_source(path, snapshot=True, budgets=_BUDGETS)


def _refuse(source: LogSource, path: str, *, writes: bool) -> None:
    if any(not log.folder for log in source.partitions().values()):
        raise RebuildRefusedError(
            f"{path} is one partition, no log dir", "name the log dirs of the cluster's brokers"
        )
    if any(isinstance(root, TieredRoot) for root in source.roots):
        raise RebuildRefusedError(
            f"{path} is a copy of tiered storage, which erase does not write anew",
            "leave it out, and erase there by other means",
        )
    if writes and source.broker_pid is not None:
        raise RebuildRefusedError(
            f"process {source.broker_pid} has {path} open, and would go on writing",
            "stop the broker, or use --plan",
        )


class _Erase:
    """One erase."""

    def __init__(
        self,
        state: EraseState,
        choice: RecordChoice,
        disk: Disk,
        advance: Advance,
        *,
        drops_damage: bool,
    ) -> None:
        self._state = state
        self._choice = choice
        self._disk = disk
        self._advance = advance
        self._drops_damage = drops_damage
        self._records: set[str] = set()  # paths of the new records files

    def plan(self, texts: Sequence[bytes]) -> None:
        """Choose the records, and look where else they stand."""
        state = self._state
        files = [each for each in self._files() if each.kind is not None]
        for file in filter(self._is_sought, files):
            source = file.open()
            state.results.append(self._erase(file, source, None))
        self._refuse_nothing()
        self._reach()
        state.traces = Traces(state.removed, texts)
        chosen = {
            each.file.path: {one.position: one.kept for one in each.touched}
            for each in state.results
        }
        for file in files:
            source = file.open()
            size = source.size()
            if file.is_records:
                state.traces.look(source, size, file.path, chosen.get(file.path, {}))
            else:
                state.traces.look_at_bytes(source, size, file.path)
            self._advance("verified", size)

    def write(self, staging: Staging, texts: Sequence[bytes], facts: Json) -> Erased:
        """Write the log dirs, prove them, and give them their name."""
        state = self._state
        try:
            for file in self._files():
                self._write(staging.path, file)
            self._refuse_nothing()
            self._reach()
            for each in state.results:
                self._finish(staging.path, each)
            self._sync(staging.path)
            verified = partial(self._advance, "verified")
            files = verified_files(staging.path, state.written, self._disk, verified, 1)
            state.traces = Traces(state.removed, texts)
            self._scan(staging.path, files)
            report = erase_report(state, facts, files, staging.target)
            staging.write_manifest(report)
            staging.publish()
        except BaseException:
            staging.discard()
            raise
        return Erased(staging.target, report)

    def _sync(self, folder: str) -> None:
        """Sync the log dirs; a superuser gives them the owners of their sources."""
        for name, source in self._state.sources.items():
            status = source.roots[0].stat()
            owner = None if os.geteuid() else (status.st_uid, status.st_gid)
            sync_tree(os.path.join(folder, name), self._disk, owner)
        sync_tree(folder, self._disk, folders=False)

    def _files(self) -> Iterator[FoundFile]:
        """Yield the files to copy."""
        for name, source in self._state.sources.items():
            for file in files_of(source, name):
                reason = why_left_out(file)
                if reason is None:
                    yield file
                elif file.kind is None or file.kind.kind is not FileKind.LOCK:
                    self._state.left_out.append(UncopiedFile(file.path, reason))

    def _is_sought(self, file: FoundFile) -> bool:
        return file.is_erasable and self._choice.takes(file)

    def _refuse_nothing(self) -> None:
        self._state.undecided = self._choice.undecided
        if not self._state.removed.offsets:
            raise NothingChosenError("no record is chosen", "see with kafkafs grep what there is")

    def _reach(self) -> None:
        try:
            found = unreached(list(self._state.sources.values()), self._state.removed.offsets)
            self._state.unreached += found
        except RecoverRefusedError as error:
            raise RebuildRefusedError(error.reason, error.hint) from None
        self._state.unread = [
            each
            for source in self._state.sources.values()
            for each in (*source.unread(), *source.unread_folders())
        ]

    # Files

    def _erase(self, file: FoundFile, source: SourceFile, new: NewFile | None) -> FileResult:
        size = source.size()
        self._advance("read", size)
        return erase_records(
            file,
            source,
            size,
            self._choice,
            self._state.removed,
            new,
            drops_damage=self._drops_damage,
        )

    def _write(self, folder: str, file: FoundFile) -> None:
        source = file.open()
        size, status = source.size(), source.stat()
        path = os.path.join(folder, file.new_path)
        if file.is_records:
            self._records.add(file.new_path)
        self._disk.make_folder(os.path.dirname(path))
        with self._disk.open(path, exclusive=True) as made:
            new = NewFile(made, partial(self._advance, "written"))
            result = None
            if self._is_sought(file):
                result = self._erase(file, source, new)
                self._state.results.append(result)
            else:
                new.copy(source, 0, size)
            made.sync()
        self._disk.set_mtime_ms(path, status.st_mtime_ns // 1_000_000)
        written = self._state.written[file.new_path] = new.written()
        before = written.sha256
        if result is not None and result.touched:
            before = _sha256(source, size)
        self._state.before.append(FileHash(file.new_path, size, before))

    def _finish(self, folder: str, result: FileResult) -> None:
        """Make the indexes of a file that was written anew, and compare it with its source."""
        if not result.touched:
            return
        file = result.file
        assert file.kind is not None
        path = os.path.join(folder, file.new_path)
        stem = path.removesuffix(file.kind.kind.value + file.kind.state.value)
        for kind in _INDEXES:
            index = stem + kind.value + file.kind.state.value
            self._disk.remove(index, missing_ok=True)
            self._state.written.pop(os.path.relpath(index, folder), None)
        modified = self._disk.mtime_ms(path)
        with self._disk.open(path, writable=False) as new:
            source, size = file.open(), new.size()
            records = compare_files(source, source.size(), new, size, result.touched)
            self._state.equal += records
            make_indexes(os.path.dirname(path), file.kind, new, size, self._disk)
        self._disk.set_mtime_ms(path, modified)

    def _scan(self, folder: str, files: Sequence[FileHash]) -> None:
        """Look for what was erased in all files of the target."""
        traces = self._state.traces
        assert traces is not None
        for each in files:
            with self._disk.open(os.path.join(folder, each.path), writable=False) as file:
                is_records = each.path in self._records
                look = traces.look if is_records else traces.look_at_bytes
                look(file, each.size, each.path)
            self._advance("verified", each.size)


def _sha256(source: SourceFile, size: int) -> str:
    """Return the hash of a source file; "" if not all of it can be read."""
    digest = hashlib.sha256()
    done = 0
    while done < size:
        try:
            data = source.read_at(done, min(1 << 20, size - done))
        except UnreadableError:
            return ""
        if not data:
            raise OSError(f"{source.path} ends before {size}")
        digest.update(data)
        done += len(data)
    return digest.hexdigest()
