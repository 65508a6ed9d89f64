"""The virtual tree: what every path means, free of FUSE."""
