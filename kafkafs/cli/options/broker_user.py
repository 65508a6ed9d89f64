"""Option `--broker-user`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engine.errors import SourceError

if TYPE_CHECKING:
    from engine.rights.broker_user import BrokerUser


def _user(
    context: click.Context, parameter: click.Parameter, name: str | None
) -> BrokerUser | None:
    if name is None or context.resilient_parsing:
        return None
    from engine.rights.broker_user import user_named

    try:
        return user_named(name)
    except SourceError as error:
        raise click.BadParameter(str(error)) from error


broker_user_option = click.option(
    "--broker-user",
    metavar="NAME",
    callback=_user,
    help="User, or its number, that the broker runs as: files that it may not use are named."
    " [default: the user of the broker that runs, else the owner of the log dir]",
)
