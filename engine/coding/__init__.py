"""Bytes to numbers and back: layouts, varints, checksums, compression."""
