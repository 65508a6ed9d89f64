"""Random tests that run as long as they are told to: parts with seeds, counters, and findings that can be tried again.

    scripts/soak PART... [--seconds N | --each N | --inputs N] [--jobs N] [--seed S] [--from N]
    scripts/soak all --seconds 14400 --jobs 2
    scripts/soak again FINDING.json
    scripts/soak report | save
    scripts/soak list

A part goes on behind the last input that it tried with the same seed, by the counters in build/soak/counters.jsonl. A
finding is kept in build/soak/findings with its seed and input, and makes the exit status 1; a part that cannot run here
makes it 3. save adds the counters to tests/soak_counters.tsv: runs on other machines go on behind them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.checkout import ROOT
from tests.soak import counters, disasters, frames, fuzz, hurt, judged, kill, posix, text, wire
from tests.soak.parts import Job, Part, kept_input

PARTS: tuple[Part, ...] = (
    *fuzz.PARTS, *posix.PARTS, *kill.PARTS, *text.PARTS, *hurt.PARTS, *judged.PARTS, *wire.PARTS, *frames.PARTS,
    *disasters.PARTS,
)  # fmt: skip
FOLDER = ROOT / "build" / "soak"
WEIGHTS = {"fuzz": 4, "posix": 2, "kill": 2, "loader": 3, "live": 4}
"""Shares of the time, where another group has one."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed arguments."""
    parser = argparse.ArgumentParser(
        prog="scripts/soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", nargs="+", metavar="PART", help="a part, a group of parts, or all; see list"
    )
    time = parser.add_mutually_exclusive_group()
    time.add_argument("--seconds", type=float, help="for all parts together [60]")
    time.add_argument("--each", type=float, metavar="SECONDS", help="for each group of parts")
    parser.add_argument("--inputs", type=int, help="of each part, instead of a time")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the groups [1]")
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, dest="first", metavar="N", help="first input")
    parser.add_argument("--folder", type=Path, help="of counters and findings [build/soak]")
    parsed = parser.parse_args(given)
    parsed.folder = parsed.folder or FOLDER
    return parsed


def sums_file(folder: Path) -> Path:
    """The table of sums that belongs to the counters in a folder."""
    return counters.SAVED if folder == FOLDER else folder / "sums.tsv"


def chosen(names: Sequence[str]) -> list[Part]:
    """The parts of these names. Raises ValueError for a name that nothing has."""
    found: list[Part] = []
    for name in names:
        some = [part for part in PARTS if name in ("all", part.name, part.group)]
        if not some:
            raise ValueError(f"no part is called {name}: see scripts/soak list")
        found += [part for part in some if part not in found]
    return found


def shares(parts: Sequence[Part], seconds: float, each: float | None = None) -> dict[str, float]:
    """Seconds for each part: those of its group (`each`, or by WEIGHTS), split evenly between the parts of it."""
    sizes = Counter(part.group for part in parts)
    total = sum(WEIGHTS.get(group, 1) for group in sizes)
    of_group = {
        group: seconds * WEIGHTS.get(group, 1) / total if each is None else each for group in sizes
    }
    return {part.name: of_group[part.group] / sizes[part.group] for part in parts}


def dealt(parts: Sequence[Part], share: dict[str, float], jobs: int, number: int) -> list[Part]:
    """The parts of one of some jobs, so that all take about as long: whole groups, where there are enough of them."""
    has_groups = len({part.group for part in parts}) >= jobs
    sizes: Counter[str] = Counter()
    for part in parts:
        sizes[part.group if has_groups else part.name] += share.get(part.name, 1.0)
    loads, own = [0.0] * jobs, set()
    for name, seconds in sizes.most_common():
        least = loads.index(min(loads))
        loads[least] += seconds
        if least == number:
            own.add(name)
    return [part for part in parts if own & {part.group, part.name}]


def run_jobs(words: Sequence[str], jobs: int) -> int:
    """Run the same command in processes that each take their own of its parts; the exit status of all together."""
    command = [sys.executable, "-m", "tests.soak.main", *words]
    running = [
        subprocess.Popen([*command, "--job", str(number)], cwd=ROOT) for number in range(jobs)
    ]
    try:
        statuses = [process.wait() for process in running]
    finally:
        for process in running:
            process.wait()  # one that was interrupted takes its mounts away
    for number, status in enumerate(statuses):
        if status not in (0, 1, 3):
            print(f"process {number} of {jobs} ended with status {status}", file=sys.stderr)
    return 1 if set(statuses) - {0, 3} else max(statuses)


def run(parts: Sequence[Part], given: argparse.Namespace) -> int:
    """Run parts one after the other; the exit status."""
    share = {}
    if given.each is not None or given.seconds is not None or given.inputs is None:
        share = shares(parts, 60.0 if given.seconds is None else given.seconds, given.each)
    if given.job is not None:
        parts = dealt(parts, share, given.jobs, given.job)
    file = given.folder / "counters.jsonl"
    found = missing = 0
    for part in parts:
        why = part.obstacle()
        if why:
            print(f"{part.name}: cannot run here: {why}", file=sys.stderr, flush=True)
            missing += 1
            continue
        first = given.first
        if first is None:
            table = counters.sums(counters.read(file), sums_file(given.folder))
            first = counters.first_untried(table, part.name, given.seed)
        job = Job(
            part,
            given.seed,
            first,
            seconds=share.get(part.name),
            inputs=given.inputs,
            findings=given.folder / "findings",
        )
        try:
            part.prepare()
            job.start()
            part.run(job)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 - a finding too, as pytest.fail is; the other parts go on
            job.find(job.first + job.tried, traceback.format_exc())
        counter = counters.of(job)
        counters.append(file, counter)
        found += len(job.found)
        besides = f", {counters.said(counter.notes)}" if counter.notes else ""
        print(
            f"{part.name}: {job.tried:,} {part.unit} from {first:,} of seed {given.seed}{besides}, "
            f"{len(job.found)} findings, {counter.seconds:,.1f} s",
            flush=True,
        )
    return 1 if found else 3 if missing else 0


def again(path: Path) -> int:
    """Try a finding again: its input, if it was kept, else the input of its number."""
    facts = json.loads(path.read_text())
    (part,) = chosen([facts["part"]])
    data = kept_input(facts)
    if data is not None:
        said = fuzz.try_bytes(part.name, data)
        print(said or f"{part.name}: nothing is found any more")
        return 1 if said else 0
    words = [part.name, "--seed", str(facts["seed"]), "--from", str(facts["number"])]
    words += ["--inputs", str(facts["inputs"])]
    return run([part], arguments(words))


def main(given: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    words = sys.argv[1:] if given is None else given
    parsed = arguments(words)
    command, *rest = parsed.parts
    if command == "list":
        for part in PARTS:
            print(f"{part.name:26} {part.what} (in {part.unit})")
        return 0
    if command in ("report", "save"):
        runs, file = counters.read(parsed.folder / "counters.jsonl"), sums_file(parsed.folder)
        if command == "save":
            counters.save(runs, file)
        print(counters.report(counters.sums(runs, file)))
        return 0
    if command == "again" and len(rest) == 1:
        return again(Path(rest[0]))
    try:
        parts = chosen(parsed.parts)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if parsed.jobs > 1 and parsed.job is None:
        return run_jobs(words, parsed.jobs)
    return run(parts, parsed)


if __name__ == "__main__":
    sys.exit(main())
