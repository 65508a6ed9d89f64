"""Log directories as a source of Structured Streaming: a query follows what a broker writes."""
