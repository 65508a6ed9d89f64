"""The small text files of a log dir that is written, and its lock."""
