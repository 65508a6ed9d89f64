"""Print damaged places on standard error, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.decode.shown_text import json_text, printable

if TYPE_CHECKING:
    from kafkafs.decode.searching.search import DamageFacts


def report(facts: DamageFacts, *, as_json: bool) -> None:
    """Print a damaged place on standard error."""
    if as_json:
        click.echo(json_text({"error": facts}), err=True)
    else:
        where = printable(f"{facts['file']}: byte {facts['position']}")
        size = f" ({facts['length']} bytes)" if facts["length"] else ""
        click.echo(f"kafkafs: {where}: {facts['reason']}{size}", err=True)
