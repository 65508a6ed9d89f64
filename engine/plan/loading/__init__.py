"""Load a log by Kafka's rules, version by version."""
