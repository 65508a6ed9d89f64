"""Print damaged places on standard error, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.printing.terminal.output import say
from kafkafs.decode.shown_text import json_text, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkafs.decode.searching.search import DamageFacts

_TOLD = "kafkafs.places told"
"""Key of what was printed in click's context."""


def report(facts: DamageFacts, *, as_json: bool) -> None:
    """Print a damaged place on standard error."""
    if as_json:
        click.echo(json_text({"error": facts}), err=True)
    else:
        where = printable(f"{facts['file']}: byte {facts['position']}")
        size = f" ({facts['length']} bytes)" if facts["length"] else ""
        say(f"kafkafs: {where}: {facts['reason']}{size}", err=True)
        _advise(facts.get("elsewhere", ()))


def _advise(places: Iterable[Mapping[str, str]]) -> None:
    """Print once in a command where the records may still be, and what takes them."""
    from engine.log.segment.damage import Elsewhere
    from engine.verdict.words import may_be_in

    advice = may_be_in(map(Elsewhere.of, places))
    context = click.get_current_context(silent=True)
    told: set[str] = set() if context is None else context.meta.setdefault(_TOLD, set())
    if advice and advice not in told:
        told.add(advice)
        say(f"kafkafs: {printable(advice)}", err=True)
