"""Writable log of a partition: load, append, truncate, retain."""
