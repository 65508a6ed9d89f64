"""Sentences for a selection without a match, with the names of the source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.log.partition_choice import Choosable

CONTROLLER = "this is a KRaft controller's log dir: it has the metadata log alone; the records of topics are in brokers' log dirs"
_MOST_NAMES = 4
_LIKENESS = 0.6


def unmatched_partition(option: str, text: str, logs: Mapping[str, Choosable]) -> str:
    """Return the sentence for a selection that matches no partition.

    Args:
        option: the option, such as "--topic"; "" for a path.
        text: its value, to suggest a similar one.
        logs: all partitions of the source by name.
    """
    what = f"no partition matches {option} {text}" if option else "no such partition"
    if is_of_controller(logs):
        return f"{what}; {CONTROLLER}"
    proper = {name: log for name, log in logs.items() if name == str(log.topic_partition)} or logs
    topics = {name: log.topic_partition.topic for name, log in proper.items()}
    if option == "--topic" and (meant := _meant(text, topics)) is not None:
        return f"{what}; did you mean {meant}?"
    asked = text.partition(":")[0], text.rpartition("-")[0]
    same_topic = [name for name, topic in topics.items() if topic in asked]
    if same_topic:
        return f"{what}; {known_names(same_topic, 'partition')}"
    names = sorted(proper, key=lambda name: name.startswith("__"))
    candidates = [*(() if option == "--partition" else sorted(set(topics.values()))), *names]
    return f"{what}; {known_names(names, 'partition', text, candidates)}"


def is_of_controller(logs: Mapping[str, Choosable]) -> bool:
    """Return whether a source has the metadata log of a cluster, and no other."""
    from engine.topics.topic_names import CLUSTER_METADATA

    return {log.topic_partition.topic for log in logs.values()} == {CLUSTER_METADATA}


def _meant(text: str, topics: Mapping[str, str]) -> str | None:
    """Return the option that takes partitions, for a value of --topic that is a folder or a regular expression."""
    if text in topics:
        return f"--partition {text}"
    with suppress(re.error):
        if any(map(re.compile(text).fullmatch, topics.values())):
            return f"--topic '/{text}/'"
    return None


def known_names(
    names: Sequence[str], noun: str, text: str = "", candidates: Iterable[str] | None = None
) -> str:
    """Return a sentence with some names of the source, and the name that is most similar to a text.

    Args:
        names: all names; the first four are shown.
        noun: kind of the names, for an empty list.
        text: name that was asked for.
        candidates: names to suggest; by default `names`.
    """
    if not names:
        return f"the source has no {noun}"
    shown = ", ".join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    sentence = f"the source has {shown}" + (f" ({more} more)" if more > 0 else "")
    like = text and most_like(text, names if candidates is None else candidates)
    return f"{sentence}; did you mean {like}?" if like else sentence


def did_you_mean(text: str, names: Iterable[str]) -> str:
    """Return the end of a sentence about a wrong name: the name that is most similar, or nothing.

    >>> did_you_mean("ordres", ["orders", "txn"]), did_you_mean("x", ["orders"])
    (': did you mean orders?', '')
    """
    like = most_like(text, names)
    return f": did you mean {like}?" if like else ""


def most_like(text: str, names: Iterable[str]) -> str | None:
    """Return the name that is most similar to a text; None if none is."""
    from difflib import get_close_matches

    names = list(names)
    longer = [name for name in names if len(text) > 2 and name.startswith(text)]
    found = longer or get_close_matches(text, names, n=1, cutoff=_LIKENESS)
    return found[0] if found else None
