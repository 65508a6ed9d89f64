"""The pages that the site of the documents is built from."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kafkafs.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(site: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site.stage(folder)
    return folder / "pages"


@pytest.mark.parametrize("name", ["check", "grep", "top"])
def test_the_page_of_a_command_is_its_help(pages: Path, name: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "kafkafs", name, "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "80"},
    ).stdout  # fmt: skip
    assert shown.strip() in (pages / "commands" / f"{name}.md").read_text()


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
