"""Move the package `engine` of a tree below `kafkafs`, with all import statements that name it.

Import statements begin a line, so a pattern finds them, in the examples of docstrings too. `remaining` then looks at the syntax
trees, and the build fails if any import or any string still names the top-level package.
"""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

OLD, NEW = "engine", "kafkafs.engine"
_FROM = re.compile(r"^(\s*)from engine(?=[.\s])", re.MULTILINE)
_IMPORT = re.compile(r"^(\s*)import engine$", re.MULTILINE)
_IN_PAGE = re.compile(r"`engine(?=[.`])")
SOURCES = (".py", ".pyi", ".pyx", ".pxi")


def move_engine(tree: Path) -> dict[str, list[str]]:
    """Move the engine in a copy of the repository; return the names of all `packages`, and of `data` files in kafkafs.

    The tables of setuptools in pyproject.toml, which are about the repository, are removed.
    """
    shutil.move(tree / OLD, moved := tree / "kafkafs" / OLD)
    for path in sorted((tree / "kafkafs").rglob("*")):
        if path.suffix in SOURCES or path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            renamed = _IN_PAGE.sub(f"`{NEW}", text) if path.suffix == ".md" else text
            renamed = _IMPORT.sub(
                rf"\1from kafkafs import {OLD}", _FROM.sub(rf"\1from {NEW}", renamed)
            )
            path.write_text(renamed, encoding="utf-8")
    modules = {module_name(path.relative_to(moved.parent)) for path in moved.rglob("*.py")}
    wrong = [
        f"{path}: {what}"
        for path in (tree / "kafkafs").rglob("*.py")
        for what in remaining(path, modules)
    ]
    if wrong:
        raise SystemExit("these still name the top-level package engine:\n" + "\n".join(wrong))
    project = tree / "pyproject.toml"
    project.write_text(_project(project.read_text(encoding="utf-8")), encoding="utf-8")
    return {"packages": _packages(tree), "data": _data(tree)}


def moved_name(path: str) -> str:
    """Return where a file of the repository is in the moved tree."""
    return f"kafkafs/{path}" if path.startswith(f"{OLD}/") else path


def moved_module(name: str) -> str:
    """Return the name in the moved tree of a module of the repository."""
    return f"kafkafs.{name}" if name.startswith(f"{OLD}.") else name


def module_name(path: Path) -> str:
    """Return the name of a module by its path."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def remaining(path: Path, modules: set[str]) -> list[str]:
    """Return the imports of `engine` in a module, and the strings that are names of its `modules`."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found += [name.name for name in names if name.name.partition(".")[0] == OLD]
            case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] == OLD:
                found.append(module)
            case ast.Constant(value=str(text)) if text in modules:
                found.append(repr(text))
    return found


def _project(text: str) -> str:
    """Return pyproject.toml with the metadata, and without the layout of the repository and its tools."""
    tables = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    kept = [
        table.replace('"engine.version.', f'"{NEW}.version.')
        for table in tables
        if table.startswith(("[project", "[tool.setuptools.dynamic]"))
    ]
    return "".join(kept)


def _packages(tree: Path) -> list[str]:
    return sorted(
        ".".join(path.parent.relative_to(tree).parts)
        for path in (tree / "kafkafs").rglob("__init__.py")
    )


def _data(tree: Path) -> list[str]:
    """Return all files but sources, relative to kafkafs; sources of compiled modules are not installed."""
    home = tree / "kafkafs"
    return sorted(
        path.relative_to(home).as_posix()
        for path in home.rglob("*")
        if path.is_file()
        and path.suffix not in (".py", ".pyx", ".pxi", ".h")
        and path.name != "README.md"
    )
