"""Groups that change their protocol with their members, as a broker with its default policy converts them."""

from __future__ import annotations

from collections.abc import Collection

from engine.errors import CorruptMessageError
from kafkafs.serve.coordinator.classic_group import (
    CONSUMER_PROTOCOL,
    ClassicGroup,
    ClassicMember,
    ClassicState,
)
from kafkafs.serve.coordinator.consumer_group import ConsumerGroup
from kafkafs.serve.coordinator.consumer_member import ClassicSide, ConsumerMember
from kafkafs.serve.coordinator.migration.embedded import (
    assignment_bytes,
    read_assignment,
    read_subscription,
)
from kafkafs.serve.coordinator.replies import MemberRefused
from kafkafs.serve.coordinator.topics_now import TopicsNow
from kafkafs.serve.error_codes import ErrorCode


def upgraded(group: ClassicGroup, now: TopicsNow) -> ConsumerGroup:
    """Return the consumer group that a classic one becomes: its members keep their ids and partitions.

    Members that wait for an answer are told to join again, even if the group cannot be converted.

    Raises:
        MemberRefused: the group cannot be converted.
    """
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise _not_converted(group, "its members are no consumers")
    for member in group.members.values():
        again = {"errorCode": ErrorCode.REBALANCE_IN_PROGRESS}
        group.answer_join(member, again | {"memberId": member.member_id})
        group.answer_sync(member, again)
    if group.protocol is None:  # brokers fail here, too
        raise MemberRefused(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group.group_id} has not chosen a strategy yet"
        )
    found = ConsumerGroup(
        group_id=group.group_id,
        account=group.account,
        epoch=group.generation,
        assignment_epoch=group.generation,
    )
    try:
        for member in group.members.values():
            _add_upgraded(found, group, member, group.protocol, now)
    except CorruptMessageError as error:
        found.release()
        raise _not_converted(group, str(error)) from None
    except MemberRefused:
        found.release()
        raise
    found.subscriptions.refresh(now)
    return found


def _add_upgraded(
    found: ConsumerGroup, group: ClassicGroup, member: ClassicMember, protocol: str, now: TopicsNow
) -> None:
    places, data = read_assignment(member.assignment, now) if member.assignment else ([], b"")
    if data:
        raise _not_converted(group, "its assignor keeps data of its own")
    if protocol not in member.protocols or any(place in found.owners for place in places):
        raise MemberRefused(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"member {member.member_id} has another strategy, or partitions of another member",
        )
    subscription = read_subscription(member.protocols[protocol], now)
    found.add(
        ConsumerMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rack_id=subscription.rack_id,
            rebalance_ms=member.rebalance_ms,
            names=subscription.topics,
            epoch=group.generation,
            previous_epoch=group.generation,
            classic=ClassicSide(member.session_ms, member.protocols),
        )
    )
    found.give(found.members[member.member_id], places)


def downgraded(group: ConsumerGroup, staying: Collection[ConsumerMember]) -> ClassicGroup:
    """Return the classic group that a consumer group becomes when only classic members stay.

    The group is stable, and its members have their target assignments.
    """
    found = ClassicGroup(
        group_id=group.group_id,
        account=group.account,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        state=ClassicState.STABLE,
    )
    for member in staying:
        if member.classic is not None:
            found.add(
                ClassicMember(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_ms=member.rebalance_ms,
                    session_ms=member.classic.session_ms,
                    protocols=member.classic.protocols,
                    is_new=False,
                )
            )
    protocol = found.protocol = found.choose_protocol()
    names = group.subscriptions.seen.names
    found.assign(
        {
            each.member_id: assignment_bytes(
                group.target.get(each.member_id, ()), names, each.protocols[protocol]
            )
            for each in found.members.values()
        }
    )
    return found


def _not_converted(group: ClassicGroup, reason: str) -> MemberRefused:
    return MemberRefused(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"group {group.group_id} cannot become a consumer group: {reason}",
    )
