"""Spark's executors as the processes of a command: they run its own tasks, on the logs that these name.

A task goes to an executor with its logs and views as names; the executor opens the same paths, and finds them there.
Each task is a Spark job of its own, so that results come in order while others are worked on, and so that a command
that has enough can stop. What waits for the command is bounded by the tasks that are under way.
"""

from __future__ import annotations

import io
import os
import pickle
import secrets
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from engine.budgets import MiB
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.segment.problems import ProblemEntry
from engine.log.view.log_view import LogView
from engine.processes import portable
from kafkafs.schemas.store import SchemaStore
from kafkafs.spark.source.planning.volume import Volume
from kafkafs.spark.source.worker_process import make_ready

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Item], Iterable[Result]]
"""Picklable, as are its items and results. A context manager is entered on the executor."""

_MOST_TASKS = 256
"""Tasks under way, each with a thread here."""
_AHEAD = 2
"""Tasks under way, besides one for each core."""
_MOST_ITEMS = 512
_OPENING = 64 * 1024
"""Cost of an item, in bytes."""
_MESSAGE = 1 * MiB
"""Bytes of results that are sent together, and the results that are more than that."""


class _Problems(NamedTuple):
    """Problems of a log that a task met."""

    log: str
    entries: list[ProblemEntry]


class _Failure(NamedTuple):
    """The error that ended a task."""

    error: Exception


class Executors:
    """The executors of a session, for one command.

    Args:
        spark: the session.
        name: name of the command.
        source: the opened source.
        paths: its paths; the executors must see the same log dirs there.

    Attributes:
        spark: the session.
    """

    def __init__(
        self, spark: SparkSession, name: str, source: LogSource, paths: Sequence[str]
    ) -> None:
        self.spark = spark
        self._context: SparkContext = spark.sparkContext
        self._name = name
        self._source = source
        self._volume = Volume.of([os.path.abspath(path) for path in paths], source)
        self._shared: dict[SchemaStore, tuple[int, Broadcast[bytes]]] = {}

    @property
    def cores(self) -> int:
        """Number of tasks that run at the same time."""
        return self._context.defaultParallelism

    def log(self, name: str) -> PartitionLog:
        """Return a log of the source, or of a file beside one, by its name. Raises KeyError."""
        return log_of(self._source, name)

    def flat_map(
        self,
        work: Work[Item, Result],
        items: Iterable[Item],
        size_of: Callable[[Item], int],
        task_bytes: int,
    ) -> Generator[Result, None, None]:
        """Yield the results of the items, in the items' order; items are taken on demand.

        Args:
            work: see `Work`.
            items: pieces of work.
            size_of: returns the bytes of the source that an item reads.
            task_bytes: bytes that a task reads, about: it has several neighbouring items.

        Raises:
            NotVisibleError: an executor does not see the log dirs of the source.
            PySparkException, Py4JJavaError: Spark could not run a task; otherwise the errors of `work`.
        """
        group = f"kafkafs-{self._name}-{secrets.token_hex(8)}"
        waiting: deque[Future[list[bytes]]] = deque()
        with ThreadPoolExecutor(_MOST_TASKS, "spark") as threads:
            try:
                for task in _tasks(items, size_of, task_bytes):
                    sent = self._pickled((work, task))
                    waiting.append(threads.submit(self._run, group, sent))
                    if len(waiting) >= self._most():
                        yield from self._results(waiting.popleft().result())
                while waiting:
                    yield from self._results(waiting.popleft().result())
            finally:
                for each in waiting:
                    each.cancel()
                if waiting:
                    self._context.cancelJobGroup(group)

    def _most(self) -> int:
        return min(self.cores + _AHEAD, _MOST_TASKS)

    def _run(self, group: str, sent: bytes) -> list[bytes]:
        """Run one task, and return what it sends back."""
        context = self._context
        context.setJobGroup(group, f"kafkafs {self._name}", interruptOnCancel=True)
        shared = [each for _, each in self._shared.values()]
        task = _Task(self._volume, shared)
        return context.parallelize([sent], 1).mapPartitions(task.run).collect()

    def _results(self, answer: Iterable[bytes]) -> Iterator[Any]:
        for message in answer:
            for each in _unpacked(message):
                if isinstance(each, _Failure):
                    raise each.error
                if isinstance(each, _Problems):
                    self.log(each.log).problems.take(each.entries)
                else:
                    yield each

    def _pickled(self, task: object) -> bytes:
        data = io.BytesIO()
        _Pickler(data, self._share).dump(task)
        return data.getvalue()

    def _share(self, store: SchemaStore) -> int:
        """Return the number of the schemas among what is sent to each executor once."""
        if store not in self._shared:
            sent = self._context.broadcast(pickle.dumps(store))
            self._shared[store] = len(self._shared), sent
        return self._shared[store][0]


