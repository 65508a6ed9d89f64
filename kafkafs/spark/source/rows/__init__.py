"""What a task gives: records, batches or segments as Arrow record batches."""
