"""Dumps of any file of a log directory: the text of DumpLogSegments, and JSON lines."""
