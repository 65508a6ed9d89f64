"""The help of every command, as `--help` prints it on a terminal of 80 columns: for man pages and the site."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from kafkafs.cli import cli

_WIDTH: dict[str, Any] = {"terminal_width": 78}
"""click keeps two of the 80 columns of a terminal free."""


def commands() -> Iterator[tuple[click.Context, str]]:
    """Yield each command, a group before the commands in it, as its context and the text of its help."""
    yield from _below(cli, click.Context(cli, info_name="kafkafs", **_settings(cli)))


def _below(command: click.Command, context: click.Context) -> Iterator[tuple[click.Context, str]]:
    yield context, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each is not None
            yield from _below(
                each, click.Context(each, info_name=name, parent=context, **_settings(each))
            )


def _settings(command: click.Command) -> dict[str, Any]:
    return command.context_settings | _WIDTH
