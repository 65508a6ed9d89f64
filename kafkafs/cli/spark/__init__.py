"""`kafkafs spark`: jobs over log dirs."""
