"""What is derived from a log and kept beside it."""
