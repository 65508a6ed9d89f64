"""Replacements of parts of pyfuse3, until pyfuse3 has them."""
