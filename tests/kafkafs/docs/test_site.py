"""The pages that the site of the documents is built from."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkafs.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[3]


STAGE = "import sys, pathlib, docs_site; docs_site.stage(pathlib.Path(sys.argv[1]))"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # In a process of its own: click keeps the help option of a command's first call, which tests make without `-h`.
    command = [sys.executable, "-c", STAGE, str(folder)]
    subprocess.run(command, check=True, cwd=ROOT / "scripts")
    return folder / "pages"


def test_each_command_and_each_document_has_a_page(pages: Path) -> None:
    assert {path.stem for path in (pages / "commands").iterdir()} == set(COMMANDS)
    documents = {path.name for path in (ROOT / "kafkafs/docs").rglob("*.md")}
    assert documents <= {path.name for path in pages.rglob("*.md")}


def test_no_link_leaves_the_site(pages: Path) -> None:
    for page in pages.rglob("*.md"):
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        targets = re.findall(r"(?:\]\(|^\[[^\]]+\]: )([^)#\s]+\.md)", text, re.MULTILINE)
        missing = [each for each in targets if not (page.parent / each).is_file()]
        assert missing == [], page
