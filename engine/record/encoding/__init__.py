"""From records to bytes: batches of magic 0, 1 and 2."""
