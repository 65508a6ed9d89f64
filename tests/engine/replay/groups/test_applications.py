"""Groups of Kafka Connect and Kafka Streams are told by what their records say."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from engine.replay.groups.group import CommittedOffset, Group, Member

NOW = 1_700_000_000_000


def offset(topic: str, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(topic, 0, 5, None, metadata, NOW, None, None, None, 0, NOW)


def group(name: str = "g", **facts: Any) -> Group:
    usual: dict[str, Any] = {"kind": "classic", "state": "Empty", "protocol_type": "consumer"}
    return Group(group_id=name, **(usual | facts))


def committed(topic: str, metadata: str = "") -> dict[str, Any]:
    return {"offsets": {(topic, 0): offset(topic, metadata)}}


def packed(version: int, time: int, more: bytes = b"") -> str:
    return base64.b64encode(bytes([version]) + time.to_bytes(8, "big", signed=True) + more).decode()


@pytest.mark.parametrize(
    ("found", "name", "evidence"),
    [
        (group(protocol_type="connect"), "connect-workers", "protocol type"),
        (group("connect-lake"), "connect-sink", "name"),
        (group(kind="streams", protocol_type="streams"), "streams", "group type"),
        (group(details={"protocol": "stream"}), "streams", "assignor"),
        (
            group(members=(Member(member_id="m", client_id="app-1-StreamThread-2-consumer"),)),
            "streams",
            "client id",
        ),
        (group("app", **committed("app-counts-repartition")), "streams", "internal topic"),
        (group(**committed("t", packed(2, NOW))), "streams", "commit metadata"),
        (group(**committed("t", packed(1, -1))), "streams", "commit metadata"),
        (group(**committed("t", packed(2, NOW, b"abc"))), "streams", "commit metadata"),
    ],
)
def test_an_application_is_told_with_its_evidence(found: Group, name: str, evidence: str) -> None:
    assert found.application == (name, evidence)
    facts = found.facts()
    assert (facts["application"], facts["applicationBy"]) == (name, evidence)


@pytest.mark.parametrize(
    "found",
    [
        group(),
        group(kind="share", protocol_type="share"),
        group(**committed("other-counts-repartition")),
        group(**committed("t", "a remark")),
        group(**committed("t", packed(3, NOW))),
        group(**committed("t", packed(2, 1 << 62))),
        group(**committed("t", base64.b64encode(b"short").decode())),
        group("reconnect-lake"),
    ],
)
def test_other_groups_are_of_no_known_application(found: Group) -> None:
    assert found.application is None
    assert found.facts()["application"] is None
