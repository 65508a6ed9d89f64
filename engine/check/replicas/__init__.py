"""Two copies of a partition compared."""
