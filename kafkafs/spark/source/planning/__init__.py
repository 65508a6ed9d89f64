"""Plan of a query: offsets resolved against the logs, and cut into splits for tasks."""
