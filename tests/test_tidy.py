"""House rules that no linter knows."""

import ast
import graphlib
import re
import subprocess
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted([*ROOT.glob("engine/**/*.py"), *ROOT.glob("kafkafs/**/*.py")])
VAGUE = {
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "base",
    "core",
    "misc",
    "manager",
    "data",
    "info",
}
Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
METHODS = (FunctionType, classmethod, staticmethod, property, cached_property)
TOP_LEVEL = {
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore", ".ci", "kafkafs", "engine",
    "tests", "scripts",
}  # fmt: skip


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def texts() -> dict[str, str]:
    """The source of each module, by its path."""
    return {name_of(path): path.read_text() for path in MODULES}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in texts().items()}


@cache
def documented() -> list[tuple[str, Documented]]:
    """Each module, class and function, and the path of its module."""
    return [
        (name, node)
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, Documented)
    ]


def module_name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def found(pattern: str, among: list[str] | None = None) -> list[str]:
    """Where a pattern is, as `path: text`: in the modules at these paths, or in all."""
    return [
        f"{name}: {match[0]}"
        for name in (texts() if among is None else among)
        for match in [re.search(pattern, texts()[name], re.MULTILINE)]
        if match
    ]


def test_a_module_is_named_after_what_it_holds_and_is_short() -> None:
    assert [name_of(path) for path in MODULES if path.stem in VAGUE] == []
    assert [name for name, text in texts().items() if len(text.splitlines()) > 500] == []


def test_a_function_fits_on_a_screen() -> None:
    long = []
    for name, node in documented():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > 60:
                long.append(f"{name}: {node.name}: {lines} lines")
    assert long == []


OPENING = ("engine/files/source_files.py", "engine/files/beneath.py")


def test_one_module_opens_source_files_and_another_writes_our_own() -> None:
    others = [name for name in texts() if name != "engine/disk/disk.py"]
    assert found(r"^\s*(import|from) mmap\b", others) == []
    opens = r"(?<![\w.])(?<!def )open\(|os\.open\(|\.read_bytes\(|\.read_text\("
    engine = [name for name in others if name.startswith("engine/") and name not in OPENING]
    assert found(opens, engine) == []


DECLARING = {
    "engine/coding/layout.py",  # Layout, from which formats derive structs and dtypes
    "engine/coding/fixed_width.py",  # single numbers
    "engine/coding/checksums.py",
    "engine/topics/message/decoding.py",  # readers compiled from schemas
    "engine/record/control_records.py",
    # Tables in memory and structures of the system, not of Kafka.
    "engine/columns/batch_table.py",
    "engine/columns/columns.py",
    "engine/columns/batch_summary.py",
    "engine/kernel/python_batches.py",
    "engine/files/lock_holder.py",
    "kafkafs/fuse/forgetting.py",
    # Avro's numbers, not Kafka's.
    "kafkafs/schemas/decoders/avro_logical.py",
    "kafkafs/schemas/decoders/avro_reader.py",
    "kafkafs/schemas/types/numbers.py",
}


def test_a_format_is_declared_once_and_structs_are_derived() -> None:
    by_hand = r"struct\.Struct\(|struct\.(?:un)?pack(?:_from|_into)?\(\s*f?[\"']>|np\.dtype\(\s*\["
    assert found(by_hand, [name for name in texts() if name not in DECLARING]) == []


KNOWING_THE_CONTROL_BIT = {
    "engine/record/attributes.py",  # is_control, for all others
    # With other bits, as a mask of what stays, or of what is compared.
    "engine/kernel/python_compaction.py",
    "engine/check/replicas/replica_batches.py",
    "engine/broker/append/usual_batch.py",
    "engine/record/encoding/writable_batch.py",
}
ASKING_FOR_FATES = {
    "kafkafs/records/visible.py",
    "kafkafs/serve/records/aborted_transactions.py",  # what a Fetch states, by Kafka's protocol
}


def test_what_a_control_batch_is_and_who_asks_for_fates_is_written_once() -> None:
    others = [name for name in texts() if name not in KNOWING_THE_CONTROL_BIT]
    assert found(r"\bCONTROL_MASK\b", others) == []
    others = [name for name in texts() if name not in ASKING_FOR_FATES]
    assert found(r"\.fates\(", [name for name in others if name.startswith("kafkafs/")]) == []


