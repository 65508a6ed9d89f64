"""Offsets that clients have committed to this server: in memory, and in the file of `--commit-to`."""
