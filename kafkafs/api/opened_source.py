"""A source of logs, as returned by `kafkafs.open`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import islice
from typing import TYPE_CHECKING, Self, Unpack, overload

from engine.log.log_directory import LogSource
from engine.topics.topic_names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from kafkafs.amounts import counted
from kafkafs.api.notebook import MOST_ROWS, html_table
from kafkafs.api.opened_partition import OpenedPartition
from kafkafs.api.scan_options import ScanOptions, Topics, named_options
from kafkafs.api.source_logs import SourceLogs
from kafkafs.api.source_problem import SourceProblem
from kafkafs.tree.errors import NotADirectory
from kafkafs.tree.node import Directory, File
from kafkafs.tree.tree import Tree

if TYPE_CHECKING:
    from engine.check.rules.finding import Finding
    from engine.replay.cluster import ClusterImage
    from kafkafs.api.cluster_state import Groups, Transactions
    from kafkafs.api.scan import Scan


class OpenedSource:
    """The logs of a source as topics, partitions, records and tables, and as the tree of a mount.

    A context manager. Thread-safe. Picklable: the copy opens the same paths with the same options. With a mask, what
    would show bytes of masked records raises MaskedError.

    Args:
        logs: the open source.
    """

    def __init__(self, logs: SourceLogs) -> None:
        self._logs = logs
        logs.warns = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        paths = ", ".join(map(repr, self._logs.paths))
        return f"<kafkafs.open({paths}): {counted(len(self.topics), 'topic')}>"

    def _repr_html_(self) -> str:
        return self.topics._repr_html_()

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.topics)

    @property
    def logs(self) -> LogSource:
        """The source in the engine.

        Raises:
            MaskedError: it has topics with a mask; the engine knows no masks.
        """
        self._logs.refuse_masked("logs")
        return self._logs.source

    def close(self) -> None:
        """Close the source; a second call does nothing."""
        self._logs.warn_unmet()
        self._logs.source.close()

    # Topics and partitions

    @property
    def topics(self) -> OpenedTopics:
        """The topics by name, as they are now; Kafka's own among them."""
        return OpenedTopics(self._logs)

    @overload
    def __getitem__(self, name: str) -> OpenedTopic: ...

    @overload
    def __getitem__(self, name: tuple[str, int]) -> OpenedPartition: ...

    def __getitem__(self, name: str | tuple[str, int]) -> OpenedTopic | OpenedPartition:
        """Return a topic by name, or a partition by topic and number: source["orders", 0].

        Raises:
            KeyError: the source has no such topic or partition.
        """
        if isinstance(name, str):
            return self.topics[name]
        return OpenedPartition(self._logs, self._logs.log(*name))

    def partitions(self) -> tuple[OpenedPartition, ...]:
        """Return all partitions, by topic and number."""
        return tuple(each for topic in self.topics.values() for each in topic.values())

    @named_options
    def scan(self, topics: Topics | None = None, **options: Unpack[ScanOptions]) -> Scan:
        """Return records of many partitions as a table that is read on demand; needs PyArrow.

        Args:
            topics: a topic, several, or partition numbers by topic; by default all but Kafka's own.
            options: see `ScanOptions`.

        Raises:
            ImportError: PyArrow is not installed: pip install 'kafkafs[arrow]'.
            KeyError: the source has no such topic or partition.
            ValueError, TypeError: an option is malformed.
        """
        from kafkafs.api.scan import Scan

        return Scan(self._logs, topics, **options)

    # What Kafka's own topics add up to

    @property
    def groups(self) -> Groups:
        """The consumer, share and streams groups by name, with their committed offsets and lags."""
        from kafkafs.api.cluster_state import Groups

        self._logs.refuse_masked("groups", CONSUMER_OFFSETS, SHARE_GROUP_STATE)
        return Groups(self._logs)

    @property
    def transactions(self) -> Transactions:
        """The transactional ids of __transaction_state, and the open transactions of the logs."""
        from kafkafs.api.cluster_state import Transactions

        self._logs.refuse_masked("transactions", TRANSACTION_STATE)
        return Transactions(self._logs)

    @property
    def cluster(self) -> ClusterImage | None:
        """The state of the controllers; None if the source does not have __cluster_metadata."""
        self._logs.refuse_masked("cluster", CLUSTER_METADATA)
        cluster = self._logs.state.cluster
        return cluster.image() if cluster.exists else None

    @property
    def problems(self) -> list[SourceProblem]:
        """The problems that reads found so far; `check` looks for all."""
        return [SourceProblem.of(entry) for entry in self.tree.context.problems]

    def check(self, jobs: int = 1) -> Iterator[Finding]:
        """Yield what `kafkafs check` finds: every byte of the logs and of the files beside them is read.

        Args:
            jobs: number of processes.
        """
        from engine.check.log_dir_check import CheckOptions, SourceCheck
        from engine.check.rules.finding import Finding
        from engine.log.log_directory import open_source

        self._logs.refuse_masked("check")
        with ExitStack() as opened:
            source = self._logs.source
            if source.nodes:  # each log dir is checked as its own
                source = opened.enter_context(closing(open_source(self._logs.paths)))
            for event in SourceCheck(source, CheckOptions(jobs=jobs)).run():
                if isinstance(event, Finding):
                    yield event

    # The tree

    @property
    def tree(self) -> Tree:
        """The tree that a mount of the source shows."""
        return self._logs.tree

    def names(self, path: str = "") -> list[str]:
        """Return the names in a folder of the tree, as `ls` prints them.

        Raises:
            NotFound, NotADirectory: the path does not exist, or is not a folder.
        """
        node = self.tree.resolve(path)
        if not isinstance(node, Directory):
            raise NotADirectory(path)
        return [entry.name for entry in node.entries()]

    def read(self, path: str) -> bytes:
        """Return all bytes of a file of the tree.

        Raises:
            NotFound, NotADirectory: the path does not exist, or continues below a file.
            IsADirectoryError: the path is a folder.
            DamagedFileError, OSError: as `File.open` and `Content.read`.
        """
        node = self.tree.follow(self.tree.resolve(path))
        if not isinstance(node, File):
            raise IsADirectoryError(path)
        return b"".join(node.chunks())


