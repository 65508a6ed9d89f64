"""What a broker would do to a log directory if it started on it."""
