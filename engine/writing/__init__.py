"""Writable logs: segments, loading."""
