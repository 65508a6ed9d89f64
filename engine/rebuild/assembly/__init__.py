"""Assemble a log from pieces: salvage, fill, cut and lay out."""
