"""What DumpLogSegments prints, and more."""
