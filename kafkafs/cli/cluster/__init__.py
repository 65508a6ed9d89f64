"""Commands about the state of a cluster: offsets, topics, groups and transactions."""
