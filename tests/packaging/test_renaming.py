"""A wheel has one top-level package: the engine is inside kafkafs, and works there without the compiled kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.fixtures_data import log_dir

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def renaming() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts" / "packaging")
        import renaming

        yield renaming


@pytest.fixture(scope="module")
def installed(renaming: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of packages after an installation of a wheel without the compiled kernel."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("engine", "kafkafs"):
        shutil.copytree(
            ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
    shutil.copy(ROOT / "pyproject.toml", tree)
    names = renaming.move_engine(tree)
    folder = tmp_path_factory.mktemp("installed")
    for package in names["packages"]:
        home = Path(*package.split("."))
        (folder / home).mkdir(parents=True, exist_ok=True)
        for module in (tree / home).glob("*.py"):
            shutil.copy(module, folder / home)
    for name in names["data"]:
        (folder / "kafkafs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree / "kafkafs" / name, folder / "kafkafs" / name)
    return folder


def _run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the installed packages, and without the repository."""
    code = (
        "import sys; sys.path[:] = [p for p in sys.path if p != sys.argv[2]]\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)]\n"
        "sys.path.insert(0, sys.argv[1]); del sys.argv[1:3]\n"
        "exec(sys.argv.pop(1))"
    )
    command = [sys.executable, "-c", code, str(installed), str(ROOT), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=installed, env=environment
    )


def _kafkafs(installed: Path, *arguments: str) -> str:
    done = _run(installed, "from kafkafs.cli import main; main()", *arguments)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_a_wheel_has_one_top_level_package(installed: Path) -> None:
    assert [path.name for path in installed.iterdir()] == ["kafkafs"]
    done = _run(
        installed, "import kafkafs.engine, importlib.util as u; print(u.find_spec('engine'))"
    )
    assert done.stdout == "None\n", done.stderr
    for name in ("py.typed", "engine/py.typed", "engine/kernel/compiled.pyi", "docs/rebuild.md", "spark/log4j2.properties", "engine/topics/message/control_records.txt", "serve/protocol/messages/Fetch.txt"):  # fmt: skip
        assert (installed / "kafkafs" / name).is_file()


def test_every_module_imports_where_it_is_installed(installed: Path) -> None:
    code = (
        "import importlib, pkgutil, kafkafs\n"
        "names = [m.name for m in pkgutil.walk_packages(kafkafs.__path__, 'kafkafs.')]\n"
        "for name in names:\n"
        "    if 'spark' not in name and 'fuse' not in name and not name.endswith(('__main__', 'session')):\n"
        "        importlib.import_module(name)\n"
        "print(len(names), kafkafs.engine.kernel.is_compiled(), 'engine' in __import__('sys').modules)"
    )
    done = _run(installed, code)
    count, compiled, named = done.stdout.split() if done.stdout else (0, done.stderr, "")
    assert int(count) > 300, compiled
    assert (compiled, named) == ("False", "False")


def test_the_commands_work_there(installed: Path) -> None:
    path = str(log_dir("current"))
    assert _kafkafs(installed, "ls", path).startswith("README.txt\n")
    line = _kafkafs(installed, "cat", path, "orders-0/offset/35")
    assert line.startswith('{"topic":"orders","partition":0,"offset":35,')
    assert "partitions" in _kafkafs(installed, "check", path)
    public = _run(
        installed, "from kafkafs.engine import LogView, __all__; print(LogView.__module__)"
    )
    assert public.stdout == "kafkafs.engine.log.view.log_view\n", public.stderr


def test_the_code_for_spark_has_the_engine_inside_kafkafs(installed: Path, tmp_path: Path) -> None:
    code = (
        "import io, zipfile; from kafkafs.spark.code_archive import code_archive\n"
        "names = zipfile.ZipFile(io.BytesIO(code_archive())).namelist()\n"
        "print(sorted({name.split('/')[0] for name in names}), 'kafkafs/engine/kernel/python.py' in names)"
    )
    done = _run(installed, code)
    assert done.stdout == "['click', 'kafkafs'] True\n", done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "import engine\n",
        "import os, engine.log\n",
        "x = 1; from engine import log\n",
        "name = 'engine.log'\n",
    ],
)
def test_a_name_that_the_pattern_misses_is_found(
    renaming: ModuleType, tmp_path: Path, text: str
) -> None:
    (tmp_path / "module.py").write_text(text)
    assert renaming.remaining(tmp_path / "module.py", {"engine", "engine.log"}) != []
