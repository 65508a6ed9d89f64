"""What a running server tells its operator: status, statistics, problems and log."""
