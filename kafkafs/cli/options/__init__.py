"""Options that many commands share, and what they mean: partitions, times and ranges."""
