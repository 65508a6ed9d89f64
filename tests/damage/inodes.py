"""Inodes and folders that cannot be read, for each kind of file and each command: python -m tests.damage.inodes.

Each case is one fault (a look-up, a stat, an open, a read, or the list of a folder that fails) of one file or folder
of a small log dir below one command. A fault that is met twice and then passes must change nothing. One that stays
must be named with its path, may cost nothing but what is in that file or folder, and ends in the status for what
could not be read.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from engine.errors import KafkaStorageError
from engine.files.tries import FAILURES
from engine.files.unreadable import UNREADABLE_FILES
from kafkafs.cli import cli
from kafkafs.cli.printing.terminal.output import sentence_of
from tests.fixtures_data import log_dir
from tests.unreadable import FailingDisk, Fault

PARTITIONS = ("__cluster_metadata-0", "__consumer_offsets-0", "compacted-0", "orders-0", "txn-0")
HURT = "orders-0"
CALLS = {"look-up": "l", "stat": "s", "open": "o", "read": "r"}
FILES = {
    "the first records file": f"{HURT}/00000000000000000000.log",
    "a records file": f"{HURT}/00000000000000000395.log",
    "the active records file": f"{HURT}/00000000000000000790.log",
    "an offset index": f"{HURT}/00000000000000000395.index",
    "a time index": f"{HURT}/00000000000000000790.timeindex",
    "a producer snapshot": f"{HURT}/00000000000000001000.snapshot",
    "the leader epochs": f"{HURT}/leader-epoch-checkpoint",
    "the topic id": f"{HURT}/partition.metadata",
    "the node's properties": "meta.properties",
    "the high watermarks": "replication-offset-checkpoint",
    "the recovery points": "recovery-point-offset-checkpoint",
    "the log starts": "log-start-offset-checkpoint",
    "the cleaner's offsets": "cleaner-offset-checkpoint",
    "the quorum state": "__cluster_metadata-0/quorum-state",
    "the metadata log": "__cluster_metadata-0/00000000000000000000.log",
}
FOLDERS = {"a partition's folder": HURT, "the metadata log's folder": "__cluster_metadata-0"}
FOLDER_CALLS = {"look-up": "l", "stat": "s", "open": "o", "list": "d"}
RECORDS = frozenset(kind for kind in FILES if "records file" in kind)
EVERYTHING = ("grep", "sql", "export", "stats", "check", "plan", "rebuild", "report")
"""Commands that read all of a source, or ask whether all of it can be read."""
_DESCRIPTOR = re.compile(r"(?:kafkafs: |: |')\d{1,3}(?:: [A-Z]|'$)", re.MULTILINE)
_FOLDER = "INODES_FOLDER"


class Case(NamedTuple):
    """One fault of one file below one command; `times` -1 for one that stays."""

    command: str
    kind: str
    path: str
    fault: str
    calls: str
    times: int = -1

    def __str__(self) -> str:
        lasting = "" if self.times < 0 else f" {self.times} times"
        return f"{self.command}: {self.fault} of {self.kind}{lasting}"


class Outcome(NamedTuple):
    """What a command did; `made` are the files it wrote, with sizes."""

    status: int
    out: str
    err: str
    trace: str
    made: dict[str, int]


def cases(commands: tuple[str, ...]) -> Iterator[Case]:
    """All cases."""
    for command in commands:
        for times in (-1, 2):
            for kind, path in FILES.items():
                for fault, calls in CALLS.items():
                    yield Case(command, kind, path, fault, calls, times)
            for kind, path in FOLDERS.items():
                for fault, calls in FOLDER_CALLS.items():
                    yield Case(command, kind, path, fault, calls, times)
        for fault, calls in FOLDER_CALLS.items():  # one that stays leaves nothing to read
            yield Case(command, "the log dir", "", fault, calls, 2)


class Runs:
    """Commands over one log dir on a failing disk, in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "source"
        self.target = folder / "target"
        self.source.mkdir()
        for each in log_dir("current").iterdir():
            if each.is_file():
                shutil.copy2(each, self.source)
            elif each.name in PARTITIONS:
                shutil.copytree(each, self.source / each.name)
        self.disk = FailingDisk(folder)
        self.known: dict[str, Outcome] = {}

    def arguments(self, command: str) -> list[str]:
        """The arguments of a command that reads all it can."""
        source, target = str(self.source), str(self.target)
        counts = " union all ".join(
            f"""select '{topic}', count(*) from "{topic}" """
            for topic in ("compacted", "orders", "txn")
        )
        lines = [
            str(path.relative_to(self.source).parent / "records" / f"{path.stem}.jsonl")
            for name in PARTITIONS[2:]
            for path in sorted((self.source / name).glob("*.log"))
        ]
        return {
            "cat": ["cat", source, *lines],
            "grep": ["grep", "-j", "1", ".", source],
            "get": ["get", source, "compacted", "k425"],
            "sql": ["sql", "-j", "1", "--csv", counts, source],
            "export": ["export", "-j", "1", "--format", "jsonl", source, target],
            "stats": ["stats", "-j", "1", "--json", source],
            "offsets": ["offsets", "--json", source],
            "groups": ["groups", "--json", source],
            "topics": ["topics", "--json", source],
            "check": ["check", "-j", "1", "--json", source],
            "plan": ["plan", "--json", source],
            "rebuild": ["rebuild", "-j", "1", source, target],
            "report": ["report", "-o", target, source],
            "dump": ["dump", "-j", "1", source],
            "dump of a file": ["dump", "-j", "1", f"{source}/{FILES['a records file']}"],
        }[command]

    def run(self, command: str, faults: list[Fault]) -> Outcome:
        """Run a command over faults."""
        shutil.rmtree(self.target, ignore_errors=True)
        self.target.unlink(missing_ok=True) if self.target.is_file() else None
        UNREADABLE_FILES.forget()
        FAILURES.forget()
        arguments = self.arguments(command)
        self.disk.fail(faults)
        try:
            result = CliRunner().invoke(cli, arguments)
        finally:
            self.disk.fail([])
        trace = ""
        error = result.exception
        status, err = result.exit_code, result.stderr
        if isinstance(error, OSError | KafkaStorageError):
            status, err = 3, f"{err}kafkafs: {sentence_of(error)}\n"
        elif error is not None and not isinstance(error, SystemExit):
            trace = "".join(traceback.format_exception(error))
        made = {
            str(path.relative_to(self.target)): path.stat().st_size
            for path in self.target.rglob("*")
            if path.is_file()
        }
        return Outcome(status, result.stdout, err, trace, made)

    def whole(self, command: str) -> Outcome:
        """What a command does over a disk without faults."""
        if command not in self.known:
            self.known[command] = self.run(command, [])
        return self.known[command]

    def wrong(self, case: Case) -> Iterator[str]:
        """What is wrong with a case."""
        whole = self.whole(case.command)
        path = self.source / case.path
        got = self.run(case.command, [Fault(path, case.calls, errno.EIO, times=case.times)])
        if got.trace:
            yield f"it fails: {got.trace[-600:]}"
            return
        text = got.out + got.err
        if found := _DESCRIPTOR.search(got.err):
            yield f"a descriptor for a name: {got.err[max(found.start() - 60, 0) : found.end() + 60]!r}"
        if case.times >= 0:
            if (got.status, _bare(got.out)) != (whole.status, _bare(whole.out)):
                yield f"the fault passes, and the result is another: {got.status} {got.err[:500]!r}"
            return
        yield from self.lost(case, whole, got)
        if got.status == whole.status and _bare(got.out) == _bare(whole.out):
            if case.command in EVERYTHING and case.kind in RECORDS and case.calls in "lor":
                yield "nobody says that records are missing"
            return
        if case.path not in text and case.path.split("/")[0] not in got.err and not got.made:
            yield f"the path is not named: {got.status} {got.err[-500:]!r}"

    def lost(self, case: Case, whole: Outcome, got: Outcome) -> Iterator[str]:
        """What of other partitions and segments is missing in the result."""
        is_of_metadata = case.path.startswith("__cluster_metadata")
        if case.command in ("cat", "grep", "stats", "offsets", "sql", "groups", "get"):
            lines = set(got.out.splitlines())
            bases = {"0": (0, 395), "395": (395, 790), "790": (790, 1000)}
            name = case.path.rpartition("/")[2]
            hit = (
                bases.get(name.partition(".")[0].lstrip("0") or "0")
                if name.endswith(".log")
                else None
            )
            missing = []
            for line in whole.out.splitlines():
                if line in lines or (is_of_metadata and "metadata" in line):
                    continue
                if line.startswith('{"type":"summary"'):
                    continue
                if "orders" in line:
                    if case.command not in ("cat", "grep") or case.path == HURT:
                        continue
                    offset = json.loads(line)["offset"]
                    if hit is not None and hit[0] <= offset < hit[1]:
                        continue
                missing.append(line)
            if missing and not (case.command in ("stats", "offsets") and "/" not in case.path):
                yield f"{len(missing)} lines are missing, {missing[0][:150]!r}: {got.err[-300:]!r}"
        elif case.command == "rebuild":
            wanted = {
                name: size
                for name, size in whole.made.items()
                if name.endswith(".log")
                and HURT not in name
                and not (is_of_metadata and "metadata" in name)
            }
            if any(got.made.get(name) != size for name, size in wanted.items()):
                yield f"partitions are missing: {got.status} {got.err[-400:]!r} {got.out[-300:]!r}"
        elif case.command == "export":
            wanted = {name.rpartition("/")[0] for name in whole.made if "topic=" in name}
            wanted = {
                name
                for name in wanted
                if "orders" not in name and not (is_of_metadata and "metadata" in name)
            }
            found = {name.rpartition("/")[0] for name in got.made}
            stops = case.kind in RECORDS  # at damage, as --on-corrupt fail has it
            if not stops and (not wanted or not wanted <= found):
                yield f"topics are missing: {got.status} {got.err[-400:]!r}"
            is_missing = case.path == HURT or (case.kind in RECORDS and case.calls in "lor")
            if is_missing and "_SUCCESS" in got.made:
                yield "records are missing, and there is a _SUCCESS"


def _bare(text: str) -> str:
    """A result without times."""
    return re.sub(r"\d+(\.\d+)? (ms|s)\b|\d\d:\d\d:\d\d\S*", "", text)


def main(arguments: list[str] | None = None) -> int:
    """Run all cases, or each `step`th from `start` on, in a process whose calls can fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--commands",
        nargs="*",
        default=[
            *EVERYTHING,
            "cat",
            "get",
            "offsets",
            "groups",
            "topics",
            "dump",
            "dump of a file",
        ],
    )
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--count", type=int, default=1 << 30, help="most cases")
    options = parser.parse_args(arguments)
    given = os.environ.get(_FOLDER)
    if given is None:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**FailingDisk(Path(folder)).environment, _FOLDER: folder}
            again = sys.argv[1:] if arguments is None else arguments
            command = [sys.executable, "-m", "tests.damage.inodes", *again]
            return subprocess.run(command, env=environment, check=False).returncode
    runs = Runs(Path(given))
    failures = count = 0
    for case in list(cases(tuple(options.commands)))[options.start :: options.step][
        : options.count
    ]:
        count += 1
        for wrong in runs.wrong(case):
            failures += 1
            print(f"{case}: {wrong}", flush=True)
    print(f"{count} cases, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
