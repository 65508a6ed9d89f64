"""Reading log dirs in Spark: options, offsets, splits, rows."""
