"""What the coordinators of transactions and groups have to be told: ends of transactions, offsets inside the logs."""
