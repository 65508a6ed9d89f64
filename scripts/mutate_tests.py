"""Runs the tests that reach a mutant, each mutant in a forked process.

The tests are collected once. For a mutant inside a function a fork gets the function's new code object and
runs the tests that reach the changed lines; that costs milliseconds beside the tests. A mutant at the level of
a module or a class, and one that survives in a function that also runs during collection, needs a fork that
imports everything anew. No file of the working tree is changed.
"""

import contextlib
import gc
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NoReturn

import coverage
import hypothesis
import pytest
from mutate_mutants import Mutant, change, code_objects

KILLED, SURVIVED, TIMEOUT, INVALID = "killed", "survived", "timeout", "invalid"
AGAIN = "again"
_FAILED, _CANNOT = 1, 4
_MEMORY = 8 << 30
_SLOWEST_SECONDS = 120
_STDERR = os.dup(2)


@dataclass
class Reach:
    """Which tests reach which lines of a group of modules.

    Attributes:
        seconds: CPU time of each test.
        lines: for a module's path and a line, the tests that reach it.
        imported: for a module's path, the lines that run while tests are collected.
        files: hash of each test file; tests of another file, or of a changed one, may reach everything.
        unfit: tests that fail without a change.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    imported: dict[str, list[int]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    unfit: list[str] = field(default_factory=list)

    def tests_of(
        self, mutant: Mutant, fresh: Iterable[str], *, of_module: bool = False
    ) -> set[str]:
        """The tests to run for a mutant, or for its module, with those that came after this was measured."""
        known = self.lines.get(mutant.path, {})
        lines = known if of_module else map(str, mutant.lines)
        reached = {test for line in lines for test in known.get(line, ())}
        return (reached | set(fresh)) - set(self.unfit)

    def runs_on_import(self, mutant: Mutant) -> bool:
        return not set(mutant.lines).isdisjoint(self.imported.get(mutant.path, ()))


@dataclass(frozen=True)
class Result:
    """What became of a mutant; `test` is the one that failed first."""

    outcome: str
    before: str = ""
    after: str = ""
    test: str = ""
    seconds: float = 0.0
    tests: int = 0


Report = Callable[[Mutant, Result], None]


class Runner:
    """Runs the tests of one group of modules.

    Args:
        root: of the repository.
        tests: folders of the tests.
        budget: CPU seconds of tests to run for one mutant at most, the fastest first.
        scratch: folder for what the tests write.
    """

    def __init__(self, root: Path, tests: Sequence[str], budget: float, scratch: Path) -> None:
        self._root = root
        self._tests = list(tests)
        self._budget = budget
        self._scratch = scratch

    # Measuring

    def measure(self, code: Sequence[str], cache: Path) -> Reach:
        """Find out which tests reach which lines, unless that is known for this code."""
        paths = [path for each in code for path in python_files(self._root / each)]
        digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()
        if cache.exists():
            stored = json.loads(cache.read_text())
            if stored["digest"] == digest and stored["tests"] == self._tests:
                return Reach(**stored["reach"])
        made = cache.with_suffix(".new")
        self._in_fork(lambda: self._measure_to(made, [str(path) for path in paths]))
        reach = Reach(**json.loads(made.read_text()))
        made.unlink()
        stored = {"digest": digest, "tests": self._tests, "reach": reach.__dict__}
        cache.write_text(json.dumps(stored))
        return reach

    def _measure_to(self, target: Path, paths: list[str]) -> int:
        measured = coverage.Coverage(data_file=None, config_file=False, include=paths)
        measured.start()
        plugin = _Measuring(measured)
        self._pytest(plugin, self._tests)
        measured.stop()
        data = measured.get_data()
        reach = Reach(seconds=plugin.seconds, unfit=plugin.failed, files=self.test_files())
        for path in data.measured_files():
            name = Path(path).relative_to(self._root).as_posix()
            contexts = data.contexts_by_lineno(path)
            reach.imported[name] = sorted(line for line in contexts if "" in contexts[line])
            reach.lines[name] = {
                str(line): sorted(set(tests) - {""}) for line, tests in contexts.items()
            }
        target.write_text(json.dumps(reach.__dict__))
        return 0

    def test_files(self) -> dict[str, str]:
        """Hash of each test file."""
        paths = [path for each in self._tests for path in python_files(self._root / each)]
        return {
            path.relative_to(self._root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths
        }

    # Running

    def run(self, mutants: Sequence[Mutant], reach: Reach, report: Report) -> None:
        """Run the tests of each mutant."""
        inside = [mutant for mutant in mutants if mutant.function]
        anew = [mutant for mutant in mutants if not mutant.function]
        if inside:
            again = self._scratch / "again.json"
            plugin = _Mutating(self, inside, reach, report, again)
            self._in_fork(lambda: self._pytest(plugin, self._tests))
            ids = set(json.loads(again.read_text())) if again.exists() else set()
            anew += [mutant for mutant in inside if mutant.id in ids]
        for mutant in anew:
            report(mutant, self._run_anew(mutant, reach))

    def _run_anew(self, mutant: Mutant, reach: Reach) -> Result:
        """Import everything in a fork, with the changed source for the mutant's module."""
        original = (self._root / mutant.path).read_text()
        changed = mutant.source(original)
        texts = change(original, changed)
        code = compiled(changed, self._root / mutant.path)
        if code is None:
            return Result(INVALID, *texts)
        known = self.test_files()
        fresh_files = {name for name, digest in known.items() if reach.files.get(name) != digest}
        tests = reach.tests_of(mutant, (), of_module=True)
        if not tests:  # a module of constants or fields has no line that a test runs
            tests = set(reach.seconds) - set(reach.unfit)
        chosen = self.within_budget(tests, reach, Counter(), 0.25)
        files = sorted({test.partition("::")[0] for test in chosen} | fresh_files)
        if not files:
            return Result(SURVIVED, *texts)
        started = time.monotonic()

        def child() -> int:
            limit_child(_SLOWEST_SECONDS)
            sys.meta_path.insert(0, _Changed(mutant.module, code, self._root / mutant.path))
            return self._pytest(_Choosing(set(chosen), fresh_files), files)

        status, _ = forked(lambda _: child())
        outcome = outcome_of(status, survived=(0, 5))
        return Result(outcome, *texts, "", time.monotonic() - started, len(chosen))

    def within_budget(
        self, tests: Iterable[str], reach: Reach, kills: Counter[str], share: float = 1.0
    ) -> list[str]:
        """The tests in the order to run them, up to a share of the budget."""
        ordered = sorted(tests, key=lambda test: (-kills[test], reach.seconds.get(test, 0.0), test))
        spent, chosen = 0.0, []
        for test in ordered:
            spent += reach.seconds.get(test, 0.0)
            if chosen and spent > share * self._budget:
                break
            chosen.append(test)
        return chosen

    def _pytest(self, plugin: object, tests: Sequence[str]) -> int:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (1, 2):
            os.dup2(null, descriptor)
        return int(
            pytest.main(
                [
                    *("-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", "-o", "timeout=0"),
                    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
                    f"--basetemp={self._scratch / 'tests'}",
                    *tests,
                ],
                plugins=[plugin],
            )
        )

    def _in_fork(self, run: Callable[[], int]) -> None:
        status, _ = forked(lambda _: run())
        if status != 0:
            raise SystemExit(f"the tests cannot be run without a change: status {status}")


