"""The lock files name one version, with its hashes, of each package that pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "scripts" / "locks").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OF_PART = {
    "base": ("fuse", "schemas", "serve", "tiered", "where"),
    "dev": ("arrow", "test", "lint"),
    "spark": ("spark",),
    "kafka": ("kafka",),
    "docs": ("docs",),
    "mutate": ("mutate",),
}


def _entries(path: Path) -> Iterator[tuple[Requirement, int]]:
    """Each requirement of a lock file, and the number of its hashes."""
    for entry in re.split(r"(?m)^(?=\S)", path.read_text())[1:]:
        head, *hashes = entry.replace("\\\n", "").split("--hash=sha256:")
        yield (
            Requirement(head),
            len([one for one in hashes if re.fullmatch(r"\w{64}", one.strip())]),
        )


def _versions(*parts: str) -> dict[str, set[str]]:
    """The locked versions of each package: several where they differ by Python version or platform."""
    found: dict[str, set[str]] = {}
    for part in parts:
        for requirement, _ in _entries(ROOT / "scripts" / "locks" / f"{part}.txt"):
            names = found.setdefault(canonicalize_name(requirement.name), set())
            names.add(str(requirement.specifier).removeprefix("=="))
    return found


def _asked_for(group: str) -> list[Requirement]:
    project: dict[str, Any] = (
        PROJECT["project"]["optional-dependencies"] | PROJECT["dependency-groups"]
    )
    return [Requirement(one) for one in project[group] if isinstance(one, str)]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_each_entry_is_one_version_with_hashes(path: Path) -> None:
    for requirement, hashes in _entries(path):
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), requirement
        assert hashes, requirement


@pytest.mark.parametrize("part", OF_PART)
def test_what_a_part_asks_for_is_locked_within_its_bounds(part: str) -> None:
    locked = _versions("base", part)
    wanted = [one for group in OF_PART[part] for one in _asked_for(group)]
    wanted += [Requirement(one) for one in PROJECT["project"]["dependencies"]]
    for requirement in wanted:
        versions = locked.get(canonicalize_name(requirement.name), set())
        assert versions, f"{requirement} is not locked: run scripts/lock"
        assert all(requirement.specifier.contains(one) for one in versions), requirement


def test_a_package_has_the_same_version_in_all_parts_and_products() -> None:
    locked = _versions("build", *OF_PART)
    for name in ("bundle", "tools"):
        for line in (ROOT / "scripts" / "packaging" / f"{name}.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                package, version = line.split("==")
                if (known := locked.get(canonicalize_name(package))) is not None:
                    assert known == {version}, f"{name}.txt: {package}"
