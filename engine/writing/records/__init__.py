"""Build and rewrite records and batches, and append them to files."""