def say(text: str) -> None:
    """Print a line on the standard error of the command, also in a fork."""
    os.write(_STDERR, f"{text}\n".encode())


def python_files(path: Path) -> list[Path]:
    """A Python file, or those of a folder."""
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def compiled(source: str, path: Path) -> CodeType | None:
    """The code of a module; None if the change is no Python or no change."""
    try:
        code: CodeType = compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, SyntaxWarning):
        return None
    return None if code == compile(path.read_text(), str(path), "exec", dont_inherit=True) else code


def forked(child: Callable[[int], int]) -> tuple[int, str]:
    """Run a function in a fork; return the wait status and what was written to the descriptor it got."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = _CANNOT
        try:
            os.setsid()
            os.close(read)
            status = child(write)
        except BaseException:
            os.write(_STDERR, traceback.format_exc().encode())
            raise
        finally:
            os._exit(status)
    os.close(write)
    try:
        _, status = os.waitpid(pid, 0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    with open(read, "rb") as pipe:
        os.set_blocking(read, False)
        said = pipe.read() or b""
    return status, said.decode()


def limit_child(seconds: float) -> None:
    """Let the kernel end this process when it takes too long."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds + 30)


def outcome_of(status: int, *, survived: Sequence[int] = (0,)) -> str:
    if os.WIFSIGNALED(status):
        late = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        return TIMEOUT if late else KILLED
    return SURVIVED if os.WEXITSTATUS(status) in survived else KILLED


