"""Views of Kafka log directories: a mount, a command line, and records for Python.

    import kafkafs

    with kafkafs.open("/var/lib/kafka/data") as source:
        print(source["orders", 0][35].value)
        table = source.scan("orders", columns=["key", "timestamp"]).to_arrow()

The names in `__all__` are for users of the library; every other name may change at any time.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import engine

if getattr(engine, "__distribution__", None) != "kafkafs":
    msg = (
        f"the package 'engine' found at {getattr(engine, '__file__', '?')} is not kafkafs's own; "
        "run the `kafkafs` command, or `python -P -m kafkafs`, from another folder"
    )
    raise ImportError(msg)

from engine.files.stores import STORES
from engine.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.errors import DamagedFileError, KafkaStorageError, SourceError
    from kafkafs.api.consumer_record import ConsumerRecord
    from kafkafs.api.moments import Moment
    from kafkafs.api.opened_partition import OpenedPartition, RecordRange
    from kafkafs.api.opened_source import OpenedSource, OpenedTopic
    from kafkafs.api.scan import Scan
    from kafkafs.api.source_problem import SourceProblem
    from kafkafs.masking.policy import MaskPolicyError, MaskWarning
    from kafkafs.schemas.errors import SchemaFileError
    from kafkafs.table.errors import CorruptBatchError, LostRecordsError
    from kafkafs.tree.errors import MaskedError, NotADirectory, NotFound

_HOMES = {
    ".api.consumer_record": ("ConsumerRecord",),
    ".api.opened_partition": ("OpenedPartition", "RecordRange"),
    ".api.opened_source": ("OpenedSource", "OpenedTopic"),
    ".api.scan": ("Scan",),
    ".api.source_problem": ("SourceProblem",),
    ".masking.policy": ("MaskPolicyError", "MaskWarning"),
    ".schemas.errors": ("SchemaFileError",),
    ".table.errors": ("CorruptBatchError", "LostRecordsError"),
    ".tree.errors": ("MaskedError", "NotADirectory", "NotFound"),
}
_ENGINE_ERRORS = ("DamagedFileError", "KafkaStorageError", "SourceError")
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def _mirrored(url: str) -> str:
    from kafkafs.stores.mirror import mirrored

    return mirrored(url)


STORES.opener = _mirrored

__all__ = [
    "ConsumerRecord",
    "CorruptBatchError",
    "DamagedFileError",
    "KafkaStorageError",
    "LostRecordsError",
    "MaskPolicyError",
    "MaskWarning",
    "MaskedError",
    "NotADirectory",
    "NotFound",
    "OpenedPartition",
    "OpenedSource",
    "OpenedTopic",
    "RecordRange",
    "Scan",
    "SchemaFileError",
    "SourceError",
    "SourceProblem",
    "__version__",
    "open",
]


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name], __name__), name)
    if name in _ENGINE_ERRORS:
        from engine import errors

        return getattr(errors, name)
    # With name and object Python's traceback names the nearest of `__dir__`.
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def open(  # noqa: A001
    *paths: str | os.PathLike[str],
    values: str = "auto",
    snapshot: bool = False,
    schemas: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "auto",
    mask: str | os.PathLike[str] | None = None,
    mask_strict: bool = False,
    below: bool = False,
    tiered_keys: Mapping[str, str | os.PathLike[str]] | None = None,
    at: Moment | None = None,
) -> OpenedSource:
    """Open log dirs, a partition's folder, a .log file or tiered copies, read-only.

    Args:
        paths: the source; several log dirs of one broker are one source, those of several brokers one cluster. In an
            object store it is a URL such as "s3://bucket/prefix": `kafkafs help stores`.
        values: the form of keys and values in the tree's record lines: auto, text, json, base64, hex or none.
        snapshot: look once and hold the files open, so that a running broker changes nothing that is shown.
        schemas: schemas of keys and values: "auto" for those in the source, "none", or the paths of log dirs, files
            or directories of schemas; "auto" may be among the paths.
        mask: path of a policy of what is shown of records: `kafkafs help masks`. It is read once.
        mask_strict: whether a key or value that lacks a field of the policy is unreadable.
        below: take all log dirs below each folder that is no log dir itself, such as /var/lib/kafka.
        tiered_keys: files of private RSA keys by the ids that encrypted tiered copies have for them, besides those in
            the environment variable KAFKAFS_TIERED_KEYS; for the whole process.
        at: read the whole source as it was at this moment: a time (milliseconds, a datetime with a zone, or a text
            such as "-2h"), just before a record ("orders-0@500"), "before-delete:TOPIC", or "after-transaction:ID".

    Returns:
        Topics, partitions, records and tables of the source, and its tree; a context manager.

    Raises:
        SourceError: the source, or a path of schemas, does not exist or cannot be read.
        SchemaFileError: a file of schemas breaks its format.
        MaskPolicyError: the policy cannot be read, or breaks its format: nothing is opened.
        MomentError: the source does not have the record or the deletion that `at` names.
        ValueError: `at` is no moment.
        OSError: the schemas cannot be read.
    """
    from kafkafs.api.moments import moment_of
    from kafkafs.api.opened_source import OpenedSource
    from kafkafs.api.source_logs import SourceLogs
    from kafkafs.tree.context import TreeOptions

    chosen = [schemas] if isinstance(schemas, str | os.PathLike) else schemas
    policy = None
    if mask is not None:
        from kafkafs.masking.policy import MaskPolicy

        policy = MaskPolicy(os.fspath(mask), is_strict=mask_strict)
    options = TreeOptions(
        values=values,
        snapshot=snapshot,
        schemas=tuple(os.fspath(each) for each in chosen),
        mask=policy,
        at=None if at is None else moment_of(at),
    )
    if tiered_keys:
        from engine.log.tiered.data_keys import add_key_file

        for key_id, path in tiered_keys.items():
            add_key_file(f"{key_id}={os.fspath(path)}")
    named = [os.fspath(path) for path in paths]
    if below:
        from engine.log.source_identity import paths_below

        named = [
            each
            for path in named
            for each in (paths_below(path) if os.path.isdir(path) else [path])
        ]
    return OpenedSource(SourceLogs(named, options))
