"""Checks of batches and records, and of their order in a partition."""
