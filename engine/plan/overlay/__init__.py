"""A disk whose changes stay in this process."""
