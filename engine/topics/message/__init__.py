"""Kafka's messages: schemas with their versions, as data, and what reads them."""
