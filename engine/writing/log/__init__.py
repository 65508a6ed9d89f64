"""The log of a partition that is written: append, load, truncate, retain."""
