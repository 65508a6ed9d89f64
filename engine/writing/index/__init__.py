"""Indexes that are written."""
