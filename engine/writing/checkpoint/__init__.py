"""Small text files of a log dir, with their writers."""
