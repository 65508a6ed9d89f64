"""A folder with the program, its own Python and all that both need: what the .deb and the single file hold.

Debian's Python finds its library beside itself: bin/python3.11 looks for ../lib/python3.11. It runs with -IS, so that
no other Python's packages, variables or site configuration matter.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import notices

NAME = "python3.11"
LEFT_OUT = {
    "__pycache__", "config-3.11-x86_64-linux-gnu", "config-3.11-aarch64-linux-gnu", "dist-packages", "distutils", "ensurepip",
    "idlelib", "lib2to3", "pydoc_data", "sitecustomize.py", "sqlite3", "test", "tests", "tkinter", "turtledemo", "turtle.py",
    "venv", "f2py", "include",
}  # fmt: skip
"""Parts of the standard library and of NumPy that nothing here imports."""
FROM_GLIBC = re.compile(r"(ld-linux.*|libc|libm|libdl|libpthread|librt|libutil|libresolv)\.so\.\d+")
TAKEN = {
    "libcrypto.so.3",
    "libexpat.so.1",
    "libssl.so.3",
    "libz.so.1",
    "libffi.so.8",
    "libstdc++.so.6",
    "libgcc_s.so.1",
}
"""Libraries that are put in; modules of the standard library that need others are left out."""

LAUNCHER = """import sys

sys.argv[:1] = []
sys.path.append(sys.prefix + "/lib/python3.11/site-packages")

from kafkafs.__main__ import main

main()
"""
"""Its first argument is the name by which the program was called."""


def build(home: Path, python: Path, wheels: list[Path], tool: Callable[[str], str]) -> Path:
    """Make the folder, with Debian's `python`, from wheels; return it."""
    (home / "bin").mkdir(parents=True)
    shutil.copyfile(python, home / "bin" / NAME)
    (home / "bin" / NAME).chmod(0o755)
    library = home / "lib" / NAME
    shutil.copytree(Path("/usr/lib", NAME), library, ignore=_ignored, symlinks=False)
    packages = library / "site-packages"
    packages.mkdir(exist_ok=True)
    for wheel in wheels:
        _install(wheel, packages)
    shutil.copyfile(f"/usr/share/doc/{NAME}/copyright", library / "LICENSE")
    _put_libraries(home, library, tool("patchelf"))
    (home / "kafkafs.py").write_text(LAUNCHER, encoding="utf-8")
    _compile(home)
    if named := files_that_name(home):
        raise SystemExit(f"these files name the folder of the build: {', '.join(named)}")
    for path in sorted(home.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return home


def _ignored(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name in LEFT_OUT or name.endswith((".a", ".pyc"))}


def _install(wheel: Path, packages: Path) -> None:
    """Unpack a wheel, without tests, stubs and what only a compiler needs."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            parts = set(name.split("/"))
            if parts & LEFT_OUT or name.endswith(
                (".pyi", ".a", ".pyx", ".pxd", "/", "RECORD", ".h")
            ):
                continue
            archive.extract(name, packages)


def _put_libraries(home: Path, library: Path, patchelf: str) -> None:
    """Copy the libraries that the standard library's modules need, and remove modules that need others."""
    programs = [home / "bin" / NAME, *sorted((library / "lib-dynload").glob("*.so"))]
    codecs = library / "site-packages" / "kafkafs" / "engine" / "kernel" / "codecs"
    programs.append(codecs / "libsnappy.so.1")
    for package in ("google/_upb", "grpc_tools"):  # their wheels expect libstdc++ in the system
        programs += sorted((library / "site-packages" / package).glob("*.so"))
    wanted: set[str] = set()
    for program in programs:
        listed = subprocess.run(
            [patchelf, "--print-needed", str(program)], check=True, capture_output=True, text=True
        )
        needed = {name for name in listed.stdout.split() if not FROM_GLIBC.fullmatch(name)}
        if not needed <= TAKEN:
            program.unlink()
            continue
        wanted |= needed
        if needed:
            path = os.path.relpath(home / "lib" / "system", program.parent)
            subprocess.run([patchelf, "--set-rpath", f"$ORIGIN/{path}", str(program)], check=True)
    wanted |= {"libgcc_s.so.1"} if "libstdc++.so.6" in wanted else set()
    notices.copy_libraries(sorted(wanted), home / "lib" / "system")
    for name in wanted:
        subprocess.run(
            [patchelf, "--set-rpath", "$ORIGIN", str(home / "lib" / "system" / name)], check=True
        )


def _compile(home: Path) -> None:
    """Compile all modules, with no path and no time of this machine in the result."""
    # -B: else the modules of compileall itself are compiled on their import, with their path and time.
    command = [
        *(str(home / "bin" / NAME), "-ISB", "-m", "compileall", "-q"),
        *("--invalidation-mode", "unchecked-hash", "-s", str(home), "-p", "/kafkafs", str(home)),
    ]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}
    )
    if done.returncode:
        raise SystemExit(f"compileall failed:\n{done.stdout}{done.stderr}")


def files_that_name(folder: Path) -> list[str]:
    """Return the files below a folder that contain its path, which differs from one build to the next."""
    path = os.fsencode(folder)
    files = (each for each in sorted(folder.rglob("*")) if each.is_file())
    return [str(each.relative_to(folder)) for each in files if path in each.read_bytes()]
