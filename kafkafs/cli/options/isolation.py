"""`--committed`, and the same by Kafka's name: `--isolation-level`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from kafkafs.cli.arguments import Command

_COMMITTED = "read_committed"


def committed_option(
    text: str = "Read as a read_committed consumer.",
) -> Callable[[Command], Command]:
    """Return what adds the options; the command gets `committed`.

    Args:
        text: the help of `--committed`.
    """

    def add(command: Command) -> Command:
        @wraps(command)
        def with_level(
            *given: Any,  # noqa: ANN401
            committed: bool,
            isolation_level: str | None,
            **named: Any,  # noqa: ANN401
        ) -> Any:  # noqa: ANN401
            if committed and isolation_level not in (None, _COMMITTED):
                raise click.UsageError(f"--committed is --isolation-level {_COMMITTED}")
            is_committed = committed or isolation_level == _COMMITTED
            return command(*given, committed=is_committed, **named)

        for option in (
            click.option(
                "--isolation-level",
                type=click.Choice(["read_uncommitted", _COMMITTED]),
                help=f"Kafka's name: {_COMMITTED} is --committed.",
            ),
            click.option("--committed", is_flag=True, help=text),
        ):
            with_level = option(with_level)
        return with_level  # type: ignore[return-value]

    return add
