"""Random unreadable sectors below a mount: python -m tests.damage.mount_sectors --seed 1 --sectors 1000.

Each sector has a copy of a partition to itself in a log dir that is mounted once. What is read through the kernel must
be what is read of the whole partition there, but for the records whose batch touches the sector; raw files must end
with EIO in the pages of the sector and nowhere else; each place must be among the problems; and the daemon must live.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.damage.sector_copies import Copy, make_copies, make_originals
from tests.damage.test_mount_faults import Mount
from tests.unreadable import FailingDisk

PAGE = 4096
LOOK_UPS = 6
_FOLDER = "MOUNT_SECTORS_FOLDER"
_UNCOMMITTED = re.compile(rb'"transaction":\{[^}]*"state":"(?:open|aborted)"')
_TRANSACTION = re.compile(rb'"transaction":\{[^}]*\},?')


class Soak:
    """A mount of copies in which sectors cannot be read, and of whole partitions beside them."""

    def __init__(self, folder: Path, seed: int, count: int) -> None:
        source = folder / "source"
        source.mkdir()
        self.random = Random(seed)
        self.copies = make_copies(source, seed, count)
        self.topics = make_originals(source, {copy.original for copy in self.copies})
        FailingDisk(folder, {copy.path: [copy.bad] for copy in self.copies})
        self.mount = Mount(folder / "mount", source)
        self.whole: dict[tuple[str, str], dict[int, bytes]] = {}

    def before(self, copy: Copy, folder: str) -> dict[int, bytes]:
        """The lines of the whole partition, by offset."""
        topic = self.topics[copy.original]
        if (topic, folder) not in self.whole:
            found, errors = self.lines(topic, folder)
            assert not errors, errors
            self.whole[topic, folder] = found
        return self.whole[topic, folder]

    def lines(self, topic: str, folder: str) -> tuple[dict[int, bytes], list[dict[str, Any]]]:
        """The lines of all files of a folder by offset, without topic and fate, and the errors in them."""
        found: dict[int, bytes] = {}
        errors = []
        for path in sorted((self.mount.path / f"{topic}-0" / folder).glob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                if line.startswith(b'{"error":'):
                    errors.append(json.loads(line)["error"])
                    continue
                offset = int(line[line.index(b'"offset":') + 9 : line.index(b',"timestamp"')])
                assert offset not in found, f"{path} has {offset} twice"
                assert folder == "records" or not _UNCOMMITTED.search(line), line
                found[offset] = _TRANSACTION.sub(b"", line.replace(topic.encode(), b"", 1))
        return found, errors

    def failures(self) -> Iterator[str]:
        """What is not as it should be."""
        for copy in self.copies:
            try:
                wrong = list(self.of_copy(copy))
            except Exception as error:  # noqa: BLE001 - whatever it is, the soak goes on
                wrong = [f"{type(error).__name__}: {error}"]
            for each in wrong:
                yield f"{copy.place}: {each}"
            if self.mount.process.poll() is not None:
                yield f"the daemon is dead: {self.mount.log_text()[-2000:]}"
                return
        yield from self.of_problems()

    def of_copy(self, copy: Copy) -> Iterator[str]:
        """What is wrong in one partition."""
        found, errors = self.lines(copy.topic, "records")
        whole = self.before(copy, "records")
        wanted = {offset: line for offset, line in whole.items() if offset not in copy.lost}
        yield from differing("records", found, wanted)
        if copy.hit and not errors:
            yield "records: no line tells of it"
        for error in errors:
            stretches = [
                (each["position"], each["position"] + each["length"])
                for each in error["unreadable"]
            ]
            end = min(copy.bad[1], copy.path.stat().st_size)
            if error["kind"] != "unreadable" or stretches != [(copy.bad[0], end)]:
                yield f"records: {error}"
        yield from self.of_committed(copy)
        yield from self.of_look_ups(copy, found)
        yield from self.of_raw_file(copy)
        lines = self.mount.path / f"{copy.topic}-0" / "records" / f"{copy.path.stem}.jsonl"
        if copy.hit and b"cannot be read" not in attribute(lines):
            yield f"xattr: {attribute(lines)!r}"

    def of_committed(self, copy: Copy) -> Iterator[str]:
        """The same for readers of what is committed; nothing of a transaction that is not.

        Where a marker may be lost, records may be missing. Where the beginning of an open transaction is lost, nothing
        tells any more that one is open: then good records behind it are shown that are of no transaction.
        """
        found, _ = self.lines(copy.topic, "committed")
        whole = self.before(copy, "committed")
        wanted = {offset: line for offset, line in whole.items() if offset not in copy.lost}
        if copy.original.name.startswith("open-txn"):
            wanted |= {
                offset: line
                for offset, line in self.before(copy, "records").items()
                if offset in found and offset not in copy.lost
            }
        elif copy.original.name.startswith("txn"):
            wanted = {offset: line for offset, line in wanted.items() if offset in found}
        yield from differing("committed", found, wanted)

    def of_look_ups(self, copy: Copy, found: dict[int, bytes]) -> Iterator[str]:
        """EIO and its story for what is lost, a record for all else."""
        whole = self.before(copy, "records")
        lost = sorted(copy.lost & whole.keys())
        chosen = {*lost[:2], *lost[-2:], *self.random.sample(sorted(whole), min(3, len(whole)))}
        chosen |= {offset + step for offset in [*lost[:1], *lost[-1:]] for step in (-1, 1)}
        for offset in sorted(chosen & whole.keys()):
            if b'"belowLogStart":true' in whole[offset]:
                continue
            path = self.mount.path / f"{copy.topic}-0" / "offset" / str(offset)
            try:
                line = path.read_bytes().rstrip(b"\n")
            except OSError as error:
                if error.errno != errno.EIO or offset not in copy.lost:
                    yield f"offset/{offset}: {error}"
                elif b"cannot be read" not in attribute(path):
                    yield f"offset/{offset}: xattr {attribute(path)!r}"
                continue
            if offset in copy.lost:
                yield f"offset/{offset}: {line[:80]!r}"
            elif _TRANSACTION.sub(b"", line.replace(copy.topic.encode(), b"", 1)) != found[offset]:
                yield f"offset/{offset}: {line[:200]!r} is not the line of records/"

    def of_raw_file(self, copy: Copy) -> Iterator[str]:
        """EIO in the pages of the sector, and all other bytes."""
        data = (copy.original / copy.path.name).read_bytes()
        path = self.mount.path / f"{copy.topic}-0" / "segments" / copy.path.name
        if path.stat().st_size != len(data):
            yield f"segments: {path.stat().st_size} bytes instead of {len(data)}"
        with path.open("rb", buffering=0) as file:
            for start in range(0, len(data), PAGE):
                page = data[start : start + PAGE]
                is_bad = start < copy.bad[1] and copy.bad[0] < start + len(page)
                try:
                    got = os.pread(file.fileno(), PAGE, start)
                except OSError as error:
                    if error.errno != errno.EIO or not is_bad:
                        yield f"segments: byte {start}: {error}"
                    continue
                good = page[: max(copy.bad[0] - start, 0)] if is_bad else page
                if got != good or not got:
                    yield f"segments: byte {start}: {len(got)} other bytes"

    def of_problems(self) -> Iterator[str]:
        """Each place is among the problems, with its ends."""
        text = (self.mount.path / ".kafkafs" / "problems").read_text()
        found = defaultdict(list)
        for line in text.splitlines():
            entry = json.loads(line)
            if entry["kind"] == "unreadable":
                found[entry["file"]].append((entry["position"], entry["length"]))
        for copy in self.copies:
            length = min(copy.bad[1], copy.path.stat().st_size) - copy.bad[0]
            told = found.pop(f"{copy.folder.name}/{copy.path.name}", [])
            if told != [(copy.bad[0], length)]:
                yield f"{copy.place}: the problems have {told}"
        if found:
            yield f"the problems have more: {dict(found)}"


def differing(what: str, found: dict[int, bytes], wanted: dict[int, bytes]) -> Iterator[str]:
    """One sentence when they differ."""
    if found != wanted:
        offsets = sorted(
            offset
            for offset in found.keys() | wanted.keys()
            if found.get(offset) != wanted.get(offset)
        )
        yield f"{what}: {len(offsets)} records differ, {offsets[:5]}"


def attribute(path: Path) -> bytes:
    """The story of a damaged file; empty where there is none."""
    try:
        return os.getxattr(path, "user.kafka.error")
    except OSError:
        return b""


def soak(seed: int, count: int, folder: Path) -> list[str]:
    """Read over so many bad sectors; what went wrong. Runs in a process whose children read from a FailingDisk in `folder`."""
    started = time.monotonic()
    made = Soak(folder, seed, count)
    try:
        failures = list(made.failures())
    finally:
        status = made.mount.end()
    if status:
        failures.append(f"the daemon ended with {status}: {made.mount.log_text()[-2000:]}")
    lost = sum(len(copy.lost) for copy in made.copies)
    print(
        f"seed {seed}: {count} sectors, {lost} records lost, {len(failures)} failures,"
        f" {time.monotonic() - started:.0f} s"
    )
    return failures


def main(arguments: list[str] | None = None) -> int:
    """Run the soak in a process whose reads can fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sectors", type=int, default=1000)
    options = parser.parse_args(arguments)
    given = os.environ.get(_FOLDER)
    if given is None:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**FailingDisk(Path(folder)).environment, _FOLDER: folder}
            again = sys.argv[1:] if arguments is None else arguments
            command = [sys.executable, "-m", "tests.damage.mount_sectors", *again]
            return subprocess.run(command, env=environment, check=False).returncode
    failures = soak(options.seed, options.sectors, Path(given))
    print("\n".join(failures[:50]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
