"""`kafkafs spark`: run jobs over whole volumes in Spark."""

from __future__ import annotations

from importlib import import_module

import click

JOBS = ("pack", "restore")
"""Jobs. Each has a module and a command of its name; the module is imported when the job is called."""


class Jobs(click.Group):
    """Jobs by name; each module is imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the jobs."""
        return list(JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a job; None when there is no such job."""
        if cmd_name not in JOBS:
            return None
        command: click.Command = getattr(import_module(f"kafkafs.cli.spark.{cmd_name}"), cmd_name)
        return command


@click.group(
    cls=Jobs,
    epilog="Exit status: 0 fine, 1 findings or nothing matched, 2 usage, 3 cannot read.",
)
def spark() -> None:
    """Run jobs in Spark: on this machine's cores, or on a cluster.

    The commands grep, check, stats and export run there with their option --spark.

    \b
    kafkafs spark pack job
    kafkafs spark restore /lake/kafka /var/lib/kafka/restored

    Needs the extra `spark` (scripts/setup spark, or pip install 'kafkafs[spark]') and Java 17. For a
    cluster, see `kafkafs help spark/cluster`.
    """
