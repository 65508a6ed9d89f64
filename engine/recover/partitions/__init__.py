"""What all copies of a partition hold together: its log, the losing tails, and what is proven of it."""
