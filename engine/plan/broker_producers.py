"""The producers of a log as a broker loads them: any name that ends like a snapshot is one."""

from __future__ import annotations

from pathlib import Path

from engine.file_names import FileKind
from engine.plan.broker_failure import stops
from engine.plan.java_text import offset_in_name
from engine.state.producer_state_manager import ProducerStateManager
from engine.state.snapshot_file import SnapshotFile
from engine.units import Offset

_ENDING = FileKind.PRODUCER_SNAPSHOT.value


class BrokerProducers(ProducerStateManager):
    """See ProducerStateManager. Raises BrokerFailure for a snapshot without an offset in its name."""

    def _load_snapshots(self) -> dict[Offset, SnapshotFile]:
        found = {}
        for name in self._disk.list(self.folder):
            path = Path(self.folder, name)
            if not name.endswith(_ENDING) or self._disk.is_dir(path):
                continue
            offset = offset_in_name(name)
            if offset is None:
                raise stops("NumberFormatException", f"{path} has no offset before its first dot")
            found[offset] = SnapshotFile(path, offset, self._disk)
        return dict(sorted(found.items()))
