"""Make the log dirs of a whole cluster out of those of its dead brokers and controllers."""
