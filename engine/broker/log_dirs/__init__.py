"""All logs of a broker's log dirs: loaded, created, flushed, deleted."""
