"""The small text files of a log directory."""
