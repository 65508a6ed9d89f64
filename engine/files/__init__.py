"""Source files: names, listings, reading without a way to write."""
