"""Messages that clients of classic groups send to each other through the coordinator."""

from __future__ import annotations

from engine.topics.message.notation import read_messages

_MESSAGES = read_messages(__package__, "consumer_protocol.txt")
CONSUMER_PROTOCOL_SUBSCRIPTION = _MESSAGES["ConsumerProtocolSubscription"]
CONSUMER_PROTOCOL_ASSIGNMENT = _MESSAGES["ConsumerProtocolAssignment"]
