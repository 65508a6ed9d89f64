"""The records of Kafka's internal topics, decoded."""
