"""Rows of batches and columns of records: the tables that the kernel fills."""
