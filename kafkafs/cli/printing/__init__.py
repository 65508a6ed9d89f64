"""Output of the commands: bytes, tables, reports, progress."""
