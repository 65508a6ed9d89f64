"""Copies of tiered storage, shown as a log dir."""
