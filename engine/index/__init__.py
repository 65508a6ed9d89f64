"""Index files: sorted entries of fixed size that point into a segment; and a map of keys to offsets in memory."""
