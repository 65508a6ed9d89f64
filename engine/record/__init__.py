"""Records and record batches of magic 0, 1 and 2."""