def test_only_the_clock_asks_what_time_it_is() -> None:
    asks = (
        r"\btime\.(time|localtime|ctime|asctime)(_ns)?\b|\b(datetime|date)\.(now|today|utcnow)\b"
        r"|from time import [^\n]*\b(time|time_ns|localtime)\b|CLOCK_REALTIME"
    )
    assert found(asks, [name for name in texts() if name != "engine/clock.py"]) == []


def test_a_public_method_has_a_docstring_or_inherits_one() -> None:
    bare, apart = [], []
    for path in texts():
        if path.endswith("/__main__.py"):
            continue
        try:
            module = import_module(module_name(path))
        except ImportError as error:
            apart.append(f"{path}: {error}")
            continue
        bare += bare_methods(module)
    assert bare == []
    if apart:
        pytest.skip(f"cannot be imported here: {'; '.join(apart)}")


def bare_methods(module: ModuleType) -> list[str]:
    """The public methods of the module's public classes that have no docstring and inherit none."""
    return [
        f"{module.__name__}.{name}.{method}"
        for name, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and name[0] != "_"
        for method, value in vars(kind).items()
        if isinstance(value, METHODS) and method[0] != "_" and not value.__doc__
        if not any(method in vars(base) for base in kind.__mro__[1:])
    ]


def test_a_docstring_does_not_only_refer_to_another() -> None:
    refer = [
        (name, text)
        for name, node in documented()
        for text in [ast.get_docstring(node) or ""]
        if re.fullmatch(r"See [`\w.()]+", text)
    ]
    assert refer == []


def test_nothing_is_left_to_be_written() -> None:
    assert found(r"\bTODO\b|\bFIXME\b|NotImplementedError|not implemented") == []


def test_the_name_of_a_public_class_is_used_once() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def imported_by(tree: ast.Module, names: set[str]) -> set[str]:
    """The modules that a module imports, for types only and inside of functions too."""
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & names
            imported.update(inner or {node.module})
    return imported & names


def test_no_imports_form_a_circle() -> None:
    modules = {module_name(path): tree for path, tree in trees().items()}
    names = set(modules)
    graph = {name: imported_by(tree, names) - {name} for name, tree in modules.items()}
    assert list(graphlib.TopologicalSorter(graph).static_order())  # or a CycleError names it


def test_the_top_level_holds_only_what_the_design_names() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    assert {line.split("/")[0] for line in listed.stdout.splitlines()} <= TOP_LEVEL


def test_the_tests_of_each_folder_have_a_place_in_the_order() -> None:
    from tests.conftest import LAYERS

    tests = (ROOT / "tests").rglob("test_*.py")
    folders = {path.parent.relative_to(ROOT / "tests").as_posix() for path in tests}
    ordered = {name for name in folders if name.startswith(("engine", "kafkafs"))}
    assert ordered - set(LAYERS) == set()
    assert {name for name in LAYERS if not (ROOT / "tests" / name).is_dir()} == set()


def test_every_command_has_help_with_an_example() -> None:
    from click import Context

    from kafkafs.cli import COMMANDS, cli

    for name in COMMANDS:
        command = cli.get_command(Context(cli), name)
        assert command is not None
        assert f"kafkafs {name}" in (command.help or ""), name


@pytest.mark.parametrize("package", ["engine", "kafkafs"])
def test_a_readme_names_every_folder_and_only_paths_that_exist(package: str) -> None:
    text = (ROOT / package / "README.md").read_text()
    folders = [each for each in (ROOT / package).iterdir() if (each / "__init__.py").exists()]
    assert [each.name for each in folders if f"`{each.name}/`" not in text] == []
    named = re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", text.replace("NAME.txt", ""))
    here = [
        f"/{name_of(each)}"
        for top in ("engine", "kafkafs", "tests")
        for each in (ROOT / top).rglob("*")
    ]
    known = {"/".join(path.split("/")[at:]) for path in here for at in range(path.count("/") + 1)}
    assert [each for each in named if each.rstrip("/") not in known] == []
