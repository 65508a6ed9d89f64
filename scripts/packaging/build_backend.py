"""The build backend: setuptools, with the layout of the distribution.

The repository has two packages at its top, `engine` and `kafkafs`. The name `engine` is too common to install, so a
wheel has the engine as `kafkafs.engine`: `build_wheel` copies the sources to a temporary folder, moves `engine` below
`kafkafs`, rewrites the import statements (`renaming`), and lets setuptools build from there. A development install
(`pip install -e`) is setuptools' own, of the repository as it is.

In a wheel the compiled modules are built for the limited API, so that one wheel serves Python 3.11 and all later ones;
without a compiler the wheel is built without them. With the environment variable KAFKAFS_EXACT_PYTHON they are built for this
version of Python alone (look-ups take 14 % less processor time), and a failing compiler is an error. KAFKAFS_CODECS is a
folder with the codecs' libraries for the wheel.

The same sources and the same tools give the same bytes: times are SOURCE_DATE_EPOCH, or that of the last commit.
"""

from __future__ import annotations

import gzip
import io
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import renaming
from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
]

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "engine", "kafkafs")
IN_SDIST = (*SHIPPED, "scripts", "tests")
LEFT_OUT = (".so", ".pyc", "/compiled.c", ".egg-info")
OLDEST_PYTHON = "0x030b0000"

Settings = dict[str, str | list[str] | None] | None


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel with one package, kafkafs; return its name."""
    target = str(Path(wheel_directory).resolve())
    with _copy(SHIPPED) as tree:
        if codecs := os.environ.get("KAFKAFS_CODECS"):
            shutil.copytree(codecs, tree / "engine" / "kernel" / "codecs")
        names = renaming.move_engine(tree)
        (tree / "setup.py").write_text(_setup(names), encoding="utf-8")
        return build_meta.build_wheel(target, config_settings)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Write the archive of the sources with tests and scripts; return its name."""
    target = Path(sdist_directory).resolve()
    with _copy(IN_SDIST) as tree:
        facts = tree / build_meta.prepare_metadata_for_build_wheel(str(tree), config_settings)
        metadata = (facts / "METADATA").read_bytes()
        version = facts.name.removesuffix(".dist-info")
        entries = [(name, (tree / name).read_bytes()) for name in _names(IN_SDIST)]
        entries.append(("PKG-INFO", metadata))
        data = _tar(version, sorted(entries), tree)
    (target / f"{version}.tar.gz").write_bytes(data)
    return f"{version}.tar.gz"


def build_spark_wheel(wheel_directory: str) -> str:
    """Build the wheel of pyspark_kafkalog, a package of its own because Spark looks for it by this name."""
    target = str(Path(wheel_directory).resolve())
    with _copy(
        (*SHIPPED[:1], "kafkafs/spark/pyspark_kafkalog", "engine/version.py", "LICENSE")
    ) as tree:
        shutil.move(tree / "kafkafs" / "spark" / "pyspark_kafkalog", tree / "pyspark_kafkalog")
        facts = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        text = _SPARK_PROJECT.format(
            version=version(), license=facts["license"], python=facts["requires-python"]
        )
        (tree / "pyproject.toml").write_text(text, encoding="utf-8")
        return build_meta.build_wheel(target)


_SPARK_PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "pyspark_kafkalog"
version = "{version}"
description = "Lets Spark find the data source kafkalog of kafkafs by itself."
readme = {{ text = 'Spark finds `format("kafkalog")` of kafkafs by this package.', content-type = 'text/markdown' }}
requires-python = "{python}"
license = "{license}"
license-files = ["LICENSE"]
authors = [{{ name = "The kafkafs authors" }}]
dependencies = ["kafkafs[spark]=={version}"]

