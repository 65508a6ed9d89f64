"""Leader epochs and producers of a writable log."""
