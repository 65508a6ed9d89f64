"""A read-only Kafka broker over log dirs: frames, connections, look-ups, answers."""
