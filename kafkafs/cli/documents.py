"""`kafkafs help`: the pages of the documents, in the terminal."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import click

from kafkafs.cli.completing.names import completer
from kafkafs.cli.printing.terminal.output import say

SUFFIX = ".md"


def pages() -> dict[str, Path]:
    """Return the files of the pages by topic, such as "rebuild" and "spark/jobs"."""
    folder = Path(str(files("kafkafs") / "docs"))
    return {
        path.relative_to(folder).as_posix().removesuffix(SUFFIX): path
        for path in sorted(folder.rglob("*" + SUFFIX))
    }


@click.command()
@click.argument("topic", required=False, shell_complete=completer(lambda *_: pages()))
def help(topic: str | None) -> None:  # noqa: A001 - name of the command
    """List the pages of the documents, or print one.

    \b
    kafkafs help                the list
    kafkafs help rebuild        a page, in a pager on a terminal
    kafkafs rebuild --help      the options of a command
    """
    found = pages()
    if topic is None:
        width = max(map(len, found))
        for name, path in found.items():
            say(f"{name:{width}}  {_title(path)}", hang=width + 2)
        return
    if topic not in found:
        from engine.log.unmatched import most_like

        like = most_like(topic, found)
        raise click.BadParameter(
            f"there is no page {topic!r}; {f'did you mean {like}? ' if like else ''}"
            "`kafkafs help` lists the pages",
            param_hint="TOPIC",
        )
    text = found[topic].read_text(encoding="utf-8")
    if sys.stdout.isatty():
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as file:
        return file.readline().strip("# \n")
