"""Replacements for parts of pyfuse3, until pyfuse3 provides them."""
