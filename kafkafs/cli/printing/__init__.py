"""What the commands print: bytes, tables, reports, progress."""
