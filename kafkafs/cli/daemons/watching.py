"""`kafkafs top`: the daemon of a mount, or a server for Kafka clients, at work."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from kafkafs.amounts import counted, size
from kafkafs.cli.arguments import address_of, json_option
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import duration, print_json, print_table
from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_CANNOT_READ

MOST_PROBLEMS = 5
_FOLLOWED = ("PARTITION", "LOG-END", "NOT YET SEEN", "LAST LOOK")
_CLIENTS = ("CLIENT", "CLIENT ID", "USER", "REQUESTS", "SENT", "A SECOND")
_HOME_AND_CLEAR = "\x1b[H\x1b[J"


class NoDaemonError(click.ClickException):
    """No daemon answers; one line on standard error."""

    exit_code = EXIT_CANNOT_READ

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(f"kafkafs: {printable(self.message)}", file=file, err=True)


@click.command()
@click.argument("place", metavar="MOUNTPOINT|HOST:PORT")
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
def top(place: str, interval: float, once: bool, as_json: bool) -> None:
    """Show the work of the daemon behind a mount or a server: requests, bytes, lag, problems.

    \b
    kafkafs top /mnt
    kafkafs top 127.0.0.1:9092                  a kafkafs serve on this machine
    kafkafs top /mnt --once
    kafkafs top /mnt --once --json

    Refreshes in place on a terminal until Ctrl-C or the end of the daemon. Into a pipe it prints one
    block an interval. CLIENT lists the clients of a server that were sent the most, with the
    users that logged in. PARTITION lists the live logs that were read last: the log end
    that the mount shows, the bytes written since, and the time since the mount looked
    (it looks when a file is read or listed). The numbers are those of .kafkafs/status, .kafkafs/statistics and
    .kafkafs/problems in the mount. A server tells them to the user who started it, and to root.
    """
    is_redrawn = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not (once or as_json)
    look = _looker(place)
    before, start = look(), time.monotonic()
    while True:
        time.sleep(interval)
        try:
            now, end = look(), time.monotonic()
        except NoDaemonError:
            kind = "mount" if "mountpoint" in before else "server"
            click.echo(f"{printable(place)}: the {kind} has ended")
            return
        if as_json:
            print_json(_rates(before, now, end - start))
        else:
            if is_redrawn:
                click.echo(_HOME_AND_CLEAR, nl=False)
            _print(place, _rates(before, now, end - start))
        if once:
            return
        before, start = now, end


def _looker(place: str) -> Callable[[], dict[str, Any]]:
    """Return what looks at the counters of a daemon, by its mountpoint or by the address of a server.

    Raises:
        click.BadParameter: the port of an address is too large.

    The look raises:
        NoDaemonError: no daemon of kafkafs is there.
    """
    address = None if Path(place).exists() else address_of(place)
    if address is None and re.fullmatch(r"[^/]+:[0-9]+", place) and not Path(place).exists():
        raise click.BadParameter(f"{place!r} is not HOST:PORT, such as 127.0.0.1:9092")
    if address is not None:
        return partial(_look_at_server, *address)
    return partial(_look_at_mount, Path(place))


def _look_at_mount(mountpoint: Path) -> dict[str, Any]:
    folder = mountpoint / ".kafkafs"
    try:
        return _facts(lambda name: (folder / name).read_bytes())
    except (OSError, ValueError):
        raise NoDaemonError(
            f"{mountpoint} is no mount of kafkafs: findmnt -t fuse.kafkafs lists them"
        ) from None


def _look_at_server(host: str, port: int) -> dict[str, Any]:
    from kafkafs.serve.control.control_client import NoServerError, ask

    try:
        return _facts(partial(ask, host, port))
    except (NoServerError, OSError, ValueError) as error:
        raise NoDaemonError(str(error)) from None


def _facts(read: Callable[[str], bytes]) -> dict[str, Any]:
    """Return the counters of a daemon as of now. Raises OSError, ValueError."""
    facts: dict[str, Any] = json.loads(read("status"))
    facts["statistics"] = json.loads(read("statistics"))
    lines = read("problems").splitlines()
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
    counter = "bytesSent" if "bytesSent" in later else "bytesRead"
    rate = (later[counter] - earlier[counter]) / seconds
    rates = {"bytesPerSecond": rate, "statistics": later | {"operations": operations}}
    if "clients" in now:
        had = {each["client"]: each["bytesSent"] for each in before["clients"]}
        rates["clients"] = [
            each | {"bytesPerSecond": (each["bytesSent"] - had.get(each["client"], 0)) / seconds}
            for each in now["clients"]
        ]
    return now | rates


def _client_row(client: dict[str, Any]) -> tuple[object, ...]:
    names = (printable(client[name] or "-") for name in ("client", "clientId", "user"))
    rate = f"{size(round(client['bytesPerSecond']))}/s"
    return *names, f"{client['requests']:,}", size(client["bytesSent"]), rate


def _followed_row(followed: dict[str, Any]) -> tuple[object, ...]:
    since = duration(round(followed["secondsSinceLook"] * 1000))
    return followed["partition"], followed["logEndOffset"], size(followed["unreadBytes"]), since


def _print(place: str, facts: dict[str, Any]) -> None:
    numbers = facts["statistics"]
    sources = ", ".join(map(printable, facts["sources"]))
    broker = facts["brokerPid"]
    say(f"{printable(place)}: {sources}")
    say(
        f"  daemon {facts['pid']}, up {duration(round(facts['uptimeSeconds'] * 1000))}"
        + (", a snapshot" if facts["snapshot"] else "")
        + (f", live: broker {broker}" if broker else ", no broker holds the log dirs")
        + f", {counted(facts['partitions'], 'partition')}"
        + (f" of nodes {', '.join(map(str, facts['nodes']))}" if facts["nodes"] else "")
    )
    most = max(facts["largestMemoryBytes"], facts["memoryBytes"])
    say(
        f"  memory {size(facts['memoryBytes'])} (at most {size(most)}), "
        f"{counted(facts['openDescriptors'], 'descriptor')}, {counted(facts['threads'], 'thread')}"
        + (f" ({facts['busyThreads']} busy)" if "busyThreads" in facts else "")
        + (f", {counted(facts['openHandles'], 'open file')}" if "openHandles" in facts else "")
    )
    for line in _lines_of_mount(facts) if "mountpoint" in facts else _lines_of_server(facts):
        say(f"  {line}")
    rows = [
        (name, f"{each['perSecond']:,.1f}", f"{each['requests']:,}", f"{each['errors']:,}",
         *(f"{each[field]:,}" for field in ("meanMicroseconds", "p99Microseconds", "slowestMicroseconds")))
        for name, each in sorted(
            numbers["operations"].items(), key=lambda item: (-item[1]["perSecond"], -item[1]["requests"])
        )
    ]  # fmt: skip
    print_table(("OPERATION", "A SECOND", "IN ALL", "ERRORS", "MEAN us", "P99 us", "MAX us"), rows)
    if facts.get("clients"):
        click.echo()
        print_table(_CLIENTS, map(_client_row, facts["clients"]))
    if facts["followed"]:
        click.echo()
        print_table(_FOLLOWED, map(_followed_row, facts["followed"]))
    for problem in facts["lastProblems"]:
        where = problem.get("file") or problem.get("path") or ""
        say(printable(f"  {problem.get('kind')}: {where} {problem.get('reason', '')}"))
    click.echo()


def _lines_of_mount(facts: dict[str, Any]) -> Iterator[str]:
    numbers = facts["statistics"]
    looks = facts["cacheHits"] + facts["cacheMisses"]
    hits = f"{counted(facts['cacheHits'], 'hit')} in {counted(looks, 'look-up')}"
    yield (
        f"read {size(round(facts['bytesPerSecond']))}/s, {size(numbers['bytesRead'])} in all; "
        f"cache {size(facts['cachedBytes'])}, {hits}"
    )
    yield (
        f"{counted(facts['problems'], 'problem')} found so far, "
        f"{counted(numbers['damageAnswers'], 'answer')} with damage, "
        f"{counted(numbers['unexpectedErrors'], 'unexpected error')}"
    )


def _lines_of_server(facts: dict[str, Any]) -> Iterator[str]:
    numbers = facts["statistics"]
    ways = (["TLS"] if facts["tls"] else []) + facts["mechanisms"]
    yield (
        f"listens on {printable(facts['address'])}"
        + (f" with {', '.join(ways)}" if ways else " without TLS and logins")
        + f"; {counted(numbers['connections'], 'connection')} (at most"
        f" {numbers['mostConnections']:,}), {numbers['acceptedConnections']:,} in all"
    )
    yield (
        f"sent {size(round(facts['bytesPerSecond']))}/s, {size(numbers['bytesSent'])} in all; "
        f"{numbers['refusedConnections']:,} refused, {numbers['malformedRequests']:,} malformed, "
        f"{counted(numbers['failedLogins'], 'failed login')}, {numbers['tooSlowClients']:,} too slow"
    )
    yield (
        f"{counted(facts['problems'], 'problem')} found so far, "
        f"{counted(numbers['damageAnswers'], 'answer')} with damage, "
        f"{counted(numbers['unexpectedErrors'], 'unexpected error')}"
    )
