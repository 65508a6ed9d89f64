"""`kafkafs top`: the daemon of a mount at work."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import click

from kafkafs.amounts import counted, size
from kafkafs.cli.arguments import json_option
from kafkafs.cli.printing.table import duration, print_json, print_table
from kafkafs.decode.shown_text import printable

MOST_PROBLEMS = 5
_FOLLOWED = ("PARTITION", "LOG-END", "NOT YET SEEN", "LAST LOOK")
_HOME_AND_CLEAR = "\x1b[H\x1b[J"


@click.command()
@click.argument("mountpoint", type=click.Path(path_type=Path))
@click.option(
    "--interval",
    default=2.0,
    show_default=True,
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Time between two looks, over which rates are counted.",
)
@click.option("--once", is_flag=True, help="Print one interval and exit.")
@json_option
def top(mountpoint: Path, interval: float, once: bool, as_json: bool) -> None:
    """Show the work of the daemon behind a mount: requests, reads, cache, lag, problems.

    \b
    kafkafs top /mnt
    kafkafs top /mnt --once
    kafkafs top /mnt --once --json

    Refreshes in place on a terminal until Ctrl-C or the end of the mount. Into a pipe it prints one
    block an interval. PARTITION lists the live logs that were read last: the log end
    that the mount shows, the bytes written since, and the time since the mount looked
    (it looks when a file is read or listed). The numbers are those of .kafkafs/status, .kafkafs/statistics and
    .kafkafs/problems in the mount.
    """
    is_redrawn = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not (once or as_json)
    before, start = _look(mountpoint), time.monotonic()
    while True:
        time.sleep(interval)
        try:
            now, end = _look(mountpoint), time.monotonic()
        except click.UsageError:
            click.echo(f"{printable(str(mountpoint))}: the mount has ended")
            return
        if as_json:
            print_json(_rates(before, now, end - start))
        else:
            if is_redrawn:
                click.echo(_HOME_AND_CLEAR, nl=False)
            _print(mountpoint, _rates(before, now, end - start))
        if once:
            return
        before, start = now, end


def _look(mountpoint: Path) -> dict[str, Any]:
    """Return the daemon's counters as of now.

    Raises:
        click.UsageError: no mount of kafkafs is there.
    """
    folder = mountpoint / ".kafkafs"
    try:
        facts: dict[str, Any] = json.loads((folder / "status").read_bytes())
        facts["statistics"] = json.loads((folder / "statistics").read_bytes())
        lines = (folder / "problems").read_bytes().splitlines()
    except (OSError, ValueError):
        raise click.UsageError(f"{printable(str(mountpoint))} is no mount of kafkafs") from None
    facts["problems"] = len(lines)
    facts["lastProblems"] = [json.loads(line) for line in lines[-MOST_PROBLEMS:]]
    return facts


def _rates(before: dict[str, Any], now: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the later look with the work since the earlier one, for a second each."""
    earlier, later = before["statistics"], now["statistics"]
    known = earlier["operations"]
    operations = {
        name: numbers
        | {
            "perSecond": (numbers["requests"] - known.get(name, {}).get("requests", 0)) / seconds,
        }
        for name, numbers in later["operations"].items()
    }
    rate = (later["bytesRead"] - earlier["bytesRead"]) / seconds
    return now | {"bytesPerSecond": rate, "statistics": later | {"operations": operations}}


def _followed_row(followed: dict[str, Any]) -> tuple[object, ...]:
    since = duration(round(followed["secondsSinceLook"] * 1000))
    return followed["partition"], followed["logEndOffset"], size(followed["unreadBytes"]), since


def _print(mountpoint: Path, facts: dict[str, Any]) -> None:
    numbers = facts["statistics"]
    sources = ", ".join(map(printable, facts["sources"]))
    broker = facts["brokerPid"]
    click.echo(f"{printable(str(mountpoint))}: {sources}")
    click.echo(
        f"  daemon {facts['pid']}, up {duration(round(facts['uptimeSeconds'] * 1000))}"
        + (", a snapshot" if facts["snapshot"] else "")
        + (f", live: broker {broker}" if broker else ", no broker holds the log dirs")
        + f", {counted(facts['partitions'], 'partition')}"
    )
    most = max(facts["largestMemoryBytes"], facts["memoryBytes"])
    click.echo(
        f"  memory {size(facts['memoryBytes'])} (at most {size(most)}), "
        f"{counted(facts['openDescriptors'], 'descriptor')}, {counted(facts['threads'], 'thread')} "
        f"({facts['busyThreads']} busy), {counted(facts['openHandles'], 'open file')}"
    )
    looks = facts["cacheHits"] + facts["cacheMisses"]
    hits = f"{counted(facts['cacheHits'], 'hit')} in {counted(looks, 'look-up')}"
    click.echo(
        f"  read {size(round(facts['bytesPerSecond']))}/s, {size(numbers['bytesRead'])} in all; "
        f"cache {size(facts['cachedBytes'])}, {hits}"
    )
    click.echo(
        f"  {counted(facts['problems'], 'problem')} found so far, "
        f"{counted(numbers['damageAnswers'], 'answer')} with damage, "
        f"{counted(numbers['unexpectedErrors'], 'unexpected error')}"
    )
    rows = [
        (name, f"{each['perSecond']:,.1f}", f"{each['requests']:,}", f"{each['errors']:,}",
         *(f"{each[field]:,}" for field in ("meanMicroseconds", "p99Microseconds", "slowestMicroseconds")))
        for name, each in sorted(
            numbers["operations"].items(), key=lambda item: (-item[1]["perSecond"], -item[1]["requests"])
        )
    ]  # fmt: skip
    print_table(("OPERATION", "A SECOND", "IN ALL", "ERRORS", "MEAN us", "P99 us", "MAX us"), rows)
    if facts["followed"]:
        click.echo()
        print_table(_FOLLOWED, map(_followed_row, facts["followed"]))
    for problem in facts["lastProblems"]:
        where = problem.get("file") or problem.get("path") or ""
        click.echo(printable(f"  {problem.get('kind')}: {where} {problem.get('reason', '')}"))
    click.echo()
