"""Batches of the source for clients: which of them, whether they are good, where their bytes lie."""
