"""A registry's topic: its records, and what they add up to."""
