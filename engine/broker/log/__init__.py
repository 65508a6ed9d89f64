"""Writable log of a partition: append, read, roll, truncate, retain."""
