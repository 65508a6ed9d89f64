"""Text of records: record lines, JSON and the text of DumpLogSegments."""
