"""Kafka's messages: schemas with their versions, as data, and their readers."""
