"""Groups between the protocols: their conversions, and members of the classic protocol in consumer groups."""
