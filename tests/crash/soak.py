"""Many crashes: `python -m tests.crash.soak --states 10000 --seed 1`.

`--faults 5000` lets calls fail instead.

Each round records one of the scenarios or a random walk, and loads what crashes at random moments of it leave.
A part of them is loaded on a recording disk in turn, for crashes of the recovery itself.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from engine.disk.disk import DISK
from tests.crash.driver import Driver, Promise, batches_in, open_log, records_below
from tests.crash.failing import Failures
from tests.crash.faults import CODES, count_calls, try_fault
from tests.crash.judge import judge_state, promise_at, quiet
from tests.crash.recording import (
    Recording,
    RecordingDisk,
    State,
    materialize,
    random_plain_state,
    random_state,
)
from tests.crash.scenarios import SCENARIOS, step, walk, write_overflowed

STATES_OF_ONE = 120
SHM = Path("/dev/shm")


def work_folder() -> Path:
    """A folder of our own in memory, or wherever temporary files go."""
    return Path(tempfile.mkdtemp(prefix="crash-", dir=SHM if SHM.is_dir() else None))


def record(name: str, root: Path, random: Random) -> Recording:
    """Do one scenario, or "walk", in a new log dir."""
    root.mkdir()
    if name == "split":
        old = Driver(root)
        write_overflowed(old)
        driver = Driver(root, RecordingDisk(root))
        driver.current = old.current
        driver.say(old.promise)
    else:
        driver = Driver(root, RecordingDisk(root))
    with quiet():
        if name == "walk":
            walk(driver, random, random.randrange(10, 50))
        else:
            SCENARIOS[name](driver)
        driver.let_go()
    assert driver.recording is not None
    return driver.recording


def record_recovery(state: State, start: int, root: Path, random: Random) -> Recording:
    """Load what a crash left, and go on. Whatever crashes meanwhile must leave what the loading finds.

    What lies below `start` need not be whole.
    """
    materialize(state.tree, root)
    shutil.copytree(root, root.with_name("copy"))
    with quiet():
        found = open_log(root.with_name("copy"), DISK).log
        start = max(start, found.log_start_offset)
        end, batches = found.log_end_offset, batches_in(found)
        stable = records_below(batches, end)
        promise = Promise(stable, start, (batches,), exact=True, ends=(end,))
        found.close_handlers()
        shutil.rmtree(root.with_name("copy"))
        driver = Driver(root, RecordingDisk(root))
        driver.say(promise)
        driver.not_whole_below = start
        driver.now += 10_000_000  # times go on ascending
        driver.open()
        driver.epoch = driver.log.leader_epoch_cache.latest_epoch or 0
        for _ in range(random.randrange(6)):
            step(driver, random)
        driver.let_go()
    assert driver.recording is not None
    return driver.recording


def states_of(recording: Recording, random: Random, count: int) -> Iterator[State]:
    """Crashes at random moments: all alike, each file for itself, and out of order."""
    for number in range(count):
        crash = random.randrange(recording.clock + 1)
        kind = number % 3
        if kind == 0:
            yield random_plain_state(recording, crash, random)
        else:
            yield random_state(recording, crash, random, in_order=kind == 1)


def soak(seed: int, count: int, *, only: str | None = None, say: bool = True) -> list[str]:
    """Load `count` states; what was wrong, one text each."""
    failures: list[str] = []
    seen: Counter[str] = Counter()
    done, number, said = 0, 0, 0
    names = [only] if only else [*SCENARIOS, *["walk"] * 6]
    while done < count:
        random = Random(f"{seed}-{number}")
        name = names[number % len(names)]
        work = work_folder()
        try:
            recording = record(name, work / "made", random)
            for state in states_of(recording, random, min(STATES_OF_ONE, count - done)):
                promise = promise_at(recording, state.crash)
                done += 1
                found = judge_state(state, promise, work)
                if found:
                    where = f"seed {seed} round {number} {name}"
                    failures.append(report(where, recording, state, found))
                elif random.random() < 0.05 and done < count:
                    done += 1
                    found = recover_twice(state, promise.start, work, random)
                    where = f"seed {seed} round {number} {name}, "
                    failures += [f"{where}{each}\n  after {state.what}" for each in found]
                seen[name] += 1
        finally:
            shutil.rmtree(work)
        number += 1
        if say:
            for failure in failures[said:]:
                print(failure, flush=True)
            said = len(failures)
        if len(failures) > 20:
            break
    if say:
        print(dict(seen))
    return failures


def recover_twice(state: State, start: int, work: Path, random: Random) -> list[str]:
    """Crash while the recovery of a crash is under way."""
    root = work / "again"
    recording = record_recovery(state, start, root, random)
    shutil.rmtree(root)
    in_order = random.random() < 0.5
    again = random_state(
        recording, random.randrange(recording.clock + 1), random, in_order=in_order
    )
    found = judge_state(again, promise_at(recording, again.crash), work)
    return [report("recovery", recording, again, found)] if found else []


def soak_faults(seed: int, count: int, *, only: str | None = None, say: bool = True) -> list[str]:
    """Run `count` times into a failing call, each of each scenario in turn; what was wrong, one text each."""
    failures: list[str] = []
    random = Random(seed)
    work = work_folder()
    try:
        turns = [
            (name, code, number)
            for name in ([only] if only else SCENARIOS)
            for code in CODES
            for number in range(count_calls(name, work / f"{name}-{code}", code))
        ]
        random.shuffle(turns)
        for at, (name, code, number) in enumerate(turns[:count]):
            failing = Failures(number, code, sticky=bool(random.randrange(2)))
            found = try_fault(name, work / str(at), failing)
            shutil.rmtree(work / str(at))
            if found:
                what = f"{failing.struck}, call {number}, errno {code}, sticky {failing.sticky}"
                failures.append(f"seed {seed} {name}: {what}\n  " + "\n  ".join(found[:4]))
                if say:
                    print(failures[-1], flush=True)
        if say:
            print(f"{min(count, len(turns))} of {len(turns)} calls")
    finally:
        shutil.rmtree(work)
    return failures


def report(where: str, recording: Recording, state: State, found: list[str]) -> str:
    last = " | ".join(recording.calls[max(state.crash - 6, 0) : state.crash])
    text = "\n  ".join(found[:4])
    return f"{where}, crash at {state.crash} after {last}\n  {state.what}\n  {text}"


def main() -> int:
    """Run from the command line; exit status 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--faults", type=int, default=0, help="failing calls to try instead")
    parser.add_argument("--scenario", choices=[*SCENARIOS, "walk"], default=None)
    given = parser.parse_args()
    start = time.monotonic()
    if given.faults:
        failures = soak_faults(given.seed, given.faults, only=given.scenario)
    else:
        failures = soak(given.seed, given.states, only=given.scenario)
    spent = time.monotonic() - start
    tried = f"{given.faults} faults" if given.faults else f"{given.states} states"
    print(f"{tried}, {len(failures)} broken promises, {spent:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
