"""Errors that refuse an export."""

from __future__ import annotations


class OptionError(ValueError):
    """An unknown, malformed or contradictory option; raised before anything is written."""


class NothingToExportError(OptionError):
    """The chosen partitions have no records in the range."""
