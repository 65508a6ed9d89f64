"""The cut: a whole cluster as of a moment, consistent over all partitions."""
