"""Text for terminals and pipes: tables, bars, progress."""
