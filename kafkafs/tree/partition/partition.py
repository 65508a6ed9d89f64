"""State shared by the nodes of one partition."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar, cast

from engine.errors import DamagedFileError, SourceGoneError, SourceRefusedError
from engine.kernel import LineOptions
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.units import Timestamp
from kafkafs.decode.record_batches import RecordBatches
from kafkafs.tree.context import Context
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import NameSlots, NameStream
from kafkafs.tree.made_once import made_once
from kafkafs.tree.node import Attrs, Directory
from kafkafs.tree.owner import Owner

if TYPE_CHECKING:
    from engine.files.source_files import SourceRoot
    from kafkafs.masking.line_mask import LineMask


_LOOKS = 4
_LARGE_FOLDER = 1 << 20
"""Size in bytes of the folder itself; about 20,000 names."""


class Partition:
    """A partition of the tree. One per name, kept as long as its log. Thread-safe."""

    def __init__(self, context: Context, log: PartitionLog, name: str) -> None:
        self.context = context
        self.log = log
        self.name = name
        self._known: tuple[LogView, tuple[Owner, float]] | None = None
        self.newest: tuple[LogView, Timestamp] | None = None
        """A view, and the newest timestamp in it."""

    # A list of 100,000 partitions with their attributes makes 100,000 of these, and uses nothing below.

    @made_once
    def options(self) -> LineOptions:
        """How the records of the partition look."""
        topic, partition = self.log.topic_partition
        context = self.context
        decoder = context.schemas.decoder(topic)
        return LineOptions(
            topic,
            partition,
            values=context.options.values,
            decode_with=decoder,
            mask=self.mask,
        )

    @property
    def mask(self) -> LineMask | None:
        """The mask of the partition's topic; None for a partition that is shown as it is."""
        return self.context.mask_of(self.log.topic_partition.topic)

    def refuse_masked(self, path: str, reason: str) -> None:
        """Refuse a path of a partition with a mask.

        Raises:
            MaskedError: the partition has a mask.
        """
        if self.mask is not None:
            raise self.context.mask.refused(path, reason)

    @made_once
    def records(self) -> RecordBatches:
        """Records by offset."""
        return RecordBatches(self.context.batches, self.options, self.context.budgets)

    @made_once
    def slots(self) -> NameSlots:
        """Cookies of the names in the partition's folder."""
        return NameSlots()

    @made_once
    def frozen_attrs(self) -> dict[str, Attrs]:
        """Attributes in a snapshot, by path."""
        return {}

    def view(self) -> LogView:
        """Return the current view of the log. Raises NotFound if the folder is gone."""
        try:
            return self.log.view()
        except FileNotFoundError:
            raise NotFound(self.name, "the partition's folder is gone") from None

    def view_again(self) -> LogView:
        """Return a view of the log from a new listing of the folder. Raises NotFound if the folder is gone."""
        try:
            return self.log.view(0.0)
        except FileNotFoundError:
            raise NotFound(self.name, "the partition's folder is gone") from None

    def look_again(self, *, is_first: bool) -> bool:
        """List the folder again. Return whether a retry can succeed: always the first time."""
        before = self.view()
        return self.view_again() is not before or is_first

    @property
    def root(self) -> SourceRoot:
        """The log dir of the partition's folder."""
        return self.log.root

    def source_path(self, name: str = "") -> str:
        """Return the path of a file in the partition's folder, relative to the log dir."""
        folder = self.log.folder
        return f"{folder}/{name}" if folder and name else folder or name

    def stream_names(self) -> NameStream | None:
        """Return the names of a very large folder as a stream, without loading the log; None if all names are needed or
        already known. Raises NotFound if the folder is gone.
        """
        log = self.log
        if log.frozen or log.only is not None:
            return None
        try:
            status = self.root.stat(log.folder)
        except FileNotFoundError:
            raise NotFound(self.name, "the partition's folder is gone") from None
        stamp = status.st_ino, status.st_mtime_ns, status.st_ctime_ns
        is_worth_it = status.st_size >= _LARGE_FOLDER and not log.is_loaded
        begin = (lambda: self.root.iterate_files(log.folder)) if is_worth_it else None
        return self.slots.stream(stamp, begin)

    def owner(self, view: LogView) -> Owner:
        """Return owner, group and mode of the partition folder. Unreadable .log files make its files unreadable."""
        return self.owner_and_ttl(view)[0]

    def ttl(self, view: LogView) -> float:
        """Return how many seconds an answer about this view may be cached."""
        return self.owner_and_ttl(view)[1]

    def owner_and_ttl(self, view: LogView) -> tuple[Owner, float]:
        """Return both. A broker that starts shows in the time with its first record: until then both times are safe."""
        known = self._known
        if known is not None and known[0] is view:
            return known[1]
        owner = self.folder_owner()
        active = view.active_segment
        if active is not None:
            readable = active.file.stat().st_mode & 0o444
            owner = owner._replace(file_mode=owner.file_mode & readable)
        both = owner, self.context.ttl(view.live)
        self._known = view, both
        return both

    def folder_owner(self) -> Owner:
        """Return the same from the folder alone, without loading the log. Raises NotFound if the folder is gone."""
        try:
            return Owner.of(self.root.stat(self.log.folder))
        except (
            FileNotFoundError,
            NotADirectoryError,
            SourceGoneError,
            SourceRefusedError,
        ) as error:
            if self.context.is_snapshot:
                return self._known[1][0] if self._known is not None else self.context.root_owner()
            if isinstance(error, SourceGoneError):
                raise
            raise NotFound(self.name, "the partition's folder is gone") from None


class InPartition(Protocol):
    """Protocol: a node that belongs to a partition."""

    path: str

    @property
    def partition(self) -> Partition:
        """The node's partition."""


N = TypeVar("N", bound=InPartition)
P = ParamSpec("P")
R = TypeVar("R")


def retried(
    method: Callable[Concatenate[N, P], R],
) -> Callable[Concatenate[N, P], R]:
    """Call a method again with a new view of the log if a file was missing or, in a live log, damaged.

    Retention or compaction may remove or replace a segment between listing the folder and opening the file. A file
    missing each time is NotFound, damage found each time is raised.
    """

    @wraps(method)
    def call(node: N, *args: P.args, **kwargs: P.kwargs) -> R:
        failure: Exception | None = None
        for look in range(_LOOKS):
            if look and not node.partition.look_again(is_first=look == 1):
                break
            try:
                return method(node, *args, **kwargs)
            except FileNotFoundError:
                failure = NotFound(node.path, "deleted a moment ago")
            except DamagedFileError as error:
                if not node.partition.log.is_live():
                    raise
                failure = error
        assert failure is not None
        raise failure from None

    return cast("Callable[Concatenate[N, P], R]", call)


class PartitionNode(Directory):
    """A folder below a partition's folder, with the attributes of the source's folder.

    Its attributes do not load the log; the first look-up may be slow, because it does.
    """

    __slots__ = ("partition",)

    def __init__(self, path: str, partition: Partition) -> None:
        super().__init__(path)
        self.partition = partition

    def attrs(self) -> Attrs:
        partition = self.partition
        ttl = partition.context.ttl(partition.log.is_live())
        return partition.folder_owner().directory(self.path, ttl)

    @property
    def slow(self) -> bool:
        return not self.partition.log.is_loaded
