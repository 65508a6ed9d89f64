"""Files of a job: their file systems, their columns, and the ledger of written ones."""
