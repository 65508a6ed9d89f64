"""`kafkafs ls`: list the tree without a mount."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from typing import Any

import click

from kafkafs.cli.arguments import (
    Failures,
    clean_path,
    json_option,
    one_source_argument,
    open_tree,
    schemas_option,
    values_option,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.emptiness import logs_of_path, no_records, selects_nothing
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.paths import node_at
from kafkafs.cli.options.times import at_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import write_line
from kafkafs.decode.shown_text import json_text, printable
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import FILE_TYPES, Directory, Entry, Kind, Link, Node


@click.command()
@one_source_argument
@click.argument("path", default="", required=False, shell_complete=names.paths)
@click.option(
    "-l", "long", is_flag=True, help="Print mode, size, time of the newest record and name."
)
@click.option("-d", "directory", is_flag=True, help="List the path itself, not its entries.")
@json_option
@values_option
@schemas_option
@mask_option
@at_option
@verbosity_options
def ls(
    source: str,
    path: str,
    long: bool,
    directory: bool,
    as_json: bool,
    values: str,
    schemas: tuple[str, ...],
    masks: Masks,
) -> None:
    """List a path of the tree that a mount of SOURCE would show.

    \b
    kafkafs ls /var/lib/kafka/data
    kafkafs ls -l /var/lib/kafka/data orders-0/records
    kafkafs ls --json /var/lib/kafka/data orders-0/time

    With -l, a ~ before a size marks an estimate: the text is measured when it is first read. Exit status:
    0 listed, 1 PATH is a range or a period without records, 3 there is no such path, or it cannot be read.
    """
    masks.refuse(values)
    with (
        open_tree(source, values, schemas=schemas, mask=masks.policy) as tree,
        masks.told(tree.source),
        masks.refused(),
        Failures() as failures,
    ):
        node = node_at(tree, path)
        if selects_nothing(tree.source, clean_path(path)):
            where = clean_path(path)
            failures.report_nothing(no_records(where, logs_of_path(tree.source, where)))
        elif isinstance(node, Directory) and not directory:
            for entry in failures.passed_on(node.entries(0)):
                if not failures.tried(show_entry, node, entry, long, as_json):
                    show_unknown(entry.name, entry.kind, as_json=as_json)
        else:
            show(path or "/", node, node.attrs().kind, long=long, as_json=as_json)


def show_entry(folder: Directory, entry: Entry, long: bool, as_json: bool) -> bool:
    """Print an entry of a folder. Return True: `Failures.tried` returns None after an error."""
    try:
        child = folder.lookup(entry.name) if long or as_json else None
    except NotFound:  # went away between listing and look-up
        return True
    show(entry.name, child, entry.kind, long=long, as_json=as_json)
    return True


def show(name: str, node: Node | None, kind: Kind, *, long: bool, as_json: bool) -> None:
    """Print one node."""
    if as_json and node is not None:
        write_line(json_text(facts(name, node)))
        return
    text = printable(name) + ("/" if kind is Kind.DIRECTORY and name != "/" else "")
    if isinstance(node, Link):
        text += f" -> {printable(node.target)}"
    if long and node is not None:
        attrs = node.attrs()
        size = f"{'' if attrs.exact else '~'}{attrs.size}"
        text = (
            f"{stat.filemode(FILE_TYPES[attrs.kind] | attrs.mode)} {size:>14} "
            f"{moment(attrs.mtime_ns)} {text}"
        )
    write_line(text)


def show_unknown(name: str, kind: Kind, *, as_json: bool) -> None:
    """Print the name of an entry with unknown attributes."""
    if as_json:
        write_line(json_text({"name": name, "type": kind.name.lower(), "size": None}))
    else:
        write_line(f"{'?' * 10} {'?':>14} {'?':<20} {printable(name)}")


def facts(name: str, node: Node) -> dict[str, Any]:
    """Return an entry as JSON."""
    attrs = node.attrs()
    found: dict[str, Any] = {
        "name": name,
        "type": attrs.kind.name.lower(),
        "size": attrs.size,
        "sizeIsExact": attrs.exact,
        "mtime": moment(attrs.mtime_ns),
        "inode": attrs.inode,
    }
    if isinstance(node, Link):
        found["target"] = node.target
    xattrs = {key: value.decode("utf-8", "replace") for key, value in node.xattrs().items()}
    return {**found, "xattrs": xattrs} if xattrs else found


def moment(nanoseconds: int) -> str:
    """Format a time in nanoseconds as RFC 3339; later times than year 9999 become its last second."""
    seconds = min(nanoseconds // 10**9, 253_402_300_799)
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat().removesuffix("+00:00") + "Z"
