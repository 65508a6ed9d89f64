"""Which brokers load a log otherwise than the newest does."""

from __future__ import annotations

from dataclasses import dataclass

from engine.plan.broker_loader import BrokerLoader

CURRENT = "4.3.1"


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """How a release loads logs.

    Attributes:
        name: as it was asked for.
        loader: what loads a log.
        has_topic_ids: whether partition.metadata is read.
    """

    name: str
    loader: type[BrokerLoader]
    has_topic_ids: bool = True


def broker_version(name: str = CURRENT) -> BrokerVersion:
    """The release of that name. Raises ValueError."""
    return BrokerVersion(name, BrokerLoader)
