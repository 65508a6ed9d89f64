"""Groups of all kinds, and the share partitions of share groups."""