[tool.setuptools]
packages = ["pyspark_kafkalog"]
"""


def version() -> str:
    """Return the version of the distribution."""
    found: str = runpy.run_path(str(ROOT / "engine" / "version.py"))["__version__"]
    return found


def _names(parts: tuple[str, ...]) -> list[str]:
    """Return the files of the distribution, relative to ROOT; in a checkout those that git knows."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--", *parts]
        known = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        names = [name for name in known.split("\0") if name and (ROOT / name).is_file()]
    else:
        found = [each for part in parts for each in (ROOT / part, *(ROOT / part).rglob("*"))]
        names = [path.relative_to(ROOT).as_posix() for path in found if path.is_file()]
    return sorted(name for name in names if not any(ending in name for ending in LEFT_OUT))


@contextmanager
def _copy(parts: tuple[str, ...]) -> Iterator[Path]:
    """Copy files to a temporary folder, which is the working directory meanwhile; yield it."""
    before = Path.cwd()
    os.environ.setdefault("SOURCE_DATE_EPOCH", _last_change())
    with tempfile.TemporaryDirectory(prefix="kafkafs-build-") as folder:
        tree = Path(folder)
        for name in _names(parts):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
            (tree / name).chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)
        os.chdir(tree)
        try:
            yield tree
        finally:
            os.chdir(before)


def _last_change() -> str:
    """Return the time of the last commit; outside of a checkout that of a file, which has it from its archive."""
    if (ROOT / ".git").exists():
        command = ["git", "log", "-1", "--format=%ct"]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return done.stdout.strip()
    return str(int((ROOT / "pyproject.toml").stat().st_mtime))


def _setup(names: dict[str, list[str]]) -> str:
    """Return the setup.py of the moved tree: what pyproject.toml says of the repository, for the wheel."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    exact = bool(os.environ.get("KAFKAFS_EXACT_PYTHON"))
    modules = [
        _extension(module, exact=exact) for module in tables["tool"]["setuptools"]["ext-modules"]
    ]
    tag = {} if exact else {"bdist_wheel": {"py_limited_api": "cp311"}}
    return (
        "from setuptools import Extension, setup\n"
        f"setup(packages={names['packages']!r}, package_data={{'kafkafs': {names['data']!r}}},\n"
        f"      include_package_data=False, options={tag!r},\n"
        f"      ext_modules=[Extension(**each) for each in {modules!r}])\n"
    )


def _extension(module: dict[str, Any], *, exact: bool) -> dict[str, Any]:
    """Return the arguments of a compiled module in the moved tree."""
    return {
        "name": renaming.moved_module(module["name"]),
        "sources": [renaming.moved_name(name) for name in module["sources"]],
        "depends": [renaming.moved_name(name) for name in module["depends"]],
        "include_dirs": [renaming.moved_name(name) for name in module.get("include-dirs", [])],
        "libraries": module.get("libraries", []),
        # Libraries of codecs that come with the wheel are found before those of the system.
        "extra_link_args": ["-Wl,-rpath,$ORIGIN/codecs", "-Wl,--strip-all"],
        "extra_compile_args": [
            *module["extra-compile-args"],
            "-g0",
            f"-ffile-prefix-map={Path.cwd()}=.",
        ],
        "define_macros": [] if exact else [("Py_LIMITED_API", OLDEST_PYTHON)],
        "py_limited_api": not exact,
        "optional": not exact,
    }


def _tar(version: str, entries: list[tuple[str, bytes]], tree: Path) -> bytes:
    """Return a compressed archive with the same bytes for the same entries."""
    when = int(os.environ["SOURCE_DATE_EPOCH"])
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in entries:
            entry = tarfile.TarInfo(f"{version}/{name}")
            entry.size, entry.mtime = len(data), when
            entry.mode = 0o755 if os.access(tree / name, os.X_OK) else 0o644
            archive.addfile(entry, io.BytesIO(data))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=when) as file:
        file.write(plain.getvalue())
    return packed.getvalue()


if __name__ == "__main__":  # python build_backend.py FOLDER: without a build frontend
    print(build_wheel(sys.argv[1]))
