"""The packages that a wheel has."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_package_of_the_repository_is_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    moved = {place.replace("/", "."): name for name, place in settings["package-dir"].items()}
    present = {
        ".".join(module.parent.relative_to(ROOT).parts)
        for top in ("engine", "kafkafs")
        for module in (ROOT / top).rglob("*.py")
    }
    assert sorted(settings["packages"]) == sorted(moved.get(name, name) for name in present)
