"""The pyfuse3 adapter of the tree."""
