"""Checks of the files beside the records: indexes, snapshots, checkpoints."""
