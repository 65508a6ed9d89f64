"""New log directories out of what is left of others."""
