"""The copies of a partition on several brokers' disks: which one leads, how far the others agree, and their union."""