class _Quick:
    """Hypothesis neither shrinks nor remembers what fails."""

    def pytest_collection(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        usual = hypothesis.settings.get_profile("quick")
        hypothesis.settings.register_profile("mutants", usual, phases=phases)
        hypothesis.settings.load_profile("mutants")


class _Measuring(_Quick):
    """Notes the time of each test, and tells the coverage which one runs."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, session: pytest.Session) -> Iterator[None]:
        yield
        session.config.option.maxfail = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[object]:
        self._measured.switch_context(item.nodeid)
        started = time.process_time()
        done = yield
        self.seconds[item.nodeid] = time.process_time() - started
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.exitstatus = 0


class _Choosing(_Quick):
    """Runs only chosen tests, and all tests of some files."""

    def __init__(self, chosen: set[str], files: set[str]) -> None:
        self._chosen = chosen
        self._files = files

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [
            item
            for item in items
            if item.nodeid in self._chosen or item.nodeid.partition("::")[0] in self._files
        ]


class _Mutating(_Quick):
    """Forks for each mutant in the place of the loop that runs the tests."""

    def __init__(
        self,
        runner: Runner,
        mutants: Sequence[Mutant],
        reach: Reach,
        report: Report,
        again: Path,
    ) -> None:
        self._runner = runner
        self._mutants = mutants
        self._reach = reach
        self._report = report
        self._again = again
        self._items: dict[str, pytest.Item] = {}
        self._failed = ""
        self._kills: dict[str, Counter[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failed:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        modules = {mutant.path: importlib.import_module(mutant.module) for mutant in self._mutants}
        known = self._runner.test_files()
        changed = {name for name, digest in known.items() if self._reach.files.get(name) != digest}
        fresh = [test for test in self._items if test.partition("::")[0] in changed]
        gc.collect()
        functions = _functions_of(modules.values())
        gc.freeze()
        self._run_unchanged(fresh)
        again = []
        for mutant in self._mutants:
            result = self._try(mutant, functions, fresh)
            is_early = result.outcome == SURVIVED and self._reach.runs_on_import(mutant)
            if is_early or result.outcome == AGAIN:
                again.append(mutant.id)
            else:
                self._report(mutant, result)
        self._again.write_text(json.dumps(again))
        return True

    def _run_unchanged(self, fresh: Sequence[str]) -> None:
        """Learn the time of the tests in a fork, and leave out those that fail there."""
        reach, target = self._reach, self._again.with_name("unchanged.json")
        wanted = set().union(*(reach.tests_of(mutant, fresh) for mutant in self._mutants))

        def child(_: int) -> int:
            seconds, failed = {}, []
            for test in self._items:
                if test in wanted:
                    started = time.process_time()
                    self._run([test])
                    seconds[test] = time.process_time() - started
                    failed += [self._failed] if self._failed else []
                    self._failed = ""
            target.write_text(json.dumps({"seconds": seconds, "failed": failed}))
            return 0

        forked(child)
        found = json.loads(target.read_text())
        reach.seconds.update(found["seconds"])
        reach.unfit.extend(found["failed"])
        if reach.unfit:
            say(f"left out, they fail without a change: {', '.join(reach.unfit)}")

    def _run(self, tests: Sequence[str], limit: Callable[[str], float] | None = None) -> bool:
        """Run tests up to the first that fails; return whether none did."""
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            if limit is not None:
                limit_child(limit(test))
            item = self._items[test]
            after = None if following is None else self._items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed:
                return False
        return True

    def _limit(self, test: str) -> float:
        return 2 + 10 * self._reach.seconds.get(test, 1.0)

    def _try(
        self,
        mutant: Mutant,
        functions: dict[tuple[str, str, int], list[FunctionType]],
        fresh: Sequence[str],
    ) -> Result:
        path = Path(mutant.path).absolute()
        original = path.read_text()
        changed = mutant.source(original)
        texts = change(original, changed)
        code = compiled(changed, path)
        if code is None:
            return Result(INVALID, *texts)
        place = (mutant.function, mutant.first_line)
        found = functions.get((str(path), *place), [])
        new = next(
            each for each in code_objects(code) if (each.co_qualname, each.co_firstlineno) == place
        )
        kills = self._kills.setdefault(mutant.path, Counter())
        tests = self._reach.tests_of(mutant, fresh) & self._items.keys()
        chosen = self._runner.within_budget(tests, self._reach, kills)
        if not found or not chosen:
            return Result(SURVIVED, *texts)

        if any(len(each.__code__.co_freevars) != len(new.co_freevars) for each in found):
            return Result(AGAIN)

        def child(write: int) -> int:
            for function in found:
                function.__code__ = new
            if self._run(chosen, self._limit):
                return 0
            os.write(write, self._failed.encode())
            return _FAILED

        started = time.monotonic()
        status, failed = forked(child)
        outcome = outcome_of(status)
        if failed:
            kills[failed] += 1
        return Result(outcome, *texts, failed, time.monotonic() - started, len(chosen))


def _functions_of(
    modules: Iterable[ModuleType],
) -> dict[tuple[str, str, int], list[FunctionType]]:
    """The functions of some modules, by file, qualified name and first line."""
    files = {module.__file__ for module in modules}
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename in files:
            code = each.__code__
            key = (code.co_filename, code.co_qualname, code.co_firstlineno)
            found.setdefault(key, []).append(each)
    return found


class _Changed(importlib.machinery.SourceFileLoader, importlib.abc.MetaPathFinder):
    """Gives one module its changed code."""

    def __init__(self, name: str, code: CodeType, path: Path) -> None:
        super().__init__(name, str(path))
        self._code = code

    def find_spec(
        self, name: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def stop(text: str) -> NoReturn:
    raise SystemExit(f"mutate: {text}")


def limit_memory() -> None:
    """Let a mutant that takes all memory fail alone."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard))
