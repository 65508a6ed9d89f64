"""Parameters of a query: options, offsets, partitions, log dirs."""
