"""`kafkafs cat` and `kafkafs cp`: bytes out of the tree without a mount."""

from __future__ import annotations

import os
from pathlib import Path

import click

from kafkafs.cli import write_output
from kafkafs.cli.arguments import clean_path, one_source_argument, open_tree, values_option
from kafkafs.cli.progress import Progress
from kafkafs.tree.node import Directory, File, Link, Node


@click.command()
@one_source_argument
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@values_option
def cat(source: str, paths: tuple[str, ...], values: str) -> None:
    """Write files of the tree to standard output, byte for byte what a mount would show.

    \b
    kafkafs cat /var/lib/kafka/data orders-0/offset/35
    kafkafs cat /var/lib/kafka/data orders-0/offset/35.value > value.bin
    kafkafs cat /var/lib/kafka/data orders-0/offset/100..200 | jq .value
    kafkafs cat /var/lib/kafka/data orders-0/time/2024-01-01T10/records.jsonl
    """
    with open_tree(source, values) as tree:
        for path in paths:
            node = followed(tree.resolve(clean_path(path)), tree.resolve)
            if isinstance(node, Directory):
                raise click.UsageError(f"{path} is a folder; try: kafkafs ls {source} {path}")
            assert isinstance(node, File)
            for data in node.chunks():
                write_output(data)


def followed(node: Node, resolve: object) -> Node:
    """The node that a link leads to (links of the tree are relative and lead to files)."""
    for _ in range(8):
        if not isinstance(node, Link):
            return node
        base = node.path.rsplit("/", 1)[0] if "/" in node.path else ""
        target = os.path.normpath(f"{base}/{node.target}" if base else node.target)
        assert callable(resolve)
        node = resolve(target)
    raise click.UsageError(f"{node.path}: too many links")


@click.command()
@one_source_argument
@click.argument("path")
@click.argument("dest", type=click.Path(path_type=Path))
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@values_option
def cp(source: str, path: str, dest: Path, quiet: bool, values: str) -> None:
    """Copy a file or a folder of the tree to DEST, with modes and times.

    \b
    kafkafs cp /var/lib/kafka/data time/2024-01-01 /backup/2024-01-01
    kafkafs cp /var/lib/kafka/data orders-0/time/2024-01-01..2024-01-03/log /restore/orders-0
    kafkafs cp /var/lib/kafka/data orders-0/offset/35.value value.bin

    A DEST that is a folder gets the copy inside it. Existing files are never overwritten.
    """
    with open_tree(source, values) as tree:
        node = tree.resolve(clean_path(path))
        node = followed(node, tree.resolve) if isinstance(node, Link) else node
        target = dest / (clean_path(path).rsplit("/", 1)[-1] or "kafka") if dest.is_dir() else dest
        refuse_inside_source(target, [root.path for root in tree.source.roots])
        with Progress("copied", quiet=quiet) as progress:
            copy(node, target, progress)


def refuse_inside_source(target: Path, roots: list[str]) -> None:
    """Nothing is ever written below a source."""
    real = os.path.realpath(target)
    for root in roots:
        if os.path.commonpath([real, os.path.realpath(root)]) == os.path.realpath(root):
            raise click.UsageError(f"{target} is inside the source {root}; choose another DEST")


def copy(node: Node, target: Path, progress: Progress) -> None:
    """Copy a node and all below it; a folder's time is set after what is in it."""
    attrs = node.attrs()
    if isinstance(node, Link):
        target.symlink_to(node.target)
        return
    if isinstance(node, Directory):
        target.mkdir(parents=True)
        for entry in node.entries(0):
            copy(node.lookup(entry.name), target / entry.name, progress)
    else:
        assert isinstance(node, File)
        copy_file(node, target, progress)
    target.chmod(attrs.mode | 0o200 if isinstance(node, File) else 0o755)
    os.utime(target, ns=(attrs.mtime_ns, attrs.mtime_ns))


def copy_file(file: File, target: Path, progress: Progress) -> None:
    """Copy a file's bytes under a name of its own until they are whole, then give it its name."""
    if os.path.lexists(target):
        raise click.UsageError(f"{target} is there already and is not overwritten")
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name[:200]}.part")
    with open(staged, "xb") as output:
        try:
            for data in file.chunks():
                output.write(data)
                progress.advance(len(data))
            output.flush()
            os.fsync(output.fileno())
        except BaseException:
            staged.unlink()
            raise
    staged.rename(target)
