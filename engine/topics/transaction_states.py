"""States of a transaction in TransactionLogValue, as Kafka names them."""

from __future__ import annotations

from engine.topics.decoded_record import JsonObject

STATES = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
"""Kafka's names of the states by number."""


def name_state(data: JsonObject) -> None:
    """Replace the number of the state with its name, as Kafka's tools do from 4.4 on; an unknown one is its number, as text."""
    number = data["transactionStatus"]
    data["transactionStatus"] = STATES.get(number, str(number))