def log_of(source: LogSource, name: str) -> PartitionLog:
    """Return a log of a source, or of a file beside one, by its name. Raises KeyError."""
    folder, _, file = name.partition("/")
    log = source.partitions()[folder]
    return log.file_apart(file) if file else log


def _tasks(
    items: Iterable[Item], size_of: Callable[[Item], int], task_bytes: int
) -> Iterator[list[Item]]:
    """Yield neighbouring items, of about so many bytes together."""
    some: list[Item] = []
    size = 0
    for item in items:
        more = size_of(item) + _OPENING
        if some and (size + more > task_bytes or len(some) == _MOST_ITEMS):
            yield some
            some, size = [], 0
        some.append(item)
        size += more
    if some:
        yield some


# -- on the way


class _Pickler(pickle.Pickler):
    """Pickles logs, views and the source as names; `share` takes the schemas."""

    def __init__(self, file: io.BytesIO, share: Callable[[SchemaStore], int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._share = share

    def persistent_id(self, each: object) -> tuple[str, Any] | None:
        if isinstance(each, LogView):
            return "view", (each.name, None)
        if isinstance(each, PartitionLog):
            return "log", (each.name, each.only)
        if isinstance(each, LogSource):
            return "source", None
        if isinstance(each, SchemaStore):
            return "schemas", self._share(each)
        return None


class _Unpickler(pickle.Unpickler):
    """Finds logs and views in the source that this host opened."""

    def __init__(self, data: bytes, source: LogSource, shared: Sequence[Broadcast[bytes]]) -> None:
        super().__init__(io.BytesIO(data))
        self._source = source
        self._shared = shared
        self._schemas: dict[int, SchemaStore] = {}
        self.logs: dict[str, PartitionLog] = {}

    def persistent_load(self, known: tuple[str, Any]) -> object:
        kind, name = known
        if kind == "source":
            return self._source
        if kind == "schemas":
            if name not in self._schemas:
                self._schemas[name] = pickle.loads(self._shared[name].value)
            return self._schemas[name]
        name, only = name
        if name not in self.logs:
            try:
                self.logs[name] = log_of(self._source, name)
            except KeyError:
                return None  # for the work to tell
        log = self.logs[name]
        if kind == "view":
            return log.view()
        return log if only == log.only else log.alone(only)


def _packed(results: Iterable[object]) -> Iterator[bytes]:
    """Yield results as compressed messages of a bounded size, but for a single result that is larger."""
    data = io.BytesIO()
    for result in results:
        data.write(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
        if data.tell() >= _MESSAGE:
            yield zlib.compress(data.getvalue(), 1)
            data = io.BytesIO()
    if data.tell():
        yield zlib.compress(data.getvalue(), 1)


def _unpacked(message: bytes) -> Iterator[Any]:
    data = zlib.decompress(message)
    file = io.BytesIO(data)
    while file.tell() < len(data):
        yield pickle.load(file)


# -- on an executor


class _Task(NamedTuple):
    """Runs what was sent."""

    volume: Volume
    shared: list[Broadcast[bytes]]

    def run(self, sent: Iterable[bytes]) -> Iterator[bytes]:
        """Yield messages; for `mapPartitions`."""
        make_ready()
        for each in sent:
            yield from _packed(self._results(each))

    def _results(self, sent: bytes) -> Iterator[object]:
        try:
            with closing(self.volume.open()) as source:
                unpickler = _Unpickler(sent, source, self.shared)
                work, items = unpickler.load()
                entered = work if isinstance(work, AbstractContextManager) else nullcontext()
                with entered:
                    for item in items:
                        yield from work(item)
                for name, log in unpickler.logs.items():
                    if len(log.problems):
                        yield _Problems(name, log.problems.entries())
        except Exception as error:  # noqa: BLE001 - raised again by the command
            yield _Failure(portable(error))
