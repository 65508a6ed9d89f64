"""Records files as DumpLogSegments prints them."""
