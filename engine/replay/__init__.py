"""Replay the internal topics: groups, transactions and the cluster."""
