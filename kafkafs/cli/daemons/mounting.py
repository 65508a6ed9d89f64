"""`kafkafs mount` and `kafkafs umount`, and the helper that mount(8) calls."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import click

from kafkafs.cli.arguments import VALUE_MODES, source_options, source_paths
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.verbosity import detail, note, verbosity
from kafkafs.decode.shown_text import printable

BUDGET_HELP = (
    "Options are comma-separated as in fstab: allow_other, cached_bytes=256M, workers=4, "
    "attr_timeout=1, read_ahead_kb=1024, loop=stock, ro, nofail, …"
)


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@source_options
@click.argument("mountpoint")
@click.option(
    "-f", "--foreground", is_flag=True, help="Stay in the foreground; end by ^C or an unmount."
)
@click.option("-o", "options", multiple=True, metavar="OPT,…", help=BUDGET_HELP)
@click.option(
    "--allow-other",
    is_flag=True,
    help="Let other users read, as far as the modes of the source's files allow it.",
)
@click.option(
    "--snapshot",
    is_flag=True,
    help="Freeze the tree in its present state: for backups of a live directory.",
)
@click.option(
    "--auto-unmount",
    is_flag=True,
    help="Unmount even after a crash. Without it a dead mount stays on purpose: an empty "
    "folder would make rsync --delete erase the backup.",
)
@click.option(
    "--replace-dead", is_flag=True, help="Unmount a dead kafkafs mount at MOUNTPOINT first."
)
@click.option("--allow-non-empty", is_flag=True, help="Mount over a folder that is not empty.")
@click.option(
    "--loop",
    type=click.Choice(["fast", "stock"]),
    default=None,
    help="Request loop: kafkafs' own (fast), or that of pyfuse3 (stock).",
)
@click.option("--log-file", metavar="FILE", help="Write the daemon's log to this file, too.")
@click.option(
    "--values",
    type=click.Choice(VALUE_MODES),
    default=None,
    help="Form of keys and values in record lines.",
)
@click.option(
    "--schemas",
    multiple=True,
    metavar="auto|none|PATH",
    help="Schemas of keys and values: those in SOURCE (auto), none, or those in PATH, which is"
    " a log dir, a file or a directory of schemas. Can be given several times.",
)
@click.option(
    "--mask",
    metavar="POLICY",
    help="Drop, hash or replace the fields of records that this file names before anything"
    " is shown: see kafkafs help masks.",
)
@click.option("--debug", is_flag=True, help="Log every request that fails.")
@verbosity_options
def mount(
    sources: tuple[str, ...],
    mountpoint: str,
    options: tuple[str, ...],
    **flags: Any,  # noqa: ANN401
) -> None:
    """Mount log dirs read-only; return when the tree is ready, and serve it in the background.

    \b
    kafkafs mount /var/lib/kafka/data /mnt
    kafkafs mount /disk1/kafka /disk2/kafka /mnt     several log.dirs, one tree
    kafkafs mount --snapshot /var/lib/kafka/data /mnt
    mount -t fuse.kafkafs /var/lib/kafka/data /mnt   see kafkafs help mounting

    SOURCE is a broker's log dir, a partition's folder or a .log file. /mnt/README.txt describes the tree.
    """
    daemon, mounting = fuse_modules()
    try:
        chosen = mounting.parse_options(options)
        given = {name: value for name, value in flags.items() if value not in (None, False, ())}
        if "schemas" in given:
            given["schemas"] = os.pathsep.join(given["schemas"])
        if verbosity().is_quiet:
            given["quiet"] = True
        paths = source_paths(sources)
        detail(f"mounting {', '.join(paths)} on {mountpoint}")
        run(daemon, paths, mountpoint, replace(chosen, **given))
    except mounting.MountError as error:
        leave(error)


@click.command()
@click.argument("mountpoint")
@click.option(
    "-l", "--lazy", is_flag=True, help="Detach now; the daemon ends with the last open file."
)
@click.option(
    "--timeout",
    type=float,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait at most this long for the daemon to end.",
)
@verbosity_options
def umount(mountpoint: str, lazy: bool, timeout: float) -> None:
    """Unmount, and wait until the daemon is gone.

    \b
    kafkafs umount /mnt
    kafkafs umount --lazy /mnt
    """
    from kafkafs.mount import umount as unmounting
    from kafkafs.mount.mounting import MountError

    try:
        sys.exit(unmounting.umount(mountpoint, lazy=lazy, timeout=timeout, note=note))
    except MountError as error:
        leave(error)


def mount_as_helper(argv: list[str]) -> None:
    """Mount as the helper of mount(8): `SOURCE MOUNTPOINT [-o OPTIONS] [-sfnv…]`."""
    daemon, mounting = fuse_modules()
    from kafkafs.mount import mount_helper

    try:
        sources, mountpoint, options = mount_helper.parse_helper_args(argv)
        run(daemon, source_paths(tuple(sources)), mountpoint, options)
    except mounting.MountError as error:
        leave(error)


def run(daemon: Any, paths: list[str], mountpoint: str, options: Any) -> None:  # noqa: ANN401
    """Mount, and exit with the daemon's status."""
    sys.exit(daemon.run(paths, mountpoint, options))


def fuse_modules() -> tuple[Any, Any]:
    """Import and return the daemon and the mount options; only mount and umount need pyfuse3."""
    from kafkafs.mount import daemon, mounting

    return daemon, mounting


def leave(error: Exception) -> None:
    """Print an error in one line; exit with 2 for a wrong call, else 3."""
    say(f"kafkafs: {printable(str(error))}", err=True)
    sys.exit(2 if getattr(error, "usage", False) else 3)
