"""Libraries of the building system that go into a product, each with its licence."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

CODECS = ("libzstd.so.1", "liblz4.so.1", "libdeflate.so.0", "libsnappy.so.1")
"""As kernel/c/codecs.h opens them."""


def copy_codecs(folder: Path) -> Path:
    """Copy the codecs' libraries to a folder, with a NOTICE; return the folder."""
    return copy_libraries(CODECS, folder)


def copy_libraries(names: Iterable[str], folder: Path) -> Path:
    """Copy libraries by the names that a linker looks for, with a NOTICE; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = set()
    for name in names:
        path = library_path(name)
        shutil.copyfile(path, folder / name)
        (folder / name).chmod(0o644)
        packages.add(package_of(path))
    write_notice(folder / "NOTICE", sorted(packages))
    return folder


def library_path(name: str) -> Path:
    """Return where the system has a library."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True)
    found = re.search(rf"^\s*{re.escape(name)} \(.*\) => (/.*)$", listing.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{name} is not installed; scripts/setup installs it")
    return Path(found[1]).resolve()


def write_notice(path: Path, packages: list[str]) -> None:
    """Write which Debian packages libraries come from, with their copyright files."""
    parts = ["Libraries in this folder come from these packages of Debian, unchanged.\n"]
    for package in packages:
        version = _ask("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package)
        copyright_file = Path("/usr/share/doc", package, "copyright")
        parts.append(f"\n{'=' * 80}\n{package} ({version})\n\n{copyright_file.read_text('utf-8')}")
    path.write_text("".join(parts), encoding="utf-8")


def package_of(path: Path) -> str:
    """Return the Debian package of a file."""
    for each in (path, Path("/", *path.parts[2:])):
        done = subprocess.run(
            ["dpkg", "-S", str(each)], check=False, capture_output=True, text=True
        )
        if done.returncode == 0:
            return done.stdout.partition(":")[0]
    raise SystemExit(f"{path} is of no Debian package")


def _ask(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
