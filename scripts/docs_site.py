"""Stage the documents for mkdocs and build the site; called by scripts/docs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby, islice, pairwise
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "packaging"))

from command_help import commands  # noqa: E402 - beside the packages

STAGED = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
_LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )([^)#\s]+)", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> dict[Path, Path]:
    """Return the documents with their places in the site."""
    docs = ROOT / "kafkafs" / "docs"
    found = {ROOT / "README.md": Path("index.md")}
    found |= {path: path.relative_to(docs) for path in sorted(docs.rglob("*.md"))}
    found |= {path: path.relative_to(ROOT) for path in sorted((ROOT / "engine").rglob("*.md"))}
    found[ROOT / "kafkafs" / "README.md"] = Path("views.md")
    found[ROOT / "CHANGELOG.md"] = Path("changelog.md")
    return found


def with_links(source: Path, place: Path, known: dict[Path, Path]) -> str:
    """Return a document's text with links to the places of other documents."""

    def moved(match: re.Match[str]) -> str:
        target = (source.parent / match[2]).resolve()
        if "://" in match[2] or target not in known:
            return match[0]
        return match[1] + os.path.relpath(known[target], place.parent)

    text = source.read_text()
    ends = [0, *(end for match in _CODE.finditer(text) for end in match.span()), len(text)]
    parts = [text[start:end] for start, end in pairwise(ends)]
    return "".join(
        part if number % 2 else _LINK.sub(moved, part) for number, part in enumerate(parts)
    )


def command_pages() -> Iterator[tuple[Path, str]]:
    """Yield a page for each command, with the commands of a group on its page: their help."""
    for name, below in groupby(islice(commands(), 1, None), lambda each: _words(each[0])[1]):
        helped = [(_words(context), text) for context, text in below]
        parts = [
            f"{'#' * (len(words) - 1)} {' '.join(words)}\n\n```text\n{text}\n```\n"
            for words, text in helped
        ]
        yield Path("commands", f"{name}.md"), "\n".join(parts)


def _words(context: click.Context) -> list[str]:
    return context.command_path.split()


def stage(folder: Path) -> None:
    """Write all pages and the configuration of the site into a new folder."""
    known = pages()
    texts = {place: with_links(source, place, known) for source, place in known.items()}
    texts |= dict(command_pages())
    for place, text in texts.items():
        path = folder / "pages" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    configuration = {
        "site_name": "kafkafs",
        "docs_dir": "pages",
        "site_dir": str(SITE),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "palette": [
                {"media": f"(prefers-color-scheme: {scheme})", "scheme": name}
                for scheme, name in (("light", "default"), ("dark", "slate"))
            ],
        },
        "plugins": ["search"],
        "markdown_extensions": ["tables", "fenced_code", "sane_lists", "toc"],
        "validation": {"links": {"not_found": "warn", "anchors": "warn"}},
    }
    (folder / "mkdocs.yml").write_text(json.dumps(configuration, indent=2))


def main() -> int:
    """Build the site; return the exit status of mkdocs."""
    shutil.rmtree(STAGED, ignore_errors=True)
    stage(STAGED)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    status = subprocess.call(
        [*command, "-f", str(STAGED / "mkdocs.yml")], env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    if status == 0:
        print(f"{SITE.relative_to(ROOT)}/index.html")
    return status


if __name__ == "__main__":
    sys.exit(main())
