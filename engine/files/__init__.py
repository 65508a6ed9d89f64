"""Source files: names, listings and read-only access."""
