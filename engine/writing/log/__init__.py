"""Load the writable log of a partition."""
