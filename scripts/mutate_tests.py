"""Runs the tests that reach a mutant, each mutant in a forked process.

The tests are collected once. For a mutant inside a function a fork gets the function's new code object and
runs the tests that reach the changed lines; that costs milliseconds beside the tests. A mutant at the level of
a module or a class, and one that survives in a function that also runs during collection, needs a fork that
imports everything anew. No file of the working tree is changed.
"""

import contextlib
import gc
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NoReturn

import pytest
from mutate_mutants import Mutant, change, code_objects
from mutate_reach import Quick, Reach, file_of, measured

KILLED, SURVIVED, TIMEOUT, INVALID = "killed", "survived", "timeout", "invalid"
AGAIN = "again"
_FAILED, _CANNOT = 1, 4
_MEMORY = 8 << 30
_SLOWEST_SECONDS = 120
_STDERR = os.dup(2)


@dataclass(frozen=True)
class Result:
    """What became of a mutant.

    Attributes:
        before, after: the changed lines.
        test: the one that failed first.
        tests: how many were chosen.
        is_cut: whether there were more than the budget allows.
    """

    outcome: str
    before: str = ""
    after: str = ""
    test: str = ""
    seconds: float = 0.0
    tests: int = 0
    is_cut: bool = False


Report = Callable[[Mutant, Result], None]


class Runner:
    """Runs the tests of one group of modules.

    Args:
        root: of the repository.
        tests: folders of the tests.
        budget: CPU seconds of tests to run for one mutant at most, the fastest first.
        scratch: folder for what the tests write.
        cache: file to keep in what was measured.
    """

    def __init__(
        self, root: Path, tests: Sequence[str], budget: float, scratch: Path, cache: Path
    ) -> None:
        self._root = root
        self._tests = list(tests)
        self._budget = budget
        self._scratch = scratch
        self._cache = cache

    def keep(self, reach: Reach) -> None:
        """Keep what was measured."""
        reach.write(self._cache)

    def measure(self, code: Sequence[str]) -> Reach:
        """Find out which tests reach which lines, as far as that is not known."""
        paths = [path for each in code for path in python_files(self._root / each)]
        tests = [path for each in self._tests for path in python_files(self._root / each)]

        def run(plugin: Callable[[], object], files: Sequence[str]) -> None:
            self._in_fork(lambda: self._pytest(plugin(), files))

        return measured(self._root, paths, tests, self._cache, run)

    def run(self, mutants: Mapping[Mutant, set[str]], reach: Reach, report: Report) -> None:
        """Run the tests of each mutant that are in the files given for it."""
        inside = {mutant: files for mutant, files in mutants.items() if mutant.function}
        anew = [mutant for mutant in mutants if not mutant.function]
        again = self._scratch / "again.json"
        plugin = _Mutating(self, inside, reach, report, again)
        if plugin.files:
            self._in_fork(lambda: self._pytest(plugin, plugin.files))
            reach = Reach.read(self._cache)
            ids = set(json.loads(again.read_text()))
            anew += [mutant for mutant in inside if mutant.id in ids]
        else:
            for mutant in inside:
                report(mutant, Result(SURVIVED, *self._texts(mutant)))
        for mutant in anew:
            report(mutant, self._run_anew(mutant, mutants[mutant], reach))

    def _run_anew(self, mutant: Mutant, files: set[str], reach: Reach) -> Result:
        """Import everything in a fork, with the changed source for the mutant's module."""
        original = (self._root / mutant.path).read_text()
        changed = mutant.source(original)
        texts = change(original, changed)
        code = compiled(changed, self._root / mutant.path)
        if code is None:
            return Result(INVALID, *texts)
        tests = {test for test in reach.tests_near(mutant) if file_of(test) in files}
        chosen = self.within_budget(tests, reach, Counter(), 0.25)
        if not chosen:
            return Result(SURVIVED, *texts)
        started = time.monotonic()

        def child() -> int:
            limit_child(_SLOWEST_SECONDS)
            sys.meta_path.insert(0, _Changed(mutant.module, code, self._root / mutant.path))
            return self._pytest(_Choosing(set(chosen)), sorted(set(map(file_of, chosen))))

        status, _ = forked(lambda _: child())
        outcome = outcome_of(status, survived=(0, 5))
        seconds = time.monotonic() - started
        return Result(outcome, *texts, "", seconds, len(chosen), len(chosen) < len(tests))

    def _texts(self, mutant: Mutant) -> tuple[str, str]:
        original = (self._root / mutant.path).read_text()
        return change(original, mutant.source(original))

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


class _Choosing(Quick):
    """Runs only chosen tests."""

    def __init__(self, chosen: set[str]) -> None:
        self._chosen = chosen

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._chosen]


class _Mutating(Quick):
    """Forks for each mutant in the place of the loop that runs the tests."""

    def __init__(
        self,
        runner: Runner,
        mutants: Mapping[Mutant, set[str]],
        reach: Reach,
        report: Report,
        again: Path,
    ) -> None:
        self._runner = runner
        self._mutants = {
            mutant: {test for test in reach.tests_of(mutant) if file_of(test) in files}
            for mutant, files in mutants.items()
        }
        self._reach = reach
        self._report = report
        self._again = again
        self._items: dict[str, pytest.Item] = {}
        self._failed = ""
        self._kills: dict[str, Counter[str]] = {}

    @property
    def files(self) -> list[str]:
        """The files of all tests that may run."""
        return sorted({file_of(test) for tests in self._mutants.values() for test in tests})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failed:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        modules = {mutant.path: importlib.import_module(mutant.module) for mutant in self._mutants}
        gc.collect()
        functions = _functions_of(modules.values())
        gc.freeze()
        self._run_unchanged()
        again = []
        for mutant, tests in self._mutants.items():
            result = self._try(mutant, functions, tests)
            is_early = result.outcome == SURVIVED and self._reach.runs_on_import(mutant)
            if is_early or result.outcome == AGAIN:
                again.append(mutant.id)
            else:
                self._report(mutant, result)
        self._again.write_text(json.dumps(again))
        return True

    def _run_unchanged(self) -> None:
        """Learn in a fork the time of tests that ran with coverage only, and leave out those that fail there."""
        files = {name: self._reach.files[name] for name in self.files}
        wanted = {test for each in files.values() if not each.is_tried for test in each.seconds}
        target = self._again.with_name("unchanged.json")

        def child(_: int) -> int:
            seconds, failed = {}, []
            for test in self._items:
                if test in wanted:
                    started = time.process_time()
                    self._run([test])
                    seconds[test] = time.process_time() - started
                    failed += [test] if self._failed else []
                    self._failed = ""
            target.write_text(json.dumps({"seconds": seconds, "failed": failed}))
            return 0

        forked(child)
        found = json.loads(target.read_text())
        for name, each in files.items():
            each.seconds.update(
                {test: found["seconds"][test] for test in each.seconds if test in found["seconds"]}
            )
            each.unfit += [test for test in found["failed"] if file_of(test) == name]
            each.is_tried = True
        self._reach.index()
        self._runner.keep(self._reach)
        unfit = sorted(test for each in files.values() for test in each.unfit)
        if unfit:
            say(f"left out, they fail without a change: {', '.join(unfit)}")

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
        wanted: set[str],
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
        tests = wanted & self._reach.tests_of(mutant) & self._items.keys()
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
        seconds = time.monotonic() - started
        return Result(outcome, *texts, failed, seconds, len(chosen), len(chosen) < len(tests))


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
