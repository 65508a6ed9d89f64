"""What a source has lost: decided here, once, for everybody who reads, checks, plans or rebuilds."""
