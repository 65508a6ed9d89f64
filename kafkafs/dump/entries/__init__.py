"""The files beside the records, entry by entry: indexes, snapshots, checkpoints."""
