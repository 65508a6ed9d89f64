"""One segment that is written: append, recover, replace, read."""
