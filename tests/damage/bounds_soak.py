"""Every command on every hostile source: how long, how much memory, how long without a word.

    python -m tests.damage.bounds_soak [--folder DIR] [--scale N] [--sources NAME,...] [--commands NAME,...] [--seconds N]

Prints a line for each source and command, and ends with 1 when one of them took more than 512 MiB, was silent on
a terminal for more than 10 s, did not end, or ended with a traceback.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine.budgets import MiB
from tests.damage.bounds_sources import SOURCES, make_source
from tests.damage.measured_run import Measured, measured_run
from tests.damage.mounted_run import mounted_run

PROGRAM = [sys.executable, "-m", "kafkafs"]
SIDE_FILES = (
    *(".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"),
    *("leader-epoch-checkpoint", "partition.metadata", "quorum-state", "meta.properties"),
    *("recovery-point-offset-checkpoint", "replication-offset-checkpoint"),
    *("log-start-offset-checkpoint", "cleaner-offset-checkpoint", ".kafka_cleanshutdown"),
)


def partition_of(source: Path) -> str:
    """The name of the partition that a source is about."""
    names = sorted(path.name for path in source.iterdir() if path.is_dir())
    special = [name for name in names if name.startswith("__")]
    return (special or [name for name in names if name == "t-0"] or names)[0]


def commands(source: Path, scratch: Path) -> Iterator[tuple[str, list[str]]]:
    """What is run, by name: the arguments of the program."""
    here, partition = str(source), partition_of(source)
    base = min((path.stem for path in (source / partition).glob("*.log")), default=f"{0:020}")
    yield "ls -l", ["ls", "-l", here]
    for name in ("records", "segments", "time", "state"):
        yield f"ls -l {name}", ["ls", "-l", here, f"{partition}/{name}"]
    yield "cat records", ["cat", here, f"{partition}/records/{base}.jsonl"]
    yield "cat committed", ["cat", here, f"{partition}/committed/{base}.jsonl"]
    yield "cat range", ["cat", here, f"{partition}/offset/0..1000000"]
    yield "cat offset", ["cat", here, f"{partition}/offset/1"]
    yield "cat value", ["cat", here, f"{partition}/offset/1.value"]
    for name in ("offsets", "epochs", "producers", "transactions", "indexes", "leftovers"):
        yield f"cat state/{name}", ["cat", here, f"{partition}/state/{name}.json"]
    yield "cp records", ["cp", here, f"{partition}/records", str(scratch / "records")]
    yield "cp state", ["cp", here, "state", str(scratch / "state")]
    yield "browse", ["browse", here]
    yield "browse partition", ["browse", here, partition]
    yield "browse records", ["browse", here, f"{partition}/offset/0.."]
    yield "browse record", ["browse", here, f"{partition}/offset/1"]
    yield "grep", ["grep", "-c", "no such text", here]
    yield "grep -i", ["grep", "-ci", "no such text", here]
    yield "grep all", ["grep", "", here, partition]
    yield "dump", ["dump", here]
    yield "dump records", ["dump", here, "--print-data-log"]
    yield "dump json", ["dump", here, "--json"]
    for path in side_files(source):
        yield f"dump {path.name[-24:]}", ["dump", str(path)]
    yield "check", ["check", here]
    yield "plan", ["plan", here]
    yield "plan --unclean", ["plan", "--unclean", here]
    yield "rebuild", ["rebuild", here, str(scratch / "rebuilt")]
    yield "rebuild --dry-run", ["rebuild", "--dry-run", here, str(scratch / "dry")]
    yield "rebuild --mode broker", ["rebuild", "--mode", "broker", here, str(scratch / "started")]
    yield "offsets", ["offsets", here]
    yield "offsets --time", ["offsets", "--time", "1700000000001", here]
    yield "offsets --time max", ["offsets", "--time", "max-timestamp", here]
    yield "offsets --committed", ["offsets", "--committed", here]
    yield "groups", ["groups", here]
    yield "transactions", ["transactions", here]
    yield "transactions --open", ["transactions", "--open", here]
    yield "topics", ["topics", here]


def side_files(source: Path) -> Iterator[Path]:
    """One file of each kind that a dump is asked for by name: the largest."""
    found: dict[str, Path] = {}
    for path in sorted(source.rglob("*")):
        kind = next((kind for kind in SIDE_FILES if path.name.endswith(kind)), None)
        if kind is None or not path.is_file() or kind == ".log":
            continue
        if kind not in found or path.stat().st_size > found[kind].stat().st_size:
            found[kind] = path
    yield from found.values()


def row(source: str, command: str, found: Measured) -> str:
    """A line of the table."""
    status = "killed" if found.status is None else str(found.status)
    return (
        f"{source:32} {command:32} {found.seconds:7.1f} s {found.peak // MiB:6} MiB"
        f" {found.silence:6.1f} s {status:>7} {found.written // MiB:7} MiB  {' '.join(found.broken_bounds)}"
    )


def run(source_name: str, folder: Path, options: argparse.Namespace) -> int:
    """All commands on one source; how many broke a bound."""
    source = make_source(source_name, folder, options.scale)
    broken = 0
    with tempfile.TemporaryDirectory(dir=folder, prefix="scratch") as name:
        scratch = Path(name)
        for command, arguments in commands(source, scratch):
            if options.commands and not any(command == each for each in options.commands):
                continue
            found = measured_run([*PROGRAM, *arguments], seconds=options.seconds)
            broken += bool(found.broken_bounds)
            print(row(source_name, command, found), flush=True)
            if found.broken_bounds and options.shown:
                print(found.shown[-2000:], flush=True)
            for path in scratch.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not options.commands or "mount" in options.commands:
            for command, found in mounted_run(PROGRAM, source, scratch, options.seconds):
                broken += bool(found.broken_bounds)
                print(row(source_name, command, found), flush=True)
                if found.broken_bounds and options.shown:
                    print(found.shown[-2000:], flush=True)
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, help="where sources are made, and kept")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the size that is promised")
    parser.add_argument("--sources", type=lambda text: text.split(","), default=list(SOURCES))
    parser.add_argument("--commands", type=lambda text: text.split(","), default=[])
    parser.add_argument("--seconds", type=float, default=120.0, help="after which a command ends")
    parser.add_argument(
        "--shown", action="store_true", help="what a command said that broke a bound"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafkafs-bounds") as own:
        folder = options.folder or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        broken = sum(run(name, folder, options) for name in options.sources)
    print(f"{broken} broke a bound", flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
