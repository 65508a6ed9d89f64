"""Two managers in one process, as the brokers of a leader and a follower: records go from one to the other.

Nothing is sent over a network, nobody elects a leader, and no replica leaves the in-sync replicas: what a
test says happens at once. What is tested are the logs, their checkpoints and the failure of a log dir.
"""

from __future__ import annotations

from pathlib import Path

from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_dirs import LogManager
from engine.files.file_names import REPLICATION_OFFSET_CHECKPOINT
from engine.record.memory_records import MemoryRecords
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from tests.conformance.log_managers import CONFIG, Managers
from tests.conformance.unified_log_steps import one

PARTITION = TopicPartition("topic", 0)


class Replica:
    """A broker with a log of the partition in its first log dir; `start` and `stop` are a restart."""

    def __init__(self, managers: Managers, log_dirs: list[Path], config: LogConfig) -> None:
        self.managers = managers
        self.log_dirs = log_dirs
        self.config = config
        self.manager: LogManager
        self.start()

    def start(self) -> None:
        self.manager = self.managers.start(self.log_dirs, self.config)

    def stop(self) -> None:
        self.manager.shutdown()

    @property
    def log(self) -> UnifiedLog:
        """The log, which is created the first time."""
        return self.manager.get_or_create_log(PARTITION)

    @property
    def checkpointed(self) -> int:
        """The high watermark that its log dir's file says, 0 when it does not."""
        path = self.log_dirs[0] / REPLICATION_OFFSET_CHECKPOINT
        return OffsetCheckpointFile(path).read().get(PARTITION, 0)


class ReplicaPair:
    """A leader with two log dirs, and a follower."""

    def __init__(self, managers: Managers, folder: Path, config: LogConfig = CONFIG) -> None:
        self.first = Replica(managers, [folder / "first", folder / "spare"], config)
        self.second = Replica(managers, [folder / "second"], config)
        self.leader, self.follower = self.first, self.second
        self.epoch = 0

    def change_leader(self) -> None:
        """The follower leads from now on; both start that with their high watermarks."""
        self.leader, self.follower = self.follower, self.leader
        self.epoch += 1

    def produce(self, count: int = 1) -> None:
        """Records to the leader alone."""
        for _ in range(count):
            self.leader.log.append_as_leader(one(), self.epoch)

    def replicate(self) -> None:
        """What the leader has more goes to the follower, and both high watermarks to the log end."""
        leader, follower = self.leader.log, self.follower.log
        while follower.log_end_offset < leader.log_end_offset:
            fetched = leader.read(follower.log_end_offset, 1000)
            data = b"".join(bytes(batch.raw) for batch in fetched.records.batches())
            follower.append_as_follower(MemoryRecords(data), self.epoch)
        for log in (leader, follower):
            log.update_high_watermark(leader.log_end_offset)
