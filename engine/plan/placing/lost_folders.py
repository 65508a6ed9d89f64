"""Find the partitions that the cluster assigns to a broker and no folder holds: it makes them anew, from offset 0 on.

See Partition.createLogInAssignedDirectoryId and LogManager.getOrCreateLog in Kafka. `engine.verdict.missing_folders` decides
which these are; here is what the start does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from engine.files.file_names import (
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FolderState,
    folder_name,
)
from engine.plan.loading.broker_failure import Outcome
from engine.plan.log_dir_plan import LogDirPlan
from engine.plan.placing.assignments import Assignments
from engine.plan.placing.future_logs import FoundLog, FutureFate, FutureLog, Place
from engine.units import TopicPartition
from engine.verdict.missing_folders import MissingFolder, StatedOffsets, missing_folders


class LostFolder(NamedTuple):
    """A partition that the cluster assigns to this broker, and no folder of the log dirs holds.

    Attributes:
        missing: the partition, and what it held.
        stray: name of the folder that is set aside as stray; None if there is no folder.
    """

    missing: MissingFolder
    stray: str | None = None

    def sentences(self) -> Iterator[str]:
        """Yield what becomes of the partition, and what it held."""
        missing = self.missing
        where = missing.log_dir or "one of the log dirs"
        gone = "there is no folder of it" if self.stray is None else f"{self.stray} becomes stray"
        yield f"{gone}, and the broker makes an empty one in {where}"
        if missing.log_dir is None and missing.directory_id is not None:
            yield (
                f"the cluster assigns it to the log dir with the directory.id {missing.directory_id}, which is none of"
                " these: if there is such a log dir, name it, too"
            )
        yield f"{missing.held} ({', '.join(missing.proofs)})" if missing.proofs else missing.held
        if missing.other_replicas:
            nodes = ", ".join(map(str, missing.other_replicas))
            yield (
                f"if another replica ({nodes}) leads it, this broker fetches it again; if this broker does, it gives"
                " offset 0 again and the others cut their logs"
            )
        else:
            yield "there is no other replica: the broker gives offset 0 again"


def lost_folders(
    log_dirs: Sequence[LogDirPlan],
    assignments: Assignments,
    found: Iterable[FoundLog],
    futures: Mapping[Place, FutureLog],
) -> Iterator[LostFolder]:
    """Yield the partitions without a folder, by topic and number.

    Args:
        log_dirs: all log dirs of the broker.
        assignments: the cluster's assignments.
        found: all logs in the log dirs.
        futures: fates of the future logs.
    """
    if assignments.cluster is None:
        return
    strays: dict[TopicPartition, str] = {}
    beside: dict[TopicPartition, list[str]] = {}
    there: set[TopicPartition] = set()
    for each in found:
        future = futures.get(each.place)
        becomes_log = future is not None and future.fate is FutureFate.BECOMES_LOG
        if each.is_stray and each.log.state is FolderState.LOG:
            strays[each.log.partition] = each.place.folder
        elif each.log.state is FolderState.LOG or becomes_log:
            there.add(each.log.partition)
        if each.log.state is not FolderState.LOG:
            beside.setdefault(each.log.partition, []).append(each.log.name)
    links = {name for each in log_dirs for name in each.links}
    stated = [_stated(each, assignments.directory_ids.get(each.path)) for each in log_dirs]

    def has_folder(partition: TopicPartition, _log_dir: str | None) -> bool:
        return partition in there or folder_name(partition) in links

    cluster, node_id = assignments.cluster, assignments.node_id
    for missing in missing_folders(cluster, node_id, stated, has_folder, beside):
        if missing.topic_id is None:
            continue  # the broker does not make it
        yield LostFolder(missing, strays.get(missing.partition))


def _stated(log_dir: LogDirPlan, directory_id: str | None) -> StatedOffsets:
    return StatedOffsets(
        log_dir.path,
        directory_id,
        log_dir.has_marker,
        log_dir.log_starts,
        {
            REPLICATION_OFFSET_CHECKPOINT: log_dir.high_watermarks,
            RECOVERY_POINT_CHECKPOINT: log_dir.recovery_points,
        },
    )


def made_anew(lost: Iterable[LostFolder], log_dirs: Sequence[LogDirPlan]) -> Iterator[LostFolder]:
    """Yield the partitions that the broker makes anew: none that may be in a log dir that is offline."""
    down = {each.path for each in log_dirs if each.outcome is Outcome.LOG_DIR_OFFLINE}
    if len(down) == len(log_dirs):
        return
    for each in lost:
        log_dir = each.missing.log_dir
        is_live = each.missing.is_unassigned if log_dir is None else log_dir not in down
        if is_live or not down:
            yield each


def dirs_of_new_logs(lost: Iterable[LostFolder], live_logs: Mapping[str, int]) -> set[str]:
    """Return the log dirs in which the broker makes partitions anew: the assigned one, else the one with the fewest logs.

    See LogManager.nextLogDirs in Kafka, which takes the first of several.

    Args:
        lost: the partitions that the broker makes anew.
        live_logs: number of logs by the path of each log dir that is not offline, in the order of `log.dirs`.
    """
    counts, found = dict(live_logs), set[str]()
    for each in lost:
        path = each.missing.log_dir or min(counts, key=counts.__getitem__)
        counts[path] += 1
        found.add(path)
    return found
