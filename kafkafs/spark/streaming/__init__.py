"""Log directories as a source of Structured Streaming: a query follows the logs that a broker writes."""
