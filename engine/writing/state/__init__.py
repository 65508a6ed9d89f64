"""Leader epochs and producers of a log that is written."""
