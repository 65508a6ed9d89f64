"""The messages of all APIs that brokers serve to clients, one module for each theme."""
