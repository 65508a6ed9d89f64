"""Decoded values and the newest records of keys through the kernel: sizes, tail -f, grep -r, links."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.builders import Rec, batch
from tests.fixtures_data import DATA
from tests.kafkafs.built_logs import BuiltLog
from tests.mount.mounted import Mounted, needs_fuse, wait_until

pytestmark = [pytest.mark.mount, needs_fuse]

SCHEMAS = DATA / "schemas-confluent" / "data"
TOPIC = "avro-evolution-0"
FIRST = f"{TOPIC}/offset/0"


class MountedWithSchemas(Mounted):
    """The `kafkafs mount` command over a log dir without the registry's topic, with the schemas of another one."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.given = source
        super().__init__(folder)

    def command(self, options: tuple[str, ...]) -> list[str]:
        command = [sys.executable, "-m", "kafkafs", "mount", "--foreground"]
        return [*command, "-o", f"schemas={SCHEMAS}", str(self.given), str(self.path)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A log dir with a topic of Avro values, and one that is compacted."""
    logs = tmp_path / "logs"
    shutil.copytree(SCHEMAS / TOPIC, logs / TOPIC)
    built = BuiltLog(logs, "customers-0")
    built.segment([batch([Rec(b"old", key=b"a/1"), Rec(b"other", key=b"b")])], 0)
    built.segment([batch([Rec(b"new", key=b"a/1")], 2)], 2)
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\ncustomers 0 2\n")
    return logs


@pytest.fixture
def mounted(tmp_path: Path, source: Path) -> Iterator[Path]:
    folder = tmp_path / "mount"
    folder.mkdir()
    running = MountedWithSchemas(folder, source)
    yield running.path
    assert running.process.poll() is None, running.log_text()
    running.stop()


def known_lines() -> bytes:
    """The lines of the topic in the source that has the schemas."""
    return CliRunner().invoke(cli, ["cat", str(SCHEMAS), f"{TOPIC}/offset/0.."]).stdout_bytes


def test_a_decoded_record_has_its_exact_size_before_it_is_read(mounted: Path) -> None:
    lines = known_lines().splitlines(keepends=True)
    assert json.loads(lines[0])["valueEncoding"] == "avro"
    for line in lines:
        path = mounted / TOPIC / "offset" / str(json.loads(line)["offset"])
        assert path.stat().st_size == len(line)
        assert path.read_bytes() == line


def test_a_decoded_segment_has_its_exact_size_once_it_was_opened(mounted: Path) -> None:
    (path,) = (mounted / TOPIC / "records").iterdir()
    assert path.stat().st_size > 0
    with path.open("rb") as file:
        assert os.fstat(file.fileno()).st_size == len(known_lines())
        assert file.read() == known_lines()
    assert path.stat().st_size == len(known_lines())


def test_grep_finds_decoded_text(mounted: Path) -> None:
    wanted = [line for line in known_lines().splitlines() if b'"fullName":' in line]
    assert wanted
    found = subprocess.run(
        ["grep", "-rh", '"fullName":', mounted / TOPIC / "records"],
        capture_output=True,
        check=True,
    )
    assert found.stdout.splitlines() == wanted


def test_tail_follows_records_decoded_with_a_schema(mounted: Path, source: Path) -> None:
    first = json.loads(known_lines().splitlines()[0])
    (path,) = (mounted / TOPIC / "records").iterdir()
    with subprocess.Popen(
        ["tail", "-n", "0", "-s", "0.1", "-f", path], stdout=subprocess.PIPE
    ) as following:
        assert following.stdout is not None
        os.set_blocking(following.stdout.fileno(), False)
        end = json.loads(known_lines().splitlines()[-1])["offset"] + 1
        value = (mounted / TOPIC / "offset" / "0.value").read_bytes()
        descriptors = Path(f"/proc/{following.pid}/fd")
        assert wait_until(lambda: path in [each.resolve() for each in descriptors.iterdir()])
        with max((source / TOPIC).glob("*.log")).open("ab") as log:
            log.write(batch([Rec(value, key=b"again")], end))
        got = bytearray()

        def has_line() -> bool:
            got.extend(following.stdout.read() or b"")  # type: ignore[union-attr]
            return got.endswith(b"\n")

        assert wait_until(has_line)
        following.kill()
    line = json.loads(got)
    assert (line["offset"], line["key"]) == (end, "again")
    assert (line["value"], line["schema"]) == (first["value"], first["schema"])


def test_the_link_of_a_key_is_followed_to_its_newest_record(mounted: Path, source: Path) -> None:
    keys = mounted / "customers-0" / "key"
    assert os.listdir(keys) == ["README.txt"]
    path = keys / "a%2F1"
    assert os.readlink(path) == f"../offset/{2:020}"
    assert os.lstat(path).st_size == len(os.readlink(path))
    shown = subprocess.run(["cat", path], capture_output=True, check=True).stdout
    assert json.loads(shown)["value"] == "new"
    assert path.stat().st_size == len(shown)
    assert not (keys / "none").exists()
    missing = subprocess.run(["cat", keys / "none"], capture_output=True, check=False, text=True)
    assert (missing.returncode, "No such file or directory" in missing.stderr) == (1, True)
    with max((source / "customers-0").glob("*.log")).open("ab") as log:
        log.write(batch([Rec(None, key=b"a/1")], 3))
    assert wait_until(lambda: json.loads(path.read_bytes())["value"] is None, 2.0)
    assert (keys / "b").resolve().name == "1"
