"""The root of the tree, and the folders about the whole source."""
