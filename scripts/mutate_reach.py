"""Which tests reach which lines of a group of modules: measured by coverage, and kept.

Kept is one entry a test file. Later only these files are measured again: a changed file, a file next to or below a
changed file that is no test, and a file with tests that reached a module which changed.
"""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import coverage
import hypothesis
import pytest
from mutate_mutants import Mutant

_SHARED = "fixture "


@dataclass
class TestFile:
    """What was measured of the tests of one file.

    Attributes:
        digest: of the file, and of the files beside and above it that are no tests.
        seconds: CPU time of each test.
        lines: for each test the lines it reaches, by the module's path.
        unfit: tests that fail without a change.
        is_tried: whether the tests ran without coverage too, as they do for a mutant.
    """

    digest: str
    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    unfit: list[str] = field(default_factory=list)
    is_tried: bool = False


@dataclass
class Reach:
    """Which tests reach which lines.

    Attributes:
        modules: digest of each module, by path.
        imported: for a module's path, the lines that run while tests are collected.
        files: what is known of each test file, by path.
    """

    modules: dict[str, str] = field(default_factory=dict)
    imported: dict[str, list[int]] = field(default_factory=dict)
    files: dict[str, TestFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index()

    @classmethod
    def read(cls, path: Path) -> "Reach":
        """What is kept; nothing without the file."""
        if not path.exists():
            return cls()
        stored = json.loads(path.read_text())
        files = {name: TestFile(**each) for name, each in stored.pop("files").items()}
        return cls(**stored, files=files)

    def write(self, path: Path) -> None:
        made = path.with_suffix(".new")
        made.write_text(json.dumps(asdict(self)))
        made.replace(path)

    def index(self) -> None:
        """Note the tests of each line; needed after each change of `files`."""
        self.seconds: dict[str, float] = {}
        self._tests: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._tests_of_module: dict[str, set[str]] = defaultdict(set)
        for each in self.files.values():
            self.seconds.update(each.seconds)
            for test, modules in each.lines.items():
                if test not in each.unfit:
                    for path, lines in modules.items():
                        self._tests_of_module[path].add(test)
                        for line in lines:
                            self._tests[path, line].add(test)

    def tests_of(self, mutant: Mutant) -> set[str]:
        """The tests that reach a changed statement, or for a change outside functions the tests near the module."""
        if mutant.function:
            return set().union(*(self._tests.get((mutant.path, line), ()) for line in mutant.lines))
        return self.tests_near(mutant)

    def tests_near(self, mutant: Mutant) -> set[str]:
        """All tests of the files with a test that reaches the module.

        A module of constants or fields has no line that a test runs: any test may notice its change.
        """
        near = {file_of(test) for test in self._tests_of_module.get(mutant.path, ())}
        return {
            test
            for name, each in self.files.items()
            if name in near or not near
            for test in each.seconds.keys() - each.unfit
        }

    def runs_on_import(self, mutant: Mutant) -> bool:
        return not set(mutant.lines).isdisjoint(self.imported.get(mutant.path, ()))

    def digests(self) -> dict[str, str]:
        """Digest of each test file."""
        return {name: each.digest for name, each in self.files.items()}


def file_of(test: str) -> str:
    return test.partition("::")[0]


def measured(
    root: Path,
    code: Sequence[Path],
    tests: Sequence[Path],
    kept: Path,
    run: Callable[[Callable[[], object], Sequence[str]], None],
) -> Reach:
    """Measure what is not known, and keep it.

    Args:
        root: of the repository.
        code: files of the modules.
        tests: Python files of the test folders, with those that are no tests.
        kept: file to keep all in.
        run: runs test files in a process of their own, with a plugin of pytest made there.
    """
    reach = Reach.read(kept)
    modules = {_name(path, root): digest(path.read_bytes()) for path in code}
    files = dict(_test_files(root, tests))
    changed = {path for path, each in modules.items() if reach.modules.get(path) != each}
    is_new = not changed <= reach.modules.keys()
    stale = [
        name
        for name, each in files.items()
        if is_new
        or name not in reach.files
        or reach.files[name].digest != each
        or any(not changed.isdisjoint(lines) for lines in reach.files[name].lines.values())
    ]
    if stale or changed or files.keys() != reach.files.keys():
        made = kept.with_suffix(".part")
        if stale:
            run(lambda: _Measuring(code, root, made), stale)
        part = Reach.read(made)
        made.unlink(missing_ok=True)
        for path in modules:
            old = () if path in changed else reach.imported.get(path, ())
            part.imported[path] = sorted({*old, *part.imported.get(path, ())})
        found = {
            name: part.files.get(name, TestFile("")) if name in stale else reach.files[name]
            for name in files
        }
        for name, each in found.items():
            each.digest = files[name]
        reach = Reach(modules, part.imported, found)
        reach.write(kept)
    return reach


def digest(data: bytes) -> str:
    """A short hash."""
    return hashlib.sha256(data).hexdigest()[:16]


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _test_files(root: Path, paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Name and digest of each test file."""
    contents = {path: path.read_bytes() for path in sorted(set(paths))}
    beside = {path for path in contents if not path.name.startswith("test_")}
    for path in contents.keys() - beside:
        above = (contents[each] for each in sorted(beside) if path.is_relative_to(each.parent))
        yield _name(path, root), digest(b"\0".join([contents[path], *above]))


class Quick:
    """Hypothesis neither shrinks nor remembers what fails."""

    def pytest_collection(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        usual = hypothesis.settings.get_profile("quick")
        hypothesis.settings.register_profile("mutants", usual, phases=phases)
        hypothesis.settings.load_profile("mutants")


class _Measuring(Quick):
    """Notes the time of each test and the lines it reaches; those of a shared fixture belong to all its tests."""

    def __init__(self, code: Sequence[Path], root: Path, target: Path) -> None:
        self._root = root
        self._target = target
        include = [str(path) for path in code]
        self._measured = coverage.Coverage(data_file=None, config_file=False, include=include)
        self._context = ""
        self._seconds: dict[str, float] = {}
        self._fixtures: dict[str, list[str]] = {}
        self._failed: set[str] = set()
        self._measured.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, session: pytest.Session) -> Iterator[None]:
        yield
        session.config.option.maxfail = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[object]:
        self._switch(item.nodeid)
        started = time.process_time()
        done = yield
        self._seconds[item.nodeid] = time.process_time() - started
        self._fixtures[item.nodeid] = list(getattr(item, "fixturenames", ()))
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before = self._context
        self._switch(f"{_SHARED}{fixturedef.argname}")
        try:
            return (yield)
        finally:
            self._switch(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._measured.stop()
        if session.exitstatus in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = 0  # else a file cannot be imported: no test of any file ran
        self._reach().write(self._target)

    def _switch(self, context: str) -> None:
        self._context = context
        self._measured.switch_context(context)

    def _reach(self) -> Reach:
        users: dict[str, list[str]] = defaultdict(list)
        for test, names in self._fixtures.items():
            users[test].append(test)
            for name in names:
                users[f"{_SHARED}{name}"].append(test)
        found = Reach()
        for test, seconds in self._seconds.items():
            file = found.files.setdefault(file_of(test), TestFile(""))
            file.seconds[test] = seconds
            file.lines[test] = {}
            if test in self._failed:
                file.unfit.append(test)
        data = self._measured.get_data()
        for absolute in data.measured_files():
            path = _name(Path(absolute), self._root)
            lines: dict[str, set[int]] = defaultdict(set)
            for line, contexts in data.contexts_by_lineno(absolute).items():
                for context in contexts:
                    lines[context].add(line)
            found.imported[path] = sorted(lines.pop("", ()))
            by_test: dict[str, set[int]] = defaultdict(set)
            for context, each in lines.items():
                for test in users[context]:
                    by_test[test] |= each
            for test, each in by_test.items():
                found.files[file_of(test)].lines[test][path] = sorted(each)
        return found
