"""Change the meta.properties of a broker's log dirs, and write the changed ones."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable

from engine.checkpoint.base64_uuid import RESERVED_DIRECTORY_IDS
from engine.checkpoint.meta_properties import MetaProperties
from engine.checkpoint.meta_properties_ensemble import MetaPropertiesEnsemble
from engine.checkpoint.properties_file import render_properties
from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import InconsistentBrokerMetadataError
from engine.files.file_names import META_PROPERTIES


def write_properties(path: StrPath, properties: dict[str, str], *, disk: Disk = DISK) -> None:
    """Replace the properties of a file; on the device on return. Raises OSError."""
    disk.replace_atomically(path, render_properties(properties))


def write_meta_properties(folder: StrPath, meta: MetaProperties, *, disk: Disk = DISK) -> None:
    """Replace the meta.properties of a log dir. Raises OSError."""
    write_properties(os.path.join(folder, META_PROPERTIES), meta.to_properties(), disk=disk)


class MetaPropertiesCopier:
    """A changeable copy of an ensemble; each log dir is in one of its three maps, by path.

    Args:
        previous: current content of the files.
        random_bytes: function that returns that many random bytes, for directory ids.
        disk: disk to replace the files.

    Attributes:
        properties, empty_log_dirs, error_log_dirs, metadata_log_dir: as in MetaPropertiesEnsemble.
    """

    def __init__(
        self,
        previous: MetaPropertiesEnsemble,
        *,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        disk: Disk = DISK,
    ) -> None:
        self._previous = previous
        self._random_bytes = random_bytes
        self._disk = disk
        self.properties = dict(previous.properties)
        self.empty_log_dirs = set(previous.empty_log_dirs)
        self.error_log_dirs = dict(previous.error_log_dirs)
        self.metadata_log_dir = previous.metadata_log_dir

    def set_properties(self, log_dir: str, meta: MetaProperties) -> None:
        """Set the properties of a log dir, even if it has none or unreadable ones now."""
        self.empty_log_dirs.discard(log_dir)
        self.error_log_dirs.pop(log_dir, None)
        self.properties[log_dir] = meta

    def generate_directory_id(self) -> str:
        """Return a new UUID in base64 for a log dir: not reserved, and not like a command-line option."""
        taken = {meta.directory_id for meta in self.properties.values()} | RESERVED_DIRECTORY_IDS
        while True:
            text = base64.urlsafe_b64encode(self._random_bytes(16)).decode().rstrip("=")
            if text not in taken and not text.startswith("-"):
                return text

    def verify(self) -> None:
        """Raise InconsistentBrokerMetadataError for a log dir in two maps, or a metadata log dir in none."""
        parts = (
            ("empty", set(self.empty_log_dirs)),
            ("failed", set(self.error_log_dirs)),
            ("readable", set(self.properties)),
        )
        for i, (name, log_dirs) in enumerate(parts):
            for other, others in parts[i + 1 :]:
                if both := sorted(log_dirs & others):
                    raise InconsistentBrokerMetadataError(f"{both[0]} is both {name} and {other}")
        metadata = self.metadata_log_dir
        if metadata is not None and not any(metadata in log_dirs for _, log_dirs in parts):
            raise InconsistentBrokerMetadataError(
                f"the metadata log dir {metadata} is not one of the log dirs"
            )

    def write_changes(
        self,
        *,
        before_write: Callable[[str, bool, MetaProperties], None] | None = None,
        on_error: Callable[[str, OSError], None] | None = None,
    ) -> None:
        """Write the files of log dirs with new or changed properties.

        A log dir that cannot be written becomes a failed one.

        Args:
            before_write: called with the log dir, whether it is new, and its new properties.
            on_error: called with the log dir and the error; without it the error is raised.
        """
        for log_dir, meta in sorted(self.properties.items()):
            before = self._previous.properties.get(log_dir)
            if meta == before:
                continue
            try:
                if before_write is not None:
                    before_write(log_dir, before is None, meta)
                write_meta_properties(log_dir, meta, disk=self._disk)
            except OSError as error:
                self.error_log_dirs[log_dir] = str(error)
                del self.properties[log_dir]
                if on_error is None:
                    raise
                on_error(log_dir, error)

    def copy(self) -> MetaPropertiesEnsemble:
        """Return the ensemble in its current state."""
        return MetaPropertiesEnsemble(
            properties=dict(self.properties),
            empty_log_dirs=frozenset(self.empty_log_dirs),
            error_log_dirs=dict(self.error_log_dirs),
            metadata_log_dir=self.metadata_log_dir,
        )
