"""Splits: byte ranges of segments, the facts of their batches, and the scan of one."""
