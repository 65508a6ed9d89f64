"""Where a node's logs belong: its assignments, future logs, logs that moved, folders that are gone."""
