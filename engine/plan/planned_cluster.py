"""The cluster as a node knows it after its start: what its metadata log holds once that has been loaded.

A node that is the only controller has nothing else, and what its loading cuts off is gone for the cluster. Any other
node gets the rest again from the other controllers, before it sets a log aside.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from engine.checkpoint.quorum_state import parse_quorum_state
from engine.errors import DamagedFileError, KafkaStorageError
from engine.files.file_names import QUORUM_STATE
from engine.log.log_directory import LogSource, open_source
from engine.log.view.log_view import LogView
from engine.plan.loading.broker_failure import stops
from engine.plan.log_dir_plan import METADATA_LOG
from engine.plan.log_plan import LogPlan
from engine.plan.metadata_log import PlannedMetadata
from engine.replay.cluster import ClusterImage, ClusterReplay, image_at_start
from engine.units import Offset


class PlannedCluster(NamedTuple):
    """The cluster after a start.

    Attributes:
        image: topics and replicas; None if they cannot be told.
        held: the metadata log's offsets that are in `image` only because another controller has them, too.
        is_empty: whether the metadata log has no records, and no snapshot but that of the format.
        is_consistent: whether the records fit each other: a node stops at one that changes what there is not.
        voters: the controllers; None if neither the log nor the quorum-state beside it states them.
        controllers, brokers: the nodes that are such by the log.
        end: end of the planned metadata log.
    """

    image: ClusterImage | None = None
    held: int = 0
    is_empty: bool = False
    is_consistent: bool = True
    voters: frozenset[int] | None = None
    controllers: frozenset[int] = frozenset()
    brokers: frozenset[int] = frozenset()
    end: Offset = 0

    def decides_alone(self, node_id: int | None) -> bool:
        """Whether the node is the only controller, as far as the log states that."""
        return self.voters is None or self.voters == {node_id}

    def other_controllers(self, node_id: int | None) -> frozenset[int] | None:
        """Return the controllers besides the node; None if they are not known."""
        return None if self.voters is None or node_id is None else self.voters - {node_id}

    def is_controller_only(self, node_id: int | None) -> bool:
        """Whether the node is a controller, and never was a broker: then it loads no other log."""
        return node_id in self.controllers and node_id not in self.brokers


def planned_cluster(log_dir: str, metadata: PlannedMetadata, node_id: int | None) -> PlannedCluster:
    """Replay the metadata log of a log dir as it is after its loading.

    Args:
        log_dir: path of the log dir.
        metadata: its metadata log, which loads.
        node_id: the node that starts; None if unknown.
    """
    end = metadata.plan.log_end or 0
    source: LogSource | None = None
    found = PlannedCluster(end=end)
    with suppress(OSError, KafkaStorageError):
        source = open_source(log_dir)
        view = source.partitions()[METADATA_LOG].view()
        image = image_at_start(view, metadata.read)
        snapshot, of_log = image.snapshot, voters_in(image) or frozenset()
        voters = of_log or stated_voters(view, node_id)
        is_empty = not end and (snapshot is None or not snapshot.end_offset)
        is_alone = voters is not None and voters == {node_id}
        is_known = not is_empty or (snapshot is not None and is_alone)
        found = PlannedCluster(
            image if is_known and image.missing is None else None,
            is_consistent=not image.notes,
            is_empty=is_empty,
            voters=voters,
            controllers=of_log | frozenset(image.table("controllers")),
            brokers=frozenset(image.table("brokers")),
            end=end,
        )
        if not found.decides_alone(node_id):
            whole = ClusterReplay(source).image()
            if whole.missing is None and whole.next_offset > image.next_offset:
                found = found._replace(image=whole, held=whole.next_offset - image.next_offset)
    if source is not None:
        source.close()
    return found


def voters_in(image: ClusterImage) -> frozenset[int] | None:
    """Return the controllers that an image states; None if it states none."""
    quorum = image.table("quorum")
    for name in ("voters", "leader"):
        item = quorum.get(name)
        voters = [] if item is None else item.facts.get("voters") or []
        if voters:
            return frozenset(each["voterId"] for each in voters)
    return None


def stated_voters(view: LogView, node_id: int | None) -> frozenset[int] | None:
    """Return the controllers that quorum-state names, at least the leader if it is another node; None if it names none."""
    try:
        state = parse_quorum_state(view.read_side_file(QUORUM_STATE))
    except (OSError, DamagedFileError):
        return None
    voters = frozenset(state.current_voters)
    if not voters and state.leader_id >= 0 and state.leader_id != node_id:
        voters = frozenset([state.leader_id])
    return voters or None


def with_cluster(plan: LogPlan, found: PlannedCluster, node_id: int | None) -> LogPlan:
    """Return the plan of the metadata log with what its records say of the start."""
    if not found.is_consistent and (plan.is_at_risk or found.decides_alone(node_id)):
        return plan.failed(stops("", f"{plan.folder} changes what it does not have"))
    others = sorted(each for each in found.voters or () if each != node_id)
    if found.held:
        return plan.noted(
            f"the node fetches the offsets from {found.end} on again, if the other controllers"
            f" ({', '.join(map(str, others))}) have them"
        )
    return plan
