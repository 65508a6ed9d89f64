"""Limits on what clients may cost the server; each field is a name for `-o` of `kafkafs serve`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from engine.budgets import MiB
from kafkafs.amounts import parsed_size
from kafkafs.mount.mounting import split_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeBudgets:
    """Limits that apply whatever a client sends."""

    request_bytes: int = 4 * MiB
    """Largest request; a larger one closes the connection."""
    request_elements: int = 200_000
    """Most elements of all arrays of a request, such as the partitions that it names; see Broker.most_elements."""
    pending_bytes: int = 64 * MiB
    """Most bytes of all requests that are being read or answered."""
    fetch_bytes: int = 64 * MiB
    """Most record bytes of one answer, whatever its request allows; a single larger batch is sent whole."""
    login_bytes: int = 64 * 1024
    """Largest request of a client that has not logged in."""
    connections: int = 2000
    """Most clients that are connected at the same time."""
    connections_per_address: int = 500
    """Most of them from one address."""
    groups: int = 10_000
    """Most groups with members; those without, or whose members are silent, make room first."""
    frame_seconds: int = 30
    """Time for the rest of a request after its first byte, for a TLS handshake, and for a login."""
    idle_seconds: int = 600
    """Time without a request, or without room for an answer, after which a connection is closed."""
    wait_seconds: int = 60
    """Longest time for which a Fetch waits for records, whatever its request allows."""
    first_rebalance_milliseconds: int = 500
    """Time for more members to come before the first rebalance of a classic group ends."""
    failed_login_milliseconds: int = 1000
    """Time after which a client is told that its login failed."""
    own_threads: int = 8
    """Most busy clients that each have a thread; further ones share a few threads."""
    workers: int = 64
    """Most threads that look up and read at the same time."""


DEFAULT_SERVE_BUDGETS = ServeBudgets()


class BudgetError(Exception):
    """A text of `-o` that is no limit."""


def parse_budgets(texts: Iterable[str]) -> ServeBudgets:
    """Return the limits of `-o`: `name=value`, comma-separated.

    Raises:
        BudgetError: a name is unknown, or a value is no positive number.
    """
    known = [each.name for each in fields(ServeBudgets)]
    chosen: dict[str, int] = {}
    for text in texts:
        for item in split_options(text):
            name, _, value = item.partition("=")
            name = name.strip().replace("-", "_")
            if name not in known:
                raise BudgetError(f"unknown option {name!r}; there are {', '.join(known)}")
            size = parsed_size(value)
            if size is None:
                raise BudgetError(f"option {name} cannot be {value!r}")
            chosen[name] = size
    return replace(DEFAULT_SERVE_BUDGETS, **chosen)
