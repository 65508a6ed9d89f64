"""Files that a command writes besides its output: never inside of a source."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource


def refuse_inside(source: LogSource, output: str, option: str) -> None:
    """Check that a file is not written into the source. Raises BadParameter."""
    folder = os.path.dirname(os.path.realpath(output))
    for root in source.roots:
        beneath = os.path.realpath(root.path)
        if os.path.commonpath((folder, beneath)) == beneath:
            raise click.BadParameter(
                f"{output} is inside of {root.path}, which is only read", param_hint=option
            )
