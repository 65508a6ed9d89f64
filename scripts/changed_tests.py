"""Print the test files that cover what differs from a commit: scripts/test --changed [COMMIT].

A changed module is covered by the tests in the folder at its mirrored path, and by those that import it, themselves or
through a helper of tests/. A changed document or a changed file of data is covered by the tests beside it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALWAYS = ("tests/test_tidy.py",)


def changed(commit: str) -> list[Path]:
    """Return the files that differ from a commit, and those that git does not know yet."""
    names: list[str] = []
    for command in (("diff", "--name-only", commit), ("ls-files", "-o", "--exclude-standard")):
        done = subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
        )
        names += done.stdout.splitlines()
    return [Path(name) for name in names]


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the names of the modules that a file imports, and those of a name imported from one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{each.name}" for each in node.names)
    return frozenset(found)


def name_of(path: Path) -> str:
    """Return the name of a module of the repository."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def covering(files: list[Path]) -> list[Path]:
    """Return the test files that cover some files."""
    tests = {path.relative_to(ROOT) for path in ROOT.glob("tests/**/*.py")}
    names = {name_of(path) for path in files if path.suffix == ".py"}
    helpers = names
    while helpers:  # files of tests/ that import what has changed, and those that import these
        helpers = {
            name_of(path)
            for path in tests
            if not path.name.startswith("test_") and imports(ROOT / path) & names
        } - names
        names |= helpers
    folders = {
        Path("tests", *path.parent.parts)
        for path in files
        if path.parts[0] in ("engine", "kafkafs")
    }
    folders |= {path.parent for path in files if path.parts[0] == "tests" and path.suffix != ".py"}
    return sorted(
        path
        for path in tests
        if path.name.startswith("test_")
        and (path in files or path.parent in folders or imports(ROOT / path) & names)
    )


if __name__ == "__main__":
    found = covering(changed(sys.argv[1] if len(sys.argv) > 1 else "HEAD"))
    print(*ALWAYS, *(each.as_posix() for each in found if each.as_posix() not in ALWAYS), sep="\n")
