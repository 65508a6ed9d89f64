"""Limits on what clients may cost the server; each field is an option of `kafkafs serve`."""

from __future__ import annotations

from dataclasses import dataclass

from engine.budgets import MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeBudgets:
    """Limits that apply whatever a client sends."""

    request_bytes: int = 4 * MiB
    """Largest request; a larger one closes the connection."""
    pending_bytes: int = 64 * MiB
    """Most bytes of all requests that are being read or answered."""
    fetch_bytes: int = 64 * MiB
    """Most record bytes of one answer, whatever its request allows; a single larger batch is sent whole."""
    connections: int = 2000
    frame_seconds: float = 30.0
    """Time for the rest of a request after its first byte."""
    idle_seconds: float = 600.0
    """Time without a request, or without room for an answer, after which a connection is closed."""
    workers: int = 16
    """Most threads that look up and read at the same time."""


DEFAULT_SERVE_BUDGETS = ServeBudgets()
