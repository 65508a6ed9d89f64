"""Index writers."""
