"""A log as it is at one moment, and how the next moment is told from it."""
