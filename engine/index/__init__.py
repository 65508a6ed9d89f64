"""Index files: sorted entries of fixed size that point into a segment."""
