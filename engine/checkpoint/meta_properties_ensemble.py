"""The meta.properties of all log dirs of a broker, which must belong to one cluster and one node.

See MetaPropertiesEnsemble in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from engine.checkpoint.base64_uuid import RESERVED_DIRECTORY_IDS
from engine.checkpoint.meta_properties import (
    MetaProperties,
    MetaPropertiesVersion,
    parse_meta_properties,
)
from engine.errors import CorruptCheckpointError, KafkaStorageError
from engine.files.file_names import META_PROPERTIES
from engine.files.source_files import SourceRoot

_LIMIT = 1024 * 1024

Id = TypeVar("Id", int, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaPropertiesEnsemble:
    """Log dirs by path: with the file, without it, and with an unreadable one."""

    properties: Mapping[str, MetaProperties] = field(default_factory=dict)
    empty_log_dirs: frozenset[str] = frozenset()
    error_log_dirs: Mapping[str, str] = field(default_factory=dict)
    """Paths with the reason why the file is unreadable."""
    metadata_log_dir: str | None = None

    @classmethod
    def load(
        cls, roots: Mapping[str, SourceRoot | None], *, metadata_log_dir: str | None = None
    ) -> MetaPropertiesEnsemble:
        """Read the file of each log dir; `roots` has None for a log dir that cannot be opened."""
        properties: dict[str, MetaProperties] = {}
        empty: set[str] = set()
        errors: dict[str, str] = {}
        for name, root in roots.items():
            if root is None:
                errors[name] = "the log dir cannot be opened"
                continue
            try:
                data = root.read(META_PROPERTIES, limit=_LIMIT)
                properties[name] = parse_meta_properties(data, path=root.display(META_PROPERTIES))
            except FileNotFoundError:
                empty.add(name)
            except (OSError, KafkaStorageError) as error:
                errors[name] = str(error)
        return cls(
            properties=properties,
            empty_log_dirs=frozenset(empty),
            error_log_dirs=errors,
            metadata_log_dir=metadata_log_dir,
        )

    @property
    def node_id(self) -> int | None:
        """First node id in the files."""
        stated = (each.node_id for _, each in sorted(self.properties.items(), key=_path))
        return next((each for each in stated if each is not None), None)

    @property
    def cluster_id(self) -> str | None:
        """First cluster id in the files."""
        stated = (each.cluster_id for _, each in sorted(self.properties.items(), key=_path))
        return next((each for each in stated if each is not None), None)

    def non_failed(self) -> Iterator[tuple[str, MetaProperties | None]]:
        """Yield the log dirs without errors, with None for those without the file."""
        for name in sorted(self.empty_log_dirs):
            yield name, None
        yield from sorted(self.properties.items(), key=_path)

    def verify(
        self,
        *,
        cluster_id: str | None = None,
        node_id: int | None = None,
        require_v0: bool = False,
        require_metadata_log_dir: bool = False,
        require_at_least_one_valid: bool = False,
    ) -> None:
        """Raise CorruptCheckpointError if the log dirs cannot belong to one broker, or not to the expected one."""
        if require_at_least_one_valid and not self.properties:
            raise CorruptCheckpointError("no log dir has a readable meta.properties")
        seen: dict[str, str] = {}
        for log_dir, each in sorted(self.properties.items(), key=_path):
            path = f"{log_dir}/{META_PROPERTIES}"
            if require_v0 and each.version is not MetaPropertiesVersion.V0:
                raise CorruptCheckpointError(
                    "the version is not the expected one",
                    path=path,
                    expected=0,
                    found=int(each.version),
                )
            cluster_id = _same("cluster.id", cluster_id, each.cluster_id, path)
            node_id = _same("node.id", node_id, each.node_id, path)
            if each.directory_id is not None:
                _check_directory_id(each.directory_id, log_dir, seen, path)
        if require_metadata_log_dir and self.metadata_log_dir is None:
            raise CorruptCheckpointError("there is no metadata log dir")
        if self.metadata_log_dir in self.error_log_dirs:
            raise CorruptCheckpointError(
                "the metadata log dir cannot be read", path=self.metadata_log_dir
            )


def _path(item: tuple[str, MetaProperties]) -> str:
    return item[0]


def _same(name: str, expected: Id | None, found: Id | None, path: str) -> Id | None:
    if found is not None and expected is not None and found != expected:
        raise CorruptCheckpointError(f"{name} differs", path=path, expected=expected, found=found)
    return expected if found is None else found


def _check_directory_id(directory_id: str, log_dir: str, seen: dict[str, str], path: str) -> None:
    if directory_id in RESERVED_DIRECTORY_IDS:
        raise CorruptCheckpointError("directory.id is reserved", path=path, found=directory_id)
    other = seen.setdefault(directory_id, log_dir)
    if other != log_dir:
        raise CorruptCheckpointError(
            f"directory.id is also that of {other}", path=path, found=directory_id
        )
