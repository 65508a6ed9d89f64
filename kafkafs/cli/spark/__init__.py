"""`kafkafs spark`: jobs over log dirs, one module for each."""
