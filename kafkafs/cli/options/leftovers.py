"""--deleted: records beside the logs, in files and folders that a broker set aside; and the note that they were not read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkafs import amounts
from kafkafs.cli.arguments import Command
from kafkafs.cli.printing.terminal.verbosity import note, verbosity

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_choice import PartitionChoice
    from engine.log.partition_log import PartitionLog
    from engine.log.view.log_view import LogView
    from kafkafs.decode.searching.apart import Apart, Deleted

OPTION = "--deleted"
_ENDINGS = ".deleted, .swap and .cleaned files, and -delete, -stray and -future folders"


class Leftovers(NamedTuple):
    """What --deleted and --deleted-all say.

    Attributes:
        are_read: whether records beside the logs are read.
        are_all_shown: whether these are shown also where the log holds the same record.
    """

    are_read: bool
    are_all_shown: bool

    def views(
        self, source: LogSource, takes: Callable[[PartitionLog], bool]
    ) -> Iterator[tuple[LogView, Apart]]:
        """Yield the leftovers that are read, with the log whose records are left out."""
        for log, apart in self.logs(source, takes):
            view = log.view_or_none()
            if view is not None:
                yield view, apart

    def logs(
        self, source: LogSource, takes: Callable[[PartitionLog], bool]
    ) -> Iterator[tuple[PartitionLog, Apart]]:
        """Yield the leftovers that are read, also those that cannot be."""
        from kafkafs.decode.searching.apart import apart_logs

        if self.are_read:
            yield from apart_logs(source, takes, all_shown=self.are_all_shown)

    def files(
        self, source: LogSource, takes: Callable[[PartitionLog], bool]
    ) -> Iterator[tuple[PartitionLog, Apart]]:
        """Yield the files among the leftovers that are read."""
        return (each for each in self.logs(source, takes) if each[0].only is not None)

    @property
    def asked(self) -> Deleted:
        """What a scan is asked for."""
        return "all" if self.are_all_shown else self.are_read

    @contextmanager
    def told(
        self,
        source: LogSource,
        takes: Callable[[PartitionLog], bool],
        *,
        as_json: bool = False,
        with_folders: bool = True,
    ) -> Iterator[None]:
        """At the end of a command say how many leftovers were not read, and the option that reads them.

        Args:
            source: the source.
            takes: returns whether a log, or a folder beside one, is meant.
            as_json: whether to say it as JSON.
            with_folders: whether the folders beside the logs were not read.
        """
        try:
            yield
        except (click.exceptions.Exit, SystemExit):
            self._tell(source, takes, as_json=as_json, with_folders=with_folders)
            raise
        self._tell(source, takes, as_json=as_json, with_folders=with_folders)

    def _tell(
        self,
        source: LogSource,
        takes: Callable[[PartitionLog], bool],
        *,
        as_json: bool,
        with_folders: bool,
    ) -> None:
        from engine.log.leftover_logs import leftover_logs
        from kafkafs.decode.shown_text import json_text

        if self.are_read or verbosity().is_quiet:
            return
        files = size = 0
        for each in leftover_logs(source, takes):
            if each.log.only is None and not with_folders:
                continue
            files += each.files
            size += each.size
        if not files:
            return
        if as_json:
            facts = {"files": files, "bytes": size, "option": OPTION}
            click.echo(json_text({"leftovers": facts}), err=True)
            return
        verb = "was" if files == 1 else "were"
        counted = amounts.counted(files, "leftover file")
        note(f"{counted} ({amounts.size(size)}) {verb} not searched: {OPTION}")


def takes_beside(
    source: LogSource, choice: PartitionChoice, paths: Sequence[str] = ("",)
) -> Callable[[PartitionLog], bool]:
    """Return what takes the logs that are chosen, and the folders beside them that no path names itself."""
    from engine.log.partition_choice import NamedPartition
    from kafkafs.cli.options.emptiness import logs_of_path

    is_of_all = any(
        not path or (path.startswith("time/") and path.count("/") == 1) for path in paths
    )
    logs = [log for path in paths for log in logs_of_path(source, path)]
    partitions = {log.topic_partition for log in logs}
    folders = {log.name for log in logs if log.name != str(log.topic_partition)}

    def takes(log: PartitionLog) -> bool:
        if not is_of_all and (log.topic_partition not in partitions or log.name in folders):
            return False
        return choice.takes(log) or choice.takes(NamedPartition.of(log.topic_partition))

    return takes


def leftover_options(command: Command) -> Command:
    """Add --deleted and --deleted-all; the command gets `leftovers`."""

    @wraps(command)
    def with_leftovers(*given: Any, deleted: bool, deleted_all: bool, **named: Any) -> Any:  # noqa: ANN401
        return command(*given, leftovers=Leftovers(deleted or deleted_all, deleted_all), **named)

    for option in (
        click.option(
            "--deleted-all",
            is_flag=True,
            help="As --deleted, also the records that the log itself still holds at the same offset with the "
            "same timestamp.",
        ),
        click.option(
            OPTION,
            is_flag=True,
            help=f"Read what a broker set aside, too: {_ENDINGS}. Their records come last, without those that the "
            'log itself still holds; each line ends with "leftover", the file or folder.',
        ),
    ):
        with_leftovers = option(with_leftovers)
    return with_leftovers  # type: ignore[return-value]
