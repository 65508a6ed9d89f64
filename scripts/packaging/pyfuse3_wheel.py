"""A wheel of pyfuse3 for Python 3.11 and all later ones: PyPI has its sources only, which pip compiles for one version.

Its extension uses little that the limited API lacks: a class that extends Exception in C, and two macros for bytes.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

CHANGES = (
    ("util/build_backend.py", "            include_dirs=['Include'],\n",
     ("            include_dirs=['Include'],\n            py_limited_api=True,\n"
     "            define_macros=[('Py_LIMITED_API', '0x030b0000')],\n")),
    ("src/pyfuse3/__init__.pyx", "_pyfuse3.FUSEError = FUSEError\n", ""),
    ("src/pyfuse3/__init__.pyx", "cdef class FUSEError(Exception):", "class FUSEError(Exception):"),
    ("src/pyfuse3/__init__.pyx", "    cdef readonly int errno_\n", ""),
    ("src/pyfuse3/__init__.pyx", "    def __cinit__(self, errno):\n        self.errno_ = errno\n",
     "    def __init__(self, errno):\n        super().__init__(errno)\n        self.errno_ = errno\n"),
    ("src/pyfuse3/__init__.pyx", "        return strerror(self.errno_)\n",
     "        return strerror(self.errno_)\n\n\n_pyfuse3.FUSEError = FUSEError\n"),
    ("src/pyfuse3/__init__.pyx", "PyBytes_AS_STRING", "PyBytes_AsString"),
    ("src/pyfuse3/internal.pxi", "PyBytes_AS_STRING", "PyBytes_AsString"),
)  # fmt: skip
"""File, text and what takes its place, everywhere in the file."""
_LIMITED = "\n[bdist_wheel]\npy_limited_api = cp311\n"


def build(folder: Path, pinned: str, run: Callable[..., None], pip: str) -> Path:
    """Build the wheel in a folder, and return its path.

    Args:
        folder: an empty folder.
        pinned: pyfuse3==VERSION.
        run: runs a command, with variables of its environment.
        pip: path of pip, of an environment with what pyfuse3 is built by.
    """
    plain = ("-q", "--no-deps", "--no-build-isolation")
    run(pip, "download", *plain, "--no-binary", ":all:", "-d", str(folder), pinned)
    (archive,) = folder.glob("pyfuse3-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder)
    source = folder / archive.name.removesuffix(".tar.gz")
    change(source)
    flags = f"-O2 -g0 -ffile-prefix-map={folder}=. -Wl,--strip-all"
    run(pip, "wheel", *plain, "-w", str(folder), str(source), CFLAGS=flags)
    (built,) = folder.glob("pyfuse3-*-abi3-*.whl")
    return built


def change(source: Path) -> None:
    """Make the sources fit for the limited API.

    Raises:
        ValueError: another version of them has other texts.
    """
    for name, old, new in CHANGES:
        text = (source / name).read_text(encoding="utf-8")
        if old not in text:
            raise ValueError(f"{name} of pyfuse3 has no {old!r}: look at its changes")
        (source / name).write_text(text.replace(old, new), encoding="utf-8")
    with (source / "setup.cfg").open("a", encoding="utf-8") as file:
        file.write(_LIMITED)
