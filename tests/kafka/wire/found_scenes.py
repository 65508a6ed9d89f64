"""Scenes of what random requests of members have found."""

from __future__ import annotations

from tests.kafka.wire.embedded import subscription
from tests.kafka.wire.member import COMMIT, OTHER_ID, ZERO_ID, Fields, Member
from tests.kafka.wire.scenes import Scenes

FOUND = Scenes()


@FOUND.scene
def a_static_member_joins_again_before_it_has_left(me: Member) -> None:
    me.become("a", instanceId="one")
    me.become("a", instanceId="one")
    me.live("a", -2, instanceId="one")
    me.become("a", instanceId="one")
    me.describe()


@FOUND.scene
def a_member_names_another_instance_id(me: Member) -> None:
    me.become("a")
    me.become("a", instanceId="one")
    me.live("a", 2, owned={})
    me.describe()
    me.become("a", instanceId="two")
    me.live("a", 2, instanceId="one")
    me.describe()


@FOUND.scene
def a_member_leaves_twice_in_a_request(me: Member) -> None:
    me.become("a")
    me.become("b")
    me.leave(("a", None), ("a", None))
    me.describe()


@FOUND.scene
def a_pending_member_has_an_instance_id(me: Member) -> None:
    given = str(me.join()["memberId"])
    me.join(given, groupInstanceId="one")
    me.join(given)


@FOUND.scene
def patterns_are_looked_up_after_a_heartbeat(me: Member) -> None:
    by_pattern: Fields = {"subscribedTopicNames": None, "serverAssignor": "range"}
    me.become("a", subscribedTopicRegex="ord.*", **by_pattern)
    me.wait_for_epoch(2)
    me.describe()
    me.live("a", 1)
    me.become("b", subscribedTopicRegex="no-such-.*", **by_pattern)
    me.become("c", subscribedTopicRegex="ord.*", **by_pattern)
    me.describe()
    me.live("a", 2, subscribedTopicRegex="", subscribedTopicNames=["orders"], owned={})
    me.describe()
    me.live("c", -1)
    me.live("a", 4, subscribedTopicRegex="comp[[:alpha:]]+")
    me.wait_for_epoch(6)
    me.live("a", 4, subscribedTopicRegex="[z-a]")
    me.join("own", protocols={"range": subscription(["orders"])})
    me.describe()


@FOUND.scene
def a_member_without_topics_begins_no_epoch(me: Member) -> None:
    me.become("a", subscribedTopicNames=[])
    me.become("b")
    me.become("c", subscribedTopicNames=[])
    me.describe()


@FOUND.scene
def assignors_with_as_many_wishes(me: Member) -> None:
    me.become("g0", serverAssignor="uniform")
    me.become("a1", serverAssignor="range", subscribedTopicNames=["orders", "codec-zstd"])
    me.describe()
    me.become("a2", serverAssignor="uniform")
    me.live("a2", -1)
    me.live("g0", 2, owned={})
    me.describe()
    me.live("a1", 3, owned={})
    me.describe()


@FOUND.scene
def commits_of_what_is_not_there(me: Member) -> None:
    me.become("a", subscribedTopicNames=[])
    partitions = [
        {"partitionIndex": number, "committedOffset": 7, "committedMetadata": metadata}
        for number, metadata in ((0, "x" * 4097), (99, ""), (1, ""), (0, ""))
    ]
    for member, epoch in (("a", 1), ("ghost", 1), ("a", 2)):
        for version, topics in (
            (9, [{"name": name} for name in ("orders", "gone", "orders", "", "gone")]),
            (10, [{"topicId": topic_id} for topic_id in (ZERO_ID, OTHER_ID, ZERO_ID)]),
        ):
            for many in (
                [each | {"partitions": partitions} for each in topics],
                [topics[0] | {"partitions": partitions[:1]}],
            ):
                me.ask(
                    COMMIT,
                    version,
                    groupId=me.group,
                    generationIdOrMemberEpoch=epoch,
                    memberId=member,
                    topics=many,
                )
