"""Records and batches that are built, rewritten and appended to files."""
