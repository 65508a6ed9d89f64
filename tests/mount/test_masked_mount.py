"""A mount with a mask, through the kernel: no byte that it hides, and EACCES for what cannot be masked."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.kafkafs.masked_source import found_in, write_source, written_policy
from tests.mount.mounted import Mounted, needs_fuse

pytestmark = [pytest.mark.mount, needs_fuse]


class MountedWithMask(Mounted):
    """The `kafkafs mount` command with a policy."""

    def command(self, options: tuple[str, ...]) -> list[str]:
        command = [sys.executable, "-m", "kafkafs", "mount", "--foreground", *options]
        return [*command, str(self.source), str(self.path)]


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("masked")
    write_source(folder / "source")
    running = MountedWithMask(folder, "--mask", written_policy(folder))
    yield running.path
    assert running.process.poll() is None, running.log_text()
    running.stop()


def walked(folder: Path) -> Iterator[bytes]:
    """Yield the names, extended attributes and bytes of all files."""
    for path in (folder, *sorted(folder.rglob("*"))):
        yield os.fsencode(path)
        if path.is_symlink():
            yield os.fsencode(os.readlink(path))
            continue
        for name in os.listxattr(path):
            yield os.fsencode(name) + b"=" + os.getxattr(path, name)
        if path.is_file():
            yield path.read_bytes()


def test_a_walk_finds_no_form_of_the_canary(mounted: Path) -> None:
    found = b"\n".join(walked(mounted))
    assert b"open sesame" in found
    assert found_in(found) == []


@pytest.mark.parametrize(
    "path",
    [
        "customers-0/segments",
        "customers-0/key",
        "customers-0/offset/0.value",
        "customers-0/offset/0.key",
        "customers-0/offset/0.batch",
        "customers-0/time/2023/log",
        "time/2023/customers-0",
    ],
)
def test_raw_bytes_are_eacces_and_the_problems_say_why(mounted: Path, path: str) -> None:
    with pytest.raises(PermissionError) as caught:
        os.stat(mounted / path)
    assert caught.value.errno == errno.EACCES
    noted = [json.loads(line) for line in (mounted / ".kafkafs/problems").read_text().splitlines()]
    assert path in {each["file"] for each in noted if each["kind"] == "masked"}


def test_lines_are_those_of_the_command(mounted: Path) -> None:
    source = mounted.parent / "source"
    words = [
        "cat",
        str(source),
        "customers-0/offset/0..20",
        "--mask",
        str(mounted.parent / "mask.toml"),
    ]
    printed = CliRunner().invoke(cli, words).stdout_bytes
    assert (mounted / "customers-0/offset/0..20").read_bytes() == printed
    single = (mounted / "customers-0/offset/3").read_bytes()
    assert single == printed.splitlines(keepends=True)[3]


def test_the_log_of_the_daemon_is_not_shown(mounted: Path) -> None:
    assert "--log-file" in (mounted / ".kafkafs/log").read_text()


@pytest.mark.parametrize(
    "more", [["--values", "hex"], ["-o", "mask=/nowhere/mask.toml"], ["--mask", "none"]]
)
def test_a_mount_with_a_policy_that_cannot_be_used_is_refused(
    tmp_path: Path, more: list[str]
) -> None:
    (tmp_path / "mnt").mkdir()
    write_source(tmp_path / "data")
    given = [] if "mask" in more[0] or more[0] == "-o" else ["--mask", written_policy(tmp_path)]
    words = ["mount", str(tmp_path / "data"), str(tmp_path / "mnt"), *given, *more]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert not os.path.ismount(tmp_path / "mnt")
