"""Small files that only a running broker writes."""
