"""Segments, logs and log directories."""
