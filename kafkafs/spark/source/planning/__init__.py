"""What each task reads: offsets resolved against the logs, and cut into splits."""
