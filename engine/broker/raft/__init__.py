"""The log of a KRaft quorum and its snapshots."""
