"""Sorted files of fixed-size entries that say where things are in a segment."""
