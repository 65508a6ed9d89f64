"""One segment: its scan, look-ups by offset and time, damage."""
