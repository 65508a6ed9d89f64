"""The benchmarks: us beside Kafka's own classes, a file system in C and DumpLogSegments.

    scripts/bench [--size MB] [--rounds N] [--json FILE] [--report FILE] [--only GROUP,...]

The first run generates data (a few times --size, kept in ~/.cache/kafkafs) and downloads Kafka's jars.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import bench_check
import bench_compact
import bench_decode
import bench_dump
import bench_grep
import bench_jvm
import bench_lookup
import bench_mount
import bench_rebuild
import bench_scale
import bench_start
import bench_write
from bench_report import Report

from engine import kernel
from tests.kafka import jars

GROUPS = (
    "decode",
    "inflate",
    "crc",
    "lines",
    "dump",
    "dump-log",
    "check",
    "search",
    "grep",
    "kcat",
    "threads",
    "lookup",
    "mount",
    "listing",
    "memory",
    "start",
    "scale",
    "append",
    "recover",
    "compact",
    "rebuild",
    "schemas",
    "values",
    "protobuf",
    "python",
    "keys",
    "export",
    "spark",
    "audit",
    "serve",
    "serve-start",
)


def arguments() -> argparse.Namespace:
    """Return the parsed arguments."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--size", type=int, default=400, metavar="MB", help="of each data set [400]"
    )
    parser.add_argument("--rounds", type=int, default=5, help="medians are over these [5]")
    parser.add_argument("--only", default=",".join(GROUPS), help=f"some of {', '.join(GROUPS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write a page of Markdown there"
    )
    parser.add_argument(
        "--segments", default="10,1000", help="of the logs to look up in; 100000 takes 7 GB"
    )
    parser.add_argument("--names", type=int, default=1_000_000, help="of the folder to list")
    parser.add_argument("--partitions", type=int, default=10_000, help="of the log dir for memory")
    options = parser.parse_args()
    options.only = options.only.split(",")
    unknown = set(options.only) - set(GROUPS)
    if unknown:
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    return options


def plan(
    options: argparse.Namespace, report: Report, peer: bench_jvm.Peer
) -> dict[str, Callable[[], None]]:
    """Return the action of each group."""
    segments = [int(count) for count in options.segments.split(",")]
    return {
        "decode": lambda: bench_decode.run_decode(report, peer, options.size),
        "inflate": lambda: bench_decode.run_inflate(report, options.size),
        "crc": lambda: bench_decode.run_crc(report, peer, options.size),
        "lines": lambda: bench_decode.run_lines(report, peer, options.size),
        "dump": lambda: bench_decode.run_dump(report, min(options.size, 100)),
        "check": lambda: bench_check.run(report, options.size),
        "dump-log": lambda: bench_dump.run(report, options.size),
        "search": lambda: bench_decode.run_search(report, options.size),
        "grep": lambda: bench_grep.run(report, options.size),
        "kcat": lambda: bench_grep.run_beside_kcat(report, options.size),
        "threads": lambda: bench_decode.run_threads(report, options.size),
        "lookup": lambda: bench_lookup.run(report, peer, segments),
        "mount": lambda: bench_mount.run(report, options.size),
        "listing": lambda: bench_mount.run_listing(report, options.names),
        "start": lambda: bench_start.run(report, options.size),
        "scale": lambda: bench_scale.run(report, options.partitions),
        "memory": lambda: bench_mount.run_memory(report, options.partitions),
        "append": lambda: bench_write.run_append(report, options.size),
        "recover": lambda: bench_write.run_recover(report, options.size),
        "compact": lambda: bench_compact.run(report, options.size),
        "rebuild": lambda: bench_rebuild.run(report, options.size),
        "schemas": lambda: run_if_installed("bench_schemas", report, min(options.size, 100)),
        "values": lambda: run_if_installed("bench_values", report, min(options.size, 400)),
        "protobuf": lambda: run_if_installed("bench_protobuf", report, min(options.size, 100)),
        "python": lambda: run_if_installed("bench_python", report, options.size),
        "keys": lambda: run_if_installed("bench_keys", report, options.size),
        "export": lambda: run_if_installed("bench_export", report, options.size),
        "spark": lambda: run_if_installed("bench_spark", report, options.size),
        "audit": lambda: run_if_installed("bench_audit", report, options.size),
        "serve": lambda: run_if_installed("bench_serve", report, min(options.size, 100)),
        "serve-start": lambda: run_if_installed(
            "bench_serve", report, options.partitions, "run_start"
        ),
    }


def run_if_installed(module: str, report: Report, amount: int, name: str = "run") -> None:
    """Run the benchmarks of a module that needs a Kafka client, PyArrow or PySpark, if they are installed."""
    try:
        measure = import_module(module)
    except ModuleNotFoundError as error:
        print(f"{module} is not measured: {error}: run scripts/setup dev kafka spark")
        return
    getattr(measure, name)(report, amount)


def main() -> int:
    """Measure and print."""
    missing = jars.missing_tool()
    if missing:
        print(missing, file=sys.stderr)
        return 3
    options = arguments()
    report = Report(rounds=options.rounds)
    print(
        f"kernel: {kernel.name}, {os.cpu_count()} cores, {options.rounds} rounds, {options.size} MB"
    )
    with bench_jvm.Peer() as peer:
        groups = plan(options, report, peer)
        for name in GROUPS:
            if name in options.only:
                groups[name]()
    print("\n" + report.table())
    if options.report:
        command = shlex.join(["scripts/bench", *sys.argv[1:]])
        options.report.write_text(report.page(command) + "\n", encoding="utf-8")
    if options.json:
        options.json.write_text(report.json(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
