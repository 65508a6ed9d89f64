"""The messages of the protocol that the server reads and writes."""
