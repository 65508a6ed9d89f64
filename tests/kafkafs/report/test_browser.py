"""The page in a real browser: no message on its console, all sections, its script at work, drawn in dark and light.

KAFKAFS_SCREENSHOTS names a folder for the pictures, to be looked at.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from kafkafs.report.page import page
from tests.fixtures_data import copy_of
from tests.kafkafs.faces.damage import sound_node
from tests.kafkafs.report.many_facts import many_facts
from tests.kafkafs.report.pages import SECTIONS

pytestmark = pytest.mark.browser
BROWSER = "chromium-headless-shell"
ELEMENTS = re.compile(r"<[a-z]")


class Opened(NamedTuple):
    """A page as the browser has it after its script ran: its DOM as text, and the messages on the console."""

    dom: str
    console: list[str]


def browser(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert shutil.which(BROWSER), f"{BROWSER} is missing: run scripts/setup browser"
    return subprocess.run(
        [
            *(BROWSER, "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--enable-logging=stderr", f"--user-data-dir={path.parent / 'profile'}"),
            *(*options, path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def opened(path: Path) -> Opened:
    done = browser(path, "--dump-dom")
    return Opened(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])


def background_of(path: Path, width: int) -> bytes:
    """The colour of the first pixel of a screenshot."""
    shot = Path(os.environ.get("KAFKAFS_SCREENSHOTS") or path.parent) / f"{path.stem}-{width}.png"
    browser(path, f"--window-size={width},2400", f"--screenshot={shot}")
    data = shot.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (width, 2400)
    parts = [
        data[at + 8 : at + 8 + length]
        for at, length in chunks(data)
        if data[at + 4 :][:4] == b"IDAT"
    ]
    return zlib.decompress(b"".join(parts))[1:4]


def chunks(data: bytes) -> list[tuple[int, int]]:
    """Position and length of each chunk of a PNG."""
    found, at = [], 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        found.append((at, length))
        at += length + 12
    return found


@pytest.fixture(scope="module", params=["healthy", "damaged", "many"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a healthy source, of a damaged one, and of one with 10,000 partitions."""
    folder = tmp_path_factory.mktemp(request.param)
    target = folder / f"{request.param}.html"
    if request.param == "many":
        target.write_text(page(many_facts(10_000, 400)), "utf-8")
        return target
    source = sound_node(folder).path if request.param == "healthy" else damaged(folder)
    result = CliRunner().invoke(cli, ["report", str(source), "-o", str(target)])
    assert result.exit_code == (request.param == "damaged"), result.output
    return target


def damaged(folder: Path) -> Path:
    """A log dir with wrong bytes in two partitions."""
    copy = copy_of("current", folder)
    for name, position in (("orders-0", 5000), ("orders-0", 30_000), ("codec-zstd-0", 30_000)):
        log = min((copy / name).glob("*.log"))
        data = bytearray(log.read_bytes())
        data[position] ^= 1
        log.write_bytes(data)
    return copy


def test_a_page_opens_without_a_message_and_its_script_works(report: Path) -> None:
    found = opened(report)
    assert found.console == []
    assert re.findall(r'<section id="(\w+)"', found.dom) == list(SECTIONS)
    assert '<button id="theme" type="button">' in found.dom  # the script shows it
    assert 'class="n sorts"' in found.dom
    # What takes a browser time is the number of elements.
    assert len(ELEMENTS.findall(found.dom)) < 200_000


@pytest.mark.parametrize("width", [420, 1300])
def test_a_page_is_drawn_in_light_and_in_dark(report: Path, width: int) -> None:
    dark = report.with_name(f"{report.stem}-dark.html")
    dark.write_text(report.read_text("utf-8").replace("<html ", '<html class="dark" '), "utf-8")
    assert background_of(report, width) == bytes.fromhex("ffffff")
    assert background_of(dark, width) == bytes.fromhex("12161c")


def test_a_script_that_is_not_the_pages_own_does_not_run(report: Path) -> None:
    """So a message on the console would be seen, and the policy holds."""
    text = report.read_text("utf-8")
    other = report.with_name(f"{report.stem}-other.html")
    script = "<script>document.title='it ran'</script>"
    other.write_text(text.replace("</main>", f"{script}</main>"), "utf-8")
    found = opened(other)
    assert any("Content Security Policy" in line for line in found.console)
    assert "<title>it ran" not in found.dom
