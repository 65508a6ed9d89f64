"""The command scripts/mutate: how many small changes of the engine its tests notice.

What ran is kept in build/mutation: a run goes on where the last one stopped, and runs again what
changed. A survivor meets the tests that are new or changed since, or all when a higher --budget no
longer leaves tests out. Survivors without a difference that anyone could see are listed with the
reason in tests/mutants.tsv and not counted. --scores writes tests/mutation_scores.tsv.
"""

import argparse
import csv
import json
import random
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mutate_mutants import Mutant, change, mutants_of
from mutate_reach import Reach, digest, file_of
from mutate_tests import (
    INVALID,
    KILLED,
    SURVIVED,
    TIMEOUT,
    Result,
    Runner,
    limit_memory,
    python_files,
    say,
    stop,
)

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.checkout import commit, now  # noqa: E402

KEPT = ROOT / "build" / "mutation"
EQUIVALENT = ROOT / "tests" / "mutants.tsv"
SCORES = ROOT / "tests" / "mutation_scores.tsv"
SCORE_COLUMNS = (
    "module",
    "mutants",
    "run",
    "killed",
    "timeout",
    "equivalent",
    "survived",
    "score",
    "sample",
    "commit",
    "date",
)


@dataclass(frozen=True)
class Group:
    """Modules, and the folders of the tests that are about them."""

    name: str
    code: list[str]
    tests: list[str]

    def mutants(self, below: str | None) -> list[Mutant]:
        paths = [path for each in self.code for path in python_files(ROOT / each)]
        names = [path.relative_to(ROOT).as_posix() for path in paths]
        return [
            mutant
            for name in names
            if below is None or name == below or name.startswith(below.rstrip("/") + "/")
            for mutant in mutants_of(ROOT, name)
        ]


class Kept:
    """Results of earlier runs, one a line; a later line about a mutant counts.

    The digests of the test files that a mutant met are in lines of their own.
    """

    def __init__(self, group: Group, files: dict[str, str], budget: float) -> None:
        self._path = KEPT / f"{group.name}.jsonl"
        self._sources: dict[str, str] = {}
        self._files = files
        self._key = digest(json.dumps(files, sort_keys=True).encode())
        self._budget = budget
        self.results: dict[str, Result] = {}
        self._met: dict[str, dict[str, str]] = {}
        self._tables: dict[str, dict[str, str]] = {}
        for line in self._path.read_text().splitlines() if self._path.exists() else []:
            stored = json.loads(line)
            if "table" in stored:
                self._tables[stored["key"]] = stored["table"]
            elif stored["source"] == self._source(stored["path"]):
                result = self.results[stored["id"]] = Result(**stored["result"])
                is_enough = not result.is_cut or stored["budget"] >= budget
                self._met[stored["id"]] = (
                    self._tables.get(stored.get("files"), {}) if is_enough else {}
                )

    def to_run(self, mutants: Sequence[Mutant], reach: Reach) -> dict[Mutant, set[str]]:
        """The mutants without a result, and the survivors that new tests reach, each with the files to run."""
        found = {}
        for mutant in mutants:
            result = self.results.get(mutant.id)
            if result is None or result.outcome == SURVIVED:
                met = self._met.get(mutant.id, {})
                files = {name for name, each in self._files.items() if met.get(name) != each}
                if result is None or not files.isdisjoint(map(file_of, reach.tests_of(mutant))):
                    found[mutant] = files
        return found

    def add(self, mutant: Mutant, result: Result) -> None:
        """Keep a result; called in the process of the tests, too."""
        if self._key not in self._tables:
            self._tables[self._key] = self._files
            self._write({"key": self._key, "table": self._files})
        before = self.results.get(mutant.id)
        if before is not None and self._met.get(mutant.id):
            tests, is_cut = before.tests + result.tests, before.is_cut or result.is_cut
            result = replace(result, tests=tests, is_cut=is_cut)
        self._write(
            {
                "id": mutant.id,
                "path": mutant.path,
                "source": self._source(mutant.path),
                "files": self._key,
                "budget": self._budget,
                "result": asdict(result),
            }
        )

    def _write(self, stored: dict[str, object]) -> None:
        with self._path.open("ab", buffering=0) as out:
            out.write(json.dumps(stored).encode() + b"\n")

    def _source(self, path: str) -> str:
        if path not in self._sources:
            file = ROOT / path
            self._sources[path] = digest(file.read_bytes()) if file.exists() else ""
        return self._sources[path]


class Equivalents:
    """Mutants that do the same as the original, with reasons."""

    def __init__(self) -> None:
        self._rows: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
        self._used: set[tuple[str, str, str, str]] = set()
        if EQUIVALENT.exists():
            with EQUIVALENT.open(newline="") as lines:
                for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                    assert row["reason"], row
                    key = row["function"], row["before"], row["after"]
                    self._rows[row["module"]].add(key)

    def has(self, mutant: Mutant) -> bool:
        rows = self._rows.get(mutant.path)
        if not rows or mutant.function not in {function for function, _, _ in rows}:
            return False
        original = (ROOT / mutant.path).read_text()
        key = mutant.function, *change(original, mutant.source(original))
        if key in rows:
            self._used.add((mutant.path, *key))
        return key in rows

    def unused(self, paths: set[str]) -> Iterator[str]:
        for path in sorted(paths):
            for row in sorted(self._rows.get(path, ())):
                if (path, *row) not in self._used:
                    yield f"{path}: {row[0]}: {row[1]} -> {row[2]}"


