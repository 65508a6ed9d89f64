"""`kafkafs spark pack`: write the files that spark-submit needs to run the jobs on a cluster."""

from __future__ import annotations

import click

from kafkafs.decode.shown_text import printable


@click.command(short_help="Write the code and the application for spark-submit.")
@click.argument("folder", metavar="FOLDER")
def pack(folder: str) -> None:
    """Write the code as a zip file, and the application, for spark-submit to send to a cluster.

    \b
    kafkafs spark pack job
    spark-submit --master yarn --deploy-mode cluster --py-files job/kafkafs.zip \\
        job/kafkafs_job.py check /mnt/broker-1 --json

    The nodes need Python of the same minor version with numpy, pandas and pyarrow, and must see the log dirs
    under the same path. See `kafkafs help spark/cluster`.
    """
    from kafkafs.spark.code_archive import write_code

    archive, job = write_code(folder)
    click.echo(f"spark-submit --py-files {printable(archive)} {printable(job)} COMMAND ARGUMENT...")
