"""Writable logs: segments, appends, loading."""
