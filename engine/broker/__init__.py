"""Parts of the storage layer that only a running broker needs; no command uses them."""
