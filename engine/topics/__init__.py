"""Decoded records of Kafka's internal topics."""
