"""Commands of what goes on running: mounts, servers, and a look at them."""