class OpenedTopics(Mapping[str, "OpenedTopic"]):
    """The topics of a source by name, sorted; asked again for each access.

    Args:
        logs: the open source.
    """

    def __init__(self, logs: SourceLogs) -> None:
        self._logs = logs

    def __getitem__(self, name: str) -> OpenedTopic:
        self._logs.topic(name)
        return OpenedTopic(self._logs, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._logs.topics())

    def __len__(self) -> int:
        return len(self._logs.topics())

    def __repr__(self) -> str:
        return f"<topics: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the topics, from names and sizes of files."""
        found = self._logs.topics()
        rows = [(name, len(logs)) for name, logs in islice(found.items(), MOST_ROWS)]
        caption = counted(len(found), "topic")
        return html_table(caption, ("topic", "partitions"), rows, len(found) - len(rows))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)


class OpenedTopic(Mapping[int, OpenedPartition]):
    """The partitions of a topic by number; asked again for each access.

    Args:
        logs: the open source.
        name: name of the topic.
    """

    def __init__(self, logs: SourceLogs, name: str) -> None:
        self._logs = logs
        self.name = name

    def __getitem__(self, number: int) -> OpenedPartition:
        return OpenedPartition(self._logs, self._logs.log(self.name, number))

    def __iter__(self) -> Iterator[int]:
        return iter(self._logs.topics().get(self.name, ()))

    def __len__(self) -> int:
        return len(self._logs.topics().get(self.name, ()))

    def __repr__(self) -> str:
        return f"<topic {self.name}: {counted(len(self), 'partition')}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the partitions with their bounds and sizes."""
        rows = [
            (number, each.start, each.end, each.size)
            for number, each in islice(self.items(), MOST_ROWS)
        ]
        names = ("partition", "start", "end", "size")
        return html_table(f"topic {self.name}", names, rows, len(self) - len(rows))

    def _ipython_key_completions_(self) -> list[int]:
        return list(self)

    @named_options
    def scan(self, **options: Unpack[ScanOptions]) -> Scan:
        """Return a scan of this topic; the options are those of `ScanOptions`."""
        from kafkafs.api.scan import Scan

        return Scan(self._logs, self.name, **options)
