"""Files derived from a log: leader epochs and producer snapshots."""
