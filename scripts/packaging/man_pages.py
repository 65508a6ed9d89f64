"""Man pages out of the commands' help: `python man_pages.py FOLDER` writes kafkafs.1 and one page per command.

The text is click's own of `--help`, as it is: one source for help and page.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

WIDTH = 78


def pages(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the page of a command and of those below it, each as (file name, text)."""
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH
    )
    title = context.command_path.replace(" ", "-")
    yield f"{title}.1", page(title, command, context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            if below is not None and not below.hidden:
                yield from pages(below, each, context)


def page(title: str, command: click.Command, context: click.Context) -> str:
    """Return the page of one command."""
    day = datetime.datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.UTC
    )
    first, _, rest = command.get_help(context).partition("\n\n")
    summary = command.get_short_help_str(limit=200).rstrip(".")
    return (
        f".TH {title.upper()} 1 {day:%Y-%m-%d} kafkafs kafkafs\n.SH NAME\n{title} \\- {_plain(summary)}\n"
        f".SH SYNOPSIS\n{_plain(first.removeprefix('Usage: '))}\n.SH DESCRIPTION\n.nf\n{_plain(rest)}\n.fi\n"
    )


def _plain(text: str) -> str:
    """Return text that groff shows as it is."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


if __name__ == "__main__":
    from kafkafs.cli import cli

    for _name, _text in pages(cli, "kafkafs"):
        Path(sys.argv[1], _name).write_text(_text, encoding="utf-8")
