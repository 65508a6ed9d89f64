"""What a query asks for: options, offsets, partitions, log dirs."""
