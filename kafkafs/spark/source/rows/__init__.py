"""Output of tasks: records, batches or segments as Arrow record batches."""
