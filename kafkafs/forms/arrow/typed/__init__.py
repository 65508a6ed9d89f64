"""Decoded keys and values of a topic as columns of Arrow types, filled by programs."""
