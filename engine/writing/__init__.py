"""The writing log: segments that are appended to, logs, loading, log dirs, compaction."""
