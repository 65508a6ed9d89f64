"""Which brokers load a log otherwise than the newest does.

Compared were the sources of 2.8.2, 3.3.2, 3.9.1, 4.0.1 and 4.3.1; a release between two of them is taken to be
like the older one. What differs in what comes of a log:

- before 4.1 an offset is looked up by the last offsets of batches, not by their base offsets, which matters
  where offsets are not in order;
- before 3.1 an interrupted replacement of segments is finished otherwise, see `old_steps`;
- logs that the cluster does not know are set aside as stray from 3.7 on, when the cluster has no ZooKeeper,
  and a future log that is where the cluster wants its partition becomes the log;
- before 4.0 a broker may run with ZooKeeper, and then needs no meta.properties.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.plan.loading.broker_steps import BROKER_RULES
from engine.plan.loading.old_steps import RULES_28_TO_30, RULES_31_TO_40
from engine.writing.log.log_loader import LoadingRules

CURRENT = "4.3.1"
OLDEST = (2, 8)
NEWEST = (4, 3)
_LAST_MINOR = {2: 8, 3: 9}
_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(\.[0-9]{1,3})*")


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """How a release loads logs.

    Attributes:
        name: as it was asked for.
        rules: how it loads a log.
        sets_aside_strays: whether logs that the cluster does not know are renamed at the start, and future logs
            that are where the cluster wants them become the logs.
        may_have_zookeeper: whether it may run without a metadata log.
    """

    name: str
    rules: LoadingRules = BROKER_RULES
    sets_aside_strays: bool = True
    may_have_zookeeper: bool = False


def broker_version(name: str = CURRENT) -> BrokerVersion:
    """The release of that name. Raises ValueError for none, and for one that is not known here."""
    match = _VERSION.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no version of Kafka, which are like {CURRENT}")
    release = int(match[1]), int(match[2])
    known = f"known here are {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    if release < OLDEST:
        raise ValueError(f"{name} is before the releases whose loading is known: {known}")
    if not _is_release(*release):
        raise ValueError(f"{name} is no release whose loading is known: {known}")
    rules = BROKER_RULES
    if release < (4, 1):
        rules = RULES_28_TO_30 if release < (3, 1) else RULES_31_TO_40
    return BrokerVersion(
        name,
        rules,
        sets_aside_strays=release >= (3, 7),
        may_have_zookeeper=release < (4, 0),
    )


def _is_release(major: int, minor: int) -> bool:
    """Whether there is such a release, from the oldest that is known to the newest."""
    return OLDEST <= (major, minor) <= NEWEST and minor <= _LAST_MINOR.get(major, minor)
