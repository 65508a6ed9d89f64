"""The virtual tree: nodes for every path of a mount, free of FUSE."""
