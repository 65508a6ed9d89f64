"""Entries of the files beside the records files: indexes, snapshots, checkpoints."""
