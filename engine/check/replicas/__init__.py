"""Comparison of two copies of a partition."""
