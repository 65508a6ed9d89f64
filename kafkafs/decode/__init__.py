"""Bytes to what a person or a job can use."""
