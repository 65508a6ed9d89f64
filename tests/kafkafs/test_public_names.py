"""What a user of the library may rely on."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import engine
import kafkafs
from kafkafs.tree.errors import NotFound
from tests.fixtures_data import log_dir


def test_the_public_names_of_the_engine_are_there() -> None:
    assert {name: getattr(engine, name).__name__ for name in engine.__all__ if name[0] != "_"} == {
        name: name for name in engine.__all__ if name[0] != "_"
    }
    with pytest.raises(AttributeError, match="no attribute 'LogVeiw'"):
        _ = engine.LogVeiw


def test_the_public_names_of_the_views_are_there() -> None:
    names = {name for name in kafkafs.__all__ if name[0].isupper()}
    if find_spec("pyarrow") is None:
        names.remove("Scan")
    assert {getattr(kafkafs, name).__name__ for name in names} == names
    command = [sys.executable, "-c", "import kafkafs; kafkafs.SourceEror"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "has no attribute 'SourceEror'. Did you mean: 'SourceError'?" in shown
    assert set(kafkafs.__all__) <= set(dir(kafkafs))


def test_the_page_names_only_what_a_wheel_has_too() -> None:
    """In a wheel the engine is inside kafkafs, so that its own names are others there."""
    page = (Path(kafkafs.__file__).parent / "docs" / "python.md").read_text()
    named = set(re.findall(r"`kafkafs\.(\w+)`", page)) - {"__all__"}
    assert len(named) > 8
    assert named <= set(kafkafs.__all__)
    assert "engine." not in page


def test_a_type_checker_finds_wrong_options_of_a_scan(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import kafkafs\n"
        'with kafkafs.open("x") as source:\n'
        '    source.scan("orders", columns=["key"], decode="json", limit=3, since="-1h")\n'
        '    source.scan("orders", colums=["key"])\n'
        '    source["orders"].scan(decode="colums")\n'
        '    source["orders", 0].scan(limit="3")\n'
        '    source["orders", 0][3:5].scan(thread=1)\n'
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)]
    shown = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    errors = re.findall(r"program\.py:(\d+): error: .*\[([a-z-]+)\]", shown.stdout)
    assert errors == [("4", "call-arg"), ("5", "arg-type"), ("6", "arg-type"), ("7", "call-arg")]


def test_an_open_source_gives_names_and_bytes() -> None:
    source = log_dir("current")
    with kafkafs.open(source) as tree:
        assert {"orders-0", "state", "README.txt"} <= set(tree.names())
        assert (
            tree.read("orders-0/segments/00000000000000000000.log")
            == (source / "orders-0" / "00000000000000000000.log").read_bytes()
        )
        assert tree.read("orders-0/offset/5").startswith(b'{"topic":"orders"')
        with pytest.raises(NotFound):
            tree.read("orders-0/offset/x")
        with pytest.raises(IsADirectoryError):
            tree.read("orders-0")


def test_a_link_is_followed_to_its_file() -> None:
    with kafkafs.open(log_dir("current")) as tree:
        node = tree.tree.follow(tree.tree.resolve("orders-0/time/2001-01-01T00:00:00Z"))
        assert node.path.startswith("orders-0/offset/")
        assert tree.read("orders-0/time/2001-01-01T00:00:00Z") == tree.read(node.path)


def test_importing_costs_nothing_until_something_is_opened(tmp_path: Path) -> None:
    asked = "import sys, engine, kafkafs; print(sorted(m for m in sys.modules if m == 'numpy' or 'log' in m))"
    command = [sys.executable, "-c", asked]
    shown = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "[]\n"
