"""Ends the program that asks the clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka import jars
from tests.kafka.recover.cluster_state import cluster_state


@pytest.fixture(scope="package", autouse=True)
def asked_clusters() -> Iterator[None]:
    """Ends the program behind the last test."""
    yield
    if cluster_state.cache_info().currsize:
        cluster_state(jars.CURRENT).close()
        cluster_state.cache_clear()
