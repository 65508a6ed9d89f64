"""Batches as text: record lines, streams of known size, caches, search."""
