"""What the records of internal topics add up to: groups, transactions, the cluster."""
