"""Any file of a log directory as text: what DumpLogSegments prints, and JSON lines."""