def groups() -> dict[str, Group]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)["tool"]["mutation"]["modules"]
    return {name: Group(name, **fields) for name, fields in table.items()}


def chosen(module: str | None, known: dict[str, Group]) -> list[tuple[Group, str | None]]:
    """The groups of a module, with the path below which to stay."""
    if module is None:
        return [(group, None) for group in known.values()]
    if module in known:
        return [(known[module], None)]
    path = module.rstrip("/")
    fits = [
        (group, path)
        for group in known.values()
        if any(path == each or path.startswith(each + "/") for each in group.code)
    ]
    return fits or stop(f"no such module: {module} ({', '.join(known)}, or a path in one of them)")


def run(group: Group, below: str | None, options: argparse.Namespace, scratch: Path) -> None:
    """Run what has no result yet, and print the survivors."""
    mutants = group.mutants(below)
    total = len(mutants)
    if options.limit is not None and options.limit < total:
        picked = random.Random(options.seed).sample(range(total), options.limit)
        mutants = [mutants[place] for place in sorted(picked)]
    equivalents = Equivalents()
    equal = {mutant for mutant in mutants if equivalents.has(mutant)}
    counted = [mutant for mutant in mutants if mutant not in equal]
    if len(mutants) == total:
        for row in equivalents.unused({mutant.path for mutant in mutants}):
            print(f"no mutant is as tests/mutants.tsv says: {row}")
    cache = KEPT / f"{group.name}.reach.json"
    runner = Runner(ROOT, group.tests, options.budget, scratch, cache)
    reach = Reach.read(cache) if options.list else runner.measure(group.code)
    kept = Kept(group, reach.digests(), options.budget)
    todo = kept.to_run(counted, reach)
    if todo and not options.list:
        left = len(todo)

        def report(mutant: Mutant, result: Result) -> None:
            nonlocal left
            left -= 1
            kept.add(mutant, result)
            if result.outcome == SURVIVED:
                say(f"{left} left; {survivor(mutant, result)}")

        runner.run(todo, reach, report)
        kept = Kept(group, reach.digests(), options.budget)
    results = {mutant: kept.results[mutant.id] for mutant in counted if mutant.id in kept.results}
    if options.list:
        for mutant, result in results.items():
            if result.outcome == SURVIVED:
                print(survivor(mutant, result))
    row = score(group.name, results, total, len(equal), options)
    print("  ".join(f"{name} {row[name]}" for name in SCORE_COLUMNS[:-2] if row[name] != ""))
    if options.scores:
        write_score(row)


def survivor(mutant: Mutant, result: Result) -> str:
    where = f"{mutant.path}:{mutant.start[0]} {mutant.function} ({result.tests} tests)"
    return f"{where}\n    - {result.before}\n    + {result.after}"


def score(
    name: str,
    results: dict[Mutant, Result],
    total: int,
    equivalent: int,
    options: argparse.Namespace,
) -> dict[str, str]:
    """A row of the table of scores; a change that is no Python is no mutant."""
    count = Counter(result.outcome for result in results.values())
    ran = sum(count.values()) - count[INVALID]
    caught = count[KILLED] + count[TIMEOUT]
    values = (
        name,
        total - count[INVALID],
        ran,
        count[KILLED],
        count[TIMEOUT],
        equivalent,
        count[SURVIVED],
        f"{100 * caught / ran:.1f}%" if ran else "",
        "" if options.limit is None else f"{options.limit} of {total}, seed {options.seed}",
        commit(),
        now(),
    )
    return dict(zip(SCORE_COLUMNS, map(str, values), strict=True))


def write_score(row: dict[str, str]) -> None:
    """Replace the row of a module in the table of scores."""
    rows = {}
    if SCORES.exists():
        with SCORES.open(newline="") as lines:
            rows = {each["module"]: each for each in csv.DictReader(lines, delimiter="\t")}
    rows[row["module"]] = row
    with SCORES.open("w", newline="") as out:
        writer = csv.DictWriter(out, SCORE_COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in groups() if name in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    known = groups()
    parser = argparse.ArgumentParser(
        prog="scripts/mutate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: scripts/mutate --module index; scripts/mutate --module log --limit 200 --seed 1",
    )
    parser.add_argument("--module", help=f"{', '.join(known)}, or a path in one of them; else all")
    parser.add_argument("--limit", type=int, metavar="N", help="run a sample of N mutants a module")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which sample (0)")
    parser.add_argument(
        "--budget",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="CPU time of the tests of one mutant, the fastest first (20)",
    )
    parser.add_argument("--list", action="store_true", help="run nothing, list the survivors")
    parser.add_argument("--scores", action="store_true", help="write tests/mutation_scores.tsv")
    options = parser.parse_args(arguments)
    if options.scores and options.module not in (None, *known):
        stop("a score is of whole modules")
    KEPT.mkdir(parents=True, exist_ok=True)
    limit_memory()
    with tempfile.TemporaryDirectory(prefix="mutate-") as scratch:
        for group, below in chosen(options.module, known):
            run(group, below, options, Path(scratch))


if __name__ == "__main__":
    main()
