"""A log put together out of pieces: what is salvaged, filled, cut and laid out."""
