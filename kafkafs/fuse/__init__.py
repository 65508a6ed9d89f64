"""The pyfuse3 adapter: answers the kernel's requests from the tree."""
